//! Questions that a client makes tasks of (G1-57): here we are the requestor, who polls, fetches the result and cancels.
//!
//! The client's task is known to this node only. If it is lost, with its stream or with this process, the question is asked again:
//! the question is what is kept.

use crate::{
    interaction::Interaction,
    session::{Session, replies::PendingReply},
};
use longhaul_core::{InputKey, Json, Scope, SessionKey, TaskId};
use longhaul_runtime::{Abilities, Reply, Watch};
use longhaul_wire::{Capability, InputRequest, TaskStatus, legacy::client_task as wire, params::TaskMetadata};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tracing::debug;

/// How long a client is wished to keep its task, from its creation: a week.
const TTL: u64 = 7 * 24 * 3_600_000;
/// How long a client may take to say how its task stands.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two polls, if the client names no interval: rising from the first to the last.
const POLL: (u64, u64) = (500, 15_000);
/// An interval the client names is kept within these.
const NAMED: (u64, u64) = (50, 60_000);

type Key = (SessionKey, TaskId, InputKey);

/// The questions that clients were let make tasks of, and did.
#[derive(Clone, Default)]
pub(crate) struct ClientTasks(Arc<Mutex<HashMap<Key, State>>>);

enum State {
    /// The client works on it, under this id of its own.
    Hosted(String),
    /// The client's task is lost.
    Lost,
}

impl ClientTasks {
    /// Whether the client works on the question.
    pub(crate) fn is_hosted(&self, session: &SessionKey, task: &TaskId, key: &InputKey) -> bool {
        self.is(session, task, key, |state| matches!(state, State::Hosted(_)))
    }

    /// Whether the client's task was lost, so that it is to answer at once.
    pub(crate) fn is_to_be_asked_plainly(&self, session: &SessionKey, task: &TaskId, key: &InputKey) -> bool {
        self.is(session, task, key, |state| matches!(state, State::Lost))
    }

    fn is(&self, session: &SessionKey, task: &TaskId, key: &InputKey, so: impl FnOnce(&State) -> bool) -> bool {
        let table = self.lock();
        !table.is_empty() && table.get(&(session.clone(), task.clone(), key.clone())).is_some_and(so)
    }

