//! The tasks of a legacy session that live, as far as this process knows: their questions are recorded, and their session is kept warm.

use crate::{TaskSnapshot, TaskStatus, connect::legacy::task_progress::TaskProgress, journal::call_record::CallRecord};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::AbortHandle};

/// How long a question may wait for the answer that tells which call its task belongs to. Some servers ask before they answer.
const LONGEST_WAIT_FOR_ANSWER: Duration = Duration::from_secs(2);
/// How long a question that names no task may come before the status that tells whose it is.
const LONGEST_WAIT_FOR_STATUS: Duration = Duration::from_secs(1);
/// How many ends of tasks are kept that no answer has named yet.
const MAX_ENDED_EARLY: usize = 16;
/// How many tasks that ask are remembered with what they ask.
const MAX_ASKING: usize = 64;

/// The live tasks of a connection to a legacy server.
#[derive(Default)]
pub(crate) struct LegacyTasks {
    tasks: watch::Sender<Tasks>,
    /// What keeps the session in use.
    warming: Mutex<Option<AbortHandle>>,
    pub(crate) progress: TaskProgress,
    /// No call is made on the connection: it is for handles of tasks that earlier processes have started.
    is_for_handles: AtomicBool,
}

#[derive(Default)]
struct Tasks {
    /// By id, with their records.
    live: HashMap<String, Option<CallRecord>>,
    /// Those whose questions may be put to the user: this process has made their calls, or waits for them. Others it only looks at.
    may_ask: HashSet<String>,
    /// Recorded calls that the server has not answered. Any question may be that of their tasks.
    calls: Vec<OpenCall>,
    /// The number of the next one.
    next_call: u64,
    /// Those whose end was pushed before the answer that names them was read, the latest last.
    ended_early: VecDeque<String>,
    /// The status messages with which tasks were last said to ask, the latest last.
    asking: VecDeque<(String, String)>,
}

impl Tasks {
    /// The task whose latest status message is this text.
    fn asking(&self, text: &str) -> Option<&String> {
        let asking = self.asking.iter().rev().find(|(_, message)| message == text);
        asking.map(|(task, _)| task)
    }
}

struct OpenCall {
    number: u64,
    record: CallRecord,
    asks_for_task: bool,
}

/// A recorded call is being sent until this is dropped.
pub(crate) struct UnansweredCall {
    tasks: Arc<LegacyTasks>,
    number: u64,
}

impl Drop for UnansweredCall {
    fn drop(&mut self) {
        self.tasks
            .tasks
            .send_modify(|tasks| tasks.calls.retain(|call| call.number != self.number));
    }
}

impl LegacyTasks {
    /// A recorded call is about to be sent.
    pub(crate) fn expect_answer(self: &Arc<Self>, record: &CallRecord, asks_for_task: bool) -> UnansweredCall {
        let mut number = 0;
        self.tasks.send_modify(|tasks| {
            number = tasks.next_call;
            tasks.next_call += 1;
            tasks.calls.push(OpenCall {
                number,
                record: record.clone(),
                asks_for_task,
            });
        });
        UnansweredCall {
            tasks: Arc::clone(self),
            number,
        }
    }

    /// The plain call that a question belongs to which does not say so: the only one, if there is no task that it could be about.
    pub(crate) fn only_plain_call(&self) -> Option<CallRecord> {
        let tasks = self.tasks.borrow();
        match tasks.calls.as_slice() {
            [call] if !call.asks_for_task && tasks.live.is_empty() => Some(call.record.clone()),
            _ => None,
        }
    }

    /// A task lives. Its questions go to `record` from now on.
    pub(crate) fn add(&self, task: &str, record: Option<&CallRecord>) {
        self.tasks.send_modify(|tasks| {
            if let Some(at) = tasks.ended_early.iter().position(|ended| ended == task) {
                tasks.ended_early.remove(at);
                return;
            }
            let known = tasks.live.entry(task.to_owned()).or_default();
            if let Some(record) = record {
                *known = Some(record.clone());
            }
        });
    }

    /// No call is made on the connection.
    pub(crate) fn serve_handles_alone(&self) {
        self.is_for_handles.store(true, Ordering::Relaxed);
    }

    /// From now on what the task asks may be put to the user.
    pub(crate) fn allow_questions(&self, task: &str) {
        self.tasks
            .send_if_modified(|tasks| !tasks.may_ask.contains(task) && tasks.may_ask.insert(task.to_owned()));
    }

