//! A run over many calls that is continued when it was interrupted.

use crate::{
    CallState, Client, Finished, JournalError, RecordedCall, TaskHandle,
    journal::{NewBatch, TAKEN_OVER, call_record::JournalTarget, idempotency_key, recorded_call::BatchLine},
};
use longhaul_core::{Json, UnixMillis, canonical_digest};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::{collections::HashMap, fmt};

/// A run over many calls, such as those of a file. It is recorded until it [is over](Self::finish), and [`Client::begin_batch`] of another process continues it: no call
/// of it is made twice.
///
/// ```no_run
/// # async fn example(client: longhaul_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_client::{BatchStep, CallOptions};
/// use serde_json::json;
///
/// let tool = client.connection().tool("build").await?.ok_or("no such tool")?;
/// if let Some(run) = client.begin_batch("/srv/targets.jsonl", false).await? {
///     let mut is_over = true;
///     for target in ["debug", "release"] {
///         let arguments = serde_json::from_value(json!({"target": target}))?;
///         let line = run.line(&tool.name, &arguments);
///         match run.step(&line).await? {
///             BatchStep::Call => {
///                 let mut options = CallOptions::default();
///                 options.batch_line = Some(line.clone());
///                 let mut call = client.prepare(&tool, &arguments, options).await?;
///                 println!("{:?}", call.send(&mut |_| {}).await?);
///             }
///             BatchStep::Task(task) => println!("{:?}", task.of_tool(&tool).wait(&mut |_| {}).await?),
///             other => println!("{target}: {other:?}"),
///         }
///         is_over &= run.outcome(&line).await?.is_some();
///     }
///     if is_over {
///         run.finish().await?;
///     }
/// }
/// # Ok(()) }
/// ```
pub struct BatchRun {
    client: Client,
    recording: JournalTarget,
    number: i64,
    key: String,
    begun_at: UnixMillis,
    calls_before: i64,
    /// How often a line has come.
    seen: Mutex<HashMap<[u8; 32], u32>>,
}

/// What is to be done for a line of a [`BatchRun`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum BatchStep {
    /// Make the call, with [`CallOptions::batch_line`](crate::CallOptions::batch_line). It was not made before, or it is the same call under its idempotency key.
    Call,
    /// Wait for this task, which the call was answered with.
    Task(TaskHandle),
    /// The call has ended like this, and its result cannot be read again.
    Ended(Finished),
    /// The call may have run, and must not be repeated without asking the user.
    Unknown {
        /// Why, for people.
        reason: String,
    },
    /// The server does not know the task of the call any more, whose result was not fetched.
    Lost {
        /// Why, for people.
        reason: String,
    },
    /// Another process is making the call.
    InFlight,
}

impl Client {
    /// Begins a run over the calls of `file`, or continues the one that this user has begun and that is not over; with `is_new` it is a new one in any case. `None` without a
    /// journal. A run that nothing was added to for 30 days is forgotten.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn begin_batch(&self, file: &str, is_new: bool) -> Result<Option<BatchRun>, JournalError> {
        let Some(recording) = self.recording() else {
            return Ok(None);
        };
        self.settle_abandoned(recording).await;
        let batch = NewBatch {
            server: recording.server.clone(),
            server_name: recording.server_name.clone(),
            file: file.to_owned(),
            login: self.connection().login().await,
            key: idempotency_key::new_key(),
            is_new,
        };
        let stored = recording.journal.begin_batch(batch).await?;
        Ok(Some(BatchRun {
            client: self.clone(),
            recording: recording.clone(),
            number: stored.number,
            key: stored.key,
            begun_at: stored.begun_at,
            calls_before: stored.calls,
            seen: Mutex::default(),
        }))
    }
}

impl BatchRun {
    /// When it was begun, if calls of it were made before.
    pub fn continues(&self) -> Option<UnixMillis> {
        (self.calls_before > 0).then_some(self.begun_at)
    }

    /// The line with this call. Equal calls are different lines, told apart by their order.
    pub fn line(&self, tool: &str, arguments: &Map<String, Value>) -> BatchLine {
        let arguments = canonical_digest(&Json::from(&Value::from(arguments.clone())));
        let named = |nth: u32| {
            let name = serde_json::json!([self.key, tool, idempotency_key::hexadecimal(&arguments), nth]);
            canonical_digest(&Json::from(&name))
        };
        let nth = {
            let mut seen = self.seen.lock();
            let count = seen.entry(named(0)).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.named(&named(nth))
    }

    /// The line with this [idempotency key](crate::CallOptions::idempotency_key) of its own, which is all that it is known by.
    pub fn keyed_line(&self, key: &str) -> BatchLine {
        let name = serde_json::json!([self.key, key]);
        self.named(&canonical_digest(&Json::from(&name)))
    }

    fn named(&self, digest: &[u8; 32]) -> BatchLine {
        BatchLine {
            batch: self.number,
            name: idempotency_key::hexadecimal(&digest[..16]),
        }
    }

    /// How the call of a line has ended, if it has an outcome: a run that continues this one has nothing to do for it. A call that was refused has none, and
    /// is made again.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn outcome(&self, line: &BatchLine) -> Result<Option<Finished>, JournalError> {
        let call = self.recording.journal.batch_call(line.clone()).await?;
        Ok(match call.map(|call| call.state) {
            Some(CallState::Finished(Finished::Refused)) => None,
            Some(CallState::Finished(finished)) => Some(finished),
            _ => None,
        })
    }

    /// What is to be done for a line, by what is recorded of it.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn step(&self, line: &BatchLine) -> Result<BatchStep, JournalError> {
        let Some(call) = self.recording.journal.batch_call(line.clone()).await? else {
            return Ok(BatchStep::Call);
        };
        if call.state == CallState::Finished(Finished::Refused) {
            return Ok(BatchStep::Call);
        }
        // There is no result to get.
        if call.state == CallState::Finished(Finished::Unanswered) {
            return Ok(BatchStep::Ended(Finished::Unanswered));
        }
        if let (CallState::Task | CallState::Finished(_), Some(task)) = (&call.state, self.client.task(&call).await) {
            return Ok(BatchStep::Task(task));
        }
        if call.task.is_none()
            && call.state != CallState::Finished(Finished::Cancelled)
            && self.is_same_call(&call).await
        {
            return Ok(BatchStep::Call);
        }
        Ok(match call.state {
            CallState::Finished(finished) => BatchStep::Ended(finished),
            CallState::InFlight => BatchStep::InFlight,
            CallState::Unknown { reason } => BatchStep::Unknown { reason },
            CallState::Lost { reason } => BatchStep::Lost { reason },
            _ => BatchStep::Unknown {
                reason: "the program that made it has ended".to_owned(),
            },
        })
    }

    /// Whether the call, made again under its key, is the same one at the server.
    async fn is_same_call(&self, call: &RecordedCall) -> bool {
        let connection = self.client.connection();
        let Ok(server) = connection.server().await else {
            return false;
        };
        let known_for = server.idempotency_retention().unwrap_or(TAKEN_OVER).min(TAKEN_OVER);
        let is_known = connection.options().clock.now() < call.begun_at.plus(known_for);
        is_known && server.takes_idempotency_keys() && call.idempotency_key.is_some()
    }

    /// Records that it is over: each of its calls has an outcome. The same lines are another run then.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn finish(self) -> Result<(), JournalError> {
        self.recording.journal.finish_batch(self.number).await
    }
}

impl fmt::Debug for BatchRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchRun({})", self.number)
    }
}