    /// Enters a client's task, unless it has made one of the question already. What is entered is left when the guard goes.
    fn enter(&self, key: Key, theirs: &str) -> Result<Entered, Taken> {
        let mut table = self.lock();
        match table.get(&key) {
            Some(State::Hosted(known)) if known == theirs => Err(Taken::Same),
            Some(_) => Err(Taken::Other),
            None => {
                table.insert(key.clone(), State::Hosted(theirs.to_owned()));
                Ok(Entered {
                    hosting: self.clone(),
                    key,
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, State>> {
        self.0.lock()
    }
}

/// Why a client's task is not seen to.
enum Taken {
    /// It is already: the client has told of it twice.
    Same,
    /// Another one is: the client has answered two deliveries with a task each.
    Other,
}

/// Keeps a question in the table.
struct Entered {
    hosting: ClientTasks,
    key: Key,
}

impl Entered {
    /// The client's task is lost.
    fn lose(&self) {
        self.hosting.lock().insert(self.key.clone(), State::Lost);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.hosting.lock().remove(&self.key);
    }
}

/// The wish for a task that goes with a question, if the client has declared that it hosts tasks for it (G1-04).
pub(crate) fn wish(abilities: &Abilities, question: &InputRequest<'_>) -> Option<TaskMetadata> {
    let hosts = match question.capability() {
        Capability::ElicitationForm | Capability::ElicitationUrl => abilities.hosts_elicitation,
        Capability::Sampling | Capability::SamplingTools => abilities.hosts_sampling,
        Capability::Roots | Capability::Tasks => false,
    };
    hosts.then_some(TaskMetadata { ttl: Some(TTL) })
}

/// Takes `answer` for a client's task, if it is one that may be, and sees to it from then on; says whether it was.
pub(crate) fn take(
    interaction: &Arc<Interaction>,
    session: &Session,
    task: &TaskId,
    key: &InputKey,
    request: &Json,
    answer: &Json,
) -> bool {
    let wished =
        InputRequest::read(request.as_str()).is_ok_and(|question| wish(&session.abilities, &question).is_some());
    if !wished {
        return false;
    }
    let created = serde_json::from_str::<&RawValue>(answer.as_str()).ok();
    let Some(Ok(Some(created))) = created.map(wire::ClientTask::created) else {
        return false;
    };
    let host = Host {
        interaction: Arc::clone(interaction),
        session: session.clone(),
        task: task.clone(),
        key: key.clone(),
        request: request.clone(),
        theirs: created.id.into_owned(),
        named_interval: created.poll_interval,
        watch: interaction.engine.watch(task),
    };
    let key = (session.key.clone(), task.clone(), key.clone());
    let spawner = &interaction.engine.ports().spawner;
    match interaction.input_requests.client_tasks.enter(key, &host.theirs) {
        Ok(entered) => spawner.spawn(Box::pin(host.see_through(entered))),
        Err(Taken::Other) => spawner.spawn(Box::pin(async move {
            host.send(wire::write_cancel).await;
        })),
        Err(Taken::Same) => {}
    }
    true
}

/// A client's task for a question of ours.
struct Host {
    interaction: Arc<Interaction>,
    session: Session,
    task: TaskId,
    key: InputKey,
    request: Json,
    /// The client's name for its task, which means something to that client only (G1-58).
    theirs: String,
    named_interval: Option<u64>,
    watch: Watch,
}

/// What came of the client's task.
enum End {
    /// Its result, or the error that stands for it.
    Reply(Reply),
    /// The question was answered elsewhere or withdrawn.
    Settled,
    /// The client does not know it any more, or cannot be reached.
    Lost,
}

impl Host {
    async fn see_through(mut self, entered: Entered) {
        let lost = match self.end().await {
            End::Reply(reply) => !self.answer(reply).await,
            End::Settled => {
                // What the client says to this changes nothing.
                self.send(wire::write_cancel).await;
                false
            }
            End::Lost => true,
        };
        if lost {
            debug!(
                task = self.task.short(),
                "a client's task is lost; its question is asked again"
            );
            entered.lose();
            self.interaction.push.carriers.nudge(&self.session.key, &self.task);
            // For as long as the question is open it is not forgotten that it is to be asked plainly.
            self.settled().await;
        }
    }

    /// Keeps the client's answer; `false` if it is none.
    async fn answer(&self, reply: Reply) -> bool {
        if let Reply::Result(answer) = &reply
            && super::check(&self.request, answer).is_err()
        {
            return false;
        }
        let answer = reply.into_answer(&self.request);
        let kept = self
            .interaction
            .engine
            .answer_question(&self.task, self.key.clone(), answer);
        kept.await.is_ok()
    }

    async fn end(&mut self) -> End {
        let mut interval = POLL.0;
        loop {
            let pause = self.pause(interval);
            tokio::select! {
                () = self.settled() => return End::Settled,
                () = pause => {}
            }
            interval = (interval * 3 / 2).min(POLL.1);
            let Some(Reply::Result(got)) = self.ask(wire::write_get).await else {
                return End::Lost;
            };
            let got = serde_json::from_str::<&RawValue>(got.as_str()).ok();
            let Some(Ok(theirs)) = got.map(wire::ClientTask::read) else {
                return End::Lost;
            };
            self.named_interval = theirs.poll_interval.or(self.named_interval);
            if matches!(
                theirs.status,
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled
            ) {
                // An error stands for the answer too (G1-29).
                return self.ask(wire::write_result).await.map_or(End::Lost, End::Reply);
            }
        }
    }

    /// What the client says to a request about its task; `None` if it cannot be reached.
    async fn ask(&self, write: impl FnOnce(&mut String, &str, &str)) -> Option<Reply> {
        let mut asked = self.send(write).await?;
        self.interaction.engine.ports().within(PATIENCE, asked.reply()).await
    }

    /// Sends a request about the client's task to the stream that carries what its session hears of ours.
    async fn send(&self, write: impl FnOnce(&mut String, &str, &str)) -> Option<PendingReply> {
        let entropy = &*self.interaction.engine.ports().entropy;
        let asked = self.interaction.sessions.replies.expect(&self.session.key, entropy);
        let mut text = String::new();
        write(&mut text, asked.id(), &self.theirs);
        let read = self.interaction.push.carriers.reached_by(&self.session.key, &self.task);
        let sent = match read {
            Some(sink) => sink.message(text).await.is_ok(),
            None => self.interaction.push.streams.send(&self.session.key, text).await,
        };
        sent.then_some(asked)
    }

    /// Until the next poll, a tenth more or less: many that began together should not ask together.
    fn pause(&self, interval: u64) -> impl Future<Output = ()> + use<> {
        let interval = self
            .named_interval
            .map_or(interval, |named| named.clamp(NAMED.0, NAMED.1));
        let ports = self.interaction.engine.ports();
        let mut byte = [0];
        ports.entropy.fill(&mut byte);
        let jitter = interval * u64::from(byte[0]) / 255 / 5;
        ports.clock.sleep(Duration::from_millis(interval * 9 / 10 + jitter))
    }

    /// Completes when the question is answered elsewhere or withdrawn.
    async fn settled(&mut self) {
        let scope = Scope::of(self.session.principal.clone());
        loop {
            let record = self.interaction.engine.get(&scope, &self.task).await;
            // Should the store fail, the next look tells.
            if record.is_ok_and(|record| record.is_none_or(|record| !record.task.open_inputs.contains(&self.key))) {
                return;
            }
            self.watch.changed().await;
        }
    }
}