    /// Waits until what the task asks may be put to the user: looking at a task asks nobody. `false` if the task has ended first. If it is not known which task asks, one
    /// that may ask can be it. A task that this process has not heard of may be that of a call.
    pub(crate) async fn until_may_ask(&self, task: Option<&str>) -> bool {
        let is_for_handles = self.is_for_handles.load(Ordering::Relaxed);
        let mut tasks = self.tasks.subscribe();
        let Some(task) = task else {
            let may_ask = |tasks: &Tasks| !is_for_handles || !tasks.may_ask.is_empty();
            return tasks.wait_for(may_ask).await.is_ok();
        };
        let is_looked_at = tasks.borrow().live.contains_key(task);
        if !(is_looked_at || is_for_handles) {
            return true;
        }
        let is_settled =
            |tasks: &Tasks| tasks.may_ask.contains(task) || (is_looked_at && !tasks.live.contains_key(task));
        match tasks.wait_for(is_settled).await {
            Ok(tasks) => tasks.may_ask.contains(task),
            Err(_) => false,
        }
    }

    /// Has the session kept in use from now on, by what `start` begins, unless it is.
    pub(crate) fn keep_warm(&self, start: impl FnOnce() -> AbortHandle) {
        self.warming.lock().get_or_insert_with(start);
    }

    /// Whether the session need not be kept in use any more. What keeps it ends then: a task that comes later starts another one of these.
    pub(crate) fn end_warming(&self) -> bool {
        let mut warming = self.warming.lock();
        let is_empty = self.tasks.borrow().live.is_empty();
        if is_empty {
            *warming = None;
        }
        is_empty
    }

    pub(crate) fn is_live(&self, task: &str) -> bool {
        self.tasks.borrow().live.contains_key(task)
    }

    /// The task has ended, or is not known to the server.
    pub(crate) fn ended(&self, task: &str) {
        self.progress.ended(task);
        self.tasks.send_if_modified(|tasks| {
            tasks.asking.retain(|(asking, _)| asking != task);
            tasks.may_ask.remove(task);
            tasks.live.remove(task).is_some()
        });
    }

    /// The server has pushed that a task has ended. It may be that of a call whose answer is not read yet.
    pub(crate) fn pushed_end(&self, task: &str) {
        self.tasks.send_if_modified(|tasks| {
            if !tasks.live.contains_key(task) {
                if tasks.ended_early.len() == MAX_ENDED_EARLY {
                    tasks.ended_early.pop_front();
                }
                tasks.ended_early.push_back(task.to_owned());
            }
            false
        });
        self.ended(task);
    }

    /// The server has pushed the status of a task.
    pub(crate) fn pushed(&self, task: &TaskSnapshot) {
        self.tasks.send_if_modified(|tasks| {
            tasks.asking.retain(|(asking, _)| *asking != task.id);
            let (TaskStatus::InputRequired, Some(message)) = (task.status, &task.message) else {
                return false;
            };
            if tasks.asking.len() == MAX_ASKING {
                tasks.asking.pop_front();
            }
            tasks.asking.push_back((task.id.clone(), message.clone()));
            true
        });
    }

    /// The task that a question belongs to which does not say so. FastMCP 3 pushes the text of the question as the task's status message first.
    pub(crate) fn asking(&self, text: &str) -> Option<String> {
        self.tasks.borrow().asking(text).cloned()
    }

    /// As [`asking`](Self::asking). The status may come shortly after the question, if there is a call or a task that it can be about.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) async fn asking_soon(&self, text: &str) -> Option<String> {
        let mut tasks = self.tasks.subscribe();
        let may_be_known = |tasks: &Tasks| !tasks.calls.is_empty() || tasks.live.values().any(Option::is_some);
        let settled = tasks.wait_for(|tasks| tasks.asking(text).is_some() || !may_be_known(tasks));
        // If the time is over, what is known has to do.
        let _ = tokio::time::timeout(LONGEST_WAIT_FOR_STATUS, settled).await;
        self.asking(text).or_else(|| self.only_recorded())
    }

    /// The only task that lives, if its call is recorded and no other call waits for its answer.
    pub(crate) fn only_recorded(&self) -> Option<String> {
        let tasks = self.tasks.borrow();
        let mut live = tasks.live.iter();
        match (tasks.calls.len(), live.next(), live.next()) {
            (0, Some((task, Some(_))), None) => Some(task.clone()),
            _ => None,
        }
    }

    /// What records the questions of a task, if its call is recorded.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    pub(crate) async fn record_of(&self, task: &str) -> Option<CallRecord> {
        let mut tasks = self.tasks.subscribe();
        let is_known = |tasks: &Tasks| tasks.calls.is_empty() || tasks.live.contains_key(task);
        if tokio::time::timeout(LONGEST_WAIT_FOR_ANSWER, tasks.wait_for(is_known))
            .await
            .is_err()
        {
            tracing::debug!(task, "a question came long before the answer that names its task");
        }
        self.tasks.borrow().live.get(task).cloned().flatten()
    }
}

impl Drop for LegacyTasks {
    fn drop(&mut self) {
        if let Some(warming) = self.warming.get_mut().take() {
            warming.abort();
        }
    }
}
