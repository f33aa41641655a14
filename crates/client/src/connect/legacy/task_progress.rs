//! Progress that a legacy server reports of its tasks, after the answer to the call and on any stream (MCP 2025-11-25, Tasks, "Progress").
//!
//! A notification names its task, or has only the token of the call. Only the latest progress of a task is kept: the next one includes it.

use crate::Progress;
use longhaul_wire::{jsonrpc::Notification, meta};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use tokio::sync::watch;

/// How many notifications are kept that came before the answer that names their task: it comes on another stream.
const MAX_EARLY: usize = 16;

/// The progress of the live tasks of a connection.
#[derive(Default)]
pub(crate) struct TaskProgress(Mutex<ProgressState>);

#[derive(Default)]
struct ProgressState {
    tasks: HashMap<String, LatestProgress>,
    early: VecDeque<(u64, Progress)>,
}

#[derive(Default)]
struct LatestProgress {
    /// That of the call.
    token: Option<u64>,
    latest: watch::Sender<Option<Progress>>,
}

/// Whose progress a notification reports.
#[derive(Deserialize)]
struct Origin<'a> {
    #[serde(rename = "progressToken")]
    token: serde_json::Value,
    #[serde(rename = "_meta", borrow)]
    meta: Option<HashMap<&'a str, &'a serde_json::value::RawValue>>,
}

impl Origin<'_> {
    fn task(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct RelatedTask {
            #[serde(rename = "taskId")]
            id: String,
        }
        let related = self.meta.as_ref()?.get(meta::RELATED_TASK)?;
        serde_json::from_str::<RelatedTask>(related.get())
            .ok()
            .map(|related| related.id)
    }
}

impl TaskProgress {
    /// The call with this token was answered with a task.
    pub(crate) fn expect(&self, task: &str, token: u64) {
        let mut state = self.0.lock();
        let early = state.early.iter().rposition(|(of, _)| *of == token);
        let early = early.and_then(|at| state.early.remove(at));
        let reported = state.tasks.entry(task.to_owned()).or_default();
        reported.token = Some(token);
        if let Some((_, progress)) = early {
            reported.latest.send_replace(Some(progress));
        }
    }

    /// The progress of a task that lives, from now on.
    pub(crate) fn of(&self, task: &str) -> watch::Receiver<Option<Progress>> {
        let mut state = self.0.lock();
        let mut latest = state.tasks.entry(task.to_owned()).or_default().latest.subscribe();
        // What was reported before is new to who asks.
        latest.mark_changed();
        latest
    }

    /// The server has reported progress. On a stream that belongs to no request it `may_be_early`.
    pub(crate) fn reported(&self, notification: &Notification<'_>, may_be_early: bool) {
        let Some(params) = notification.raw_params() else {
            return;
        };
        let (Some(progress), Ok(origin)) = (
            Progress::read(notification),
            serde_json::from_str::<Origin<'_>>(params.get()),
        ) else {
            return;
        };
        let (task, token) = (origin.task(), origin.token.as_u64());
        let mut state = self.0.lock();
        let reported = match &task {
            Some(task) => state.tasks.get(task),
            None => (state.tasks.values()).find(|reported| token.is_some() && reported.token == token),
        };
        match (reported, token) {
            (Some(reported), _) => drop(reported.latest.send_replace(Some(progress))),
            (None, Some(token)) if may_be_early => {
                if state.early.len() == MAX_EARLY {
                    state.early.pop_front();
                }
                state.early.push_back((token, progress));
            }
            _ => {}
        }
    }

    /// The task has ended.
    pub(crate) fn ended(&self, task: &str) {
        self.0.lock().tasks.remove(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_wire::Message;
    use serde_json::{Value, json};

    fn report(tasks: &TaskProgress, params: Value, may_be_early: bool) {
        let text = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string();
        let Ok(Message::Notification(notification)) = Message::parse(text.as_bytes()) else {
            panic!("a notification")
        };
        tasks.reported(&notification, may_be_early);
    }

    fn next(latest: &mut watch::Receiver<Option<Progress>>) -> Option<f64> {
        let has_changed = latest.has_changed().unwrap_or_default();
        let progress = latest.borrow_and_update().clone();
        progress.filter(|_| has_changed).map(|progress| progress.progress)
    }

    #[test]
    fn progress_belongs_to_the_task_that_it_names_or_whose_call_had_its_token() {
        let tasks = TaskProgress::default();
        tasks.expect("one", 1);
        tasks.expect("two", 2);
        let (mut one, mut two) = (tasks.of("one"), tasks.of("two"));
        assert_eq!((next(&mut one), next(&mut two)), (None, None));
        report(&tasks, json!({"progressToken": 1, "progress": 10}), false);
        assert_eq!((next(&mut one), next(&mut two)), (Some(10.0), None));
        let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "two"}});
        report(
            &tasks,
            json!({"progressToken": 1, "progress": 20, "_meta": related}),
            false,
        );
        assert_eq!((next(&mut one), next(&mut two)), (None, Some(20.0)));
        for nobodys in [
            json!({"progressToken": 3, "progress": 30}),
            json!({"progressToken": "x", "progress": 30}),
        ] {
            report(&tasks, nobodys, true);
        }
        assert_eq!((next(&mut one), next(&mut two)), (None, None));
        // What comes late is nobody's.
        tasks.ended("one");
        report(&tasks, json!({"progressToken": 1, "progress": 40}), false);
        assert_eq!(next(&mut one), None);
    }

    #[test]
    fn progress_that_overtakes_the_answer_is_kept() {
        let tasks = TaskProgress::default();
        for progress in [1, 2] {
            report(&tasks, json!({"progressToken": 7, "progress": progress}), true);
        }
        // On the stream of the call it was reported as progress of the call.
        report(&tasks, json!({"progressToken": 8, "progress": 3}), false);
        tasks.expect("seven", 7);
        tasks.expect("eight", 8);
        assert_eq!(next(&mut tasks.of("seven")), Some(2.0));
        assert_eq!(next(&mut tasks.of("eight")), None);
    }
}
