//! A run over many calls that is continued when it was interrupted.

use crate::{ClientJournal, call::batches::NewBatch};
use longhaul_client::{
    BatchLine, CallState, Client, Finished, JournalError, LONGEST_TAKE_OVER, RecordedCall, TaskHandle,
};
use longhaul_core::{Json, UnixMillis, canonical_digest};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::{collections::HashMap, fmt};

/// A run over many calls, such as those of a file. It is recorded until it [is over](Self::finish), and [`ClientJournal::begin_batch`] of another process continues it: no call
/// of it is made twice.
///
/// ```no_run
/// # async fn example(client: longhaul_client::Client, journal: longhaul_ledger::ClientJournal) -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_client::CallOptions;
/// use longhaul_ledger::BatchStep;
/// use serde_json::json;
///
/// let tool = client.connection().tool("build").await?.ok_or("no such tool")?;
/// if let Some(run) = journal.begin_batch(&client, "/srv/targets.jsonl", false).await? {
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
    journal: ClientJournal,
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
    /// Make the call, with [`CallOptions::batch_line`](longhaul_client::CallOptions::batch_line). It was not made before, or it is the same call under its idempotency key.
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

impl ClientJournal {
    /// Begins a run over the calls of `file` that `client` makes, which [records](Client::recorded) them here; or continues the one that this user has begun and that
    /// is not over. With `is_new` it is a new one in any case. `None` if the client records nothing. A run that nothing was added to for 30 days is forgotten.
    ///
    /// # Errors
    /// Those of the disk and the file.
    pub async fn begin_batch(
        &self,
        client: &Client,
        file: &str,
        is_new: bool,
    ) -> Result<Option<BatchRun>, JournalError> {
        let Some((server, server_name)) = client.recorded_server() else {
            return Ok(None);
        };
        if let Err(error) = self.settle_abandoned().await {
            tracing::warn!(%error, "calls of unknown outcome are not recorded as such");
        }
        let batch = NewBatch {
            server: server.to_owned(),
            server_name: server_name.map(str::to_owned),
            file: file.to_owned(),
            login: client.connection().login().await,
            is_new,
        };
        let stored = self.store_batch(batch).await?;
        Ok(Some(BatchRun {
            client: client.clone(),
            journal: self.clone(),
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
            let name = serde_json::json!([self.key, tool, hexadecimal(&arguments), nth]);
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

    /// The line with this [idempotency key](longhaul_client::CallOptions::idempotency_key) of its own, which is all that it is known by.
    pub fn keyed_line(&self, key: &str) -> BatchLine {
        let name = serde_json::json!([self.key, key]);
        self.named(&canonical_digest(&Json::from(&name)))
    }

    fn named(&self, digest: &[u8; 32]) -> BatchLine {
        BatchLine {
            batch: self.number,
            name: hexadecimal(&digest[..16]),
        }
    }

    /// How the call of a line has ended, if it has an outcome: a run that continues this one has nothing to do for it. A call that was refused has none, and
    /// is made again.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn outcome(&self, line: &BatchLine) -> Result<Option<Finished>, JournalError> {
        let call = self.journal.batch_call(line.clone()).await?;
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
        let Some(call) = self.journal.batch_call(line.clone()).await? else {
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
        let known_for = server
            .idempotency_retention()
            .unwrap_or(LONGEST_TAKE_OVER)
            .min(LONGEST_TAKE_OVER);
        let is_known = self.journal.0.now() < call.begun_at.plus(known_for);
        is_known && server.takes_idempotency_keys() && call.idempotency_key.is_some()
    }

    /// Records that it is over: each of its calls has an outcome. The same lines are another run then.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn finish(self) -> Result<(), JournalError> {
        self.journal.finish_batch(self.number).await
    }
}

impl fmt::Debug for BatchRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchRun({})", self.number)
    }
}

/// Bytes as text, two digits each.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
