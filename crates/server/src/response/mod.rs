//! Answers, before a transport writes them.

pub(crate) mod resumption;
pub(crate) mod stream;

use crate::{
    admission::limits::{BudgetExhausted, Busy, ByteBudget},
    session::Session,
};
use longhaul_core::{
    BoxFuture,
    store::{CreateError, StoreError},
};
use longhaul_wire::{RequestId, RpcError, jsonrpc::write_result};
use serde_json::value::RawValue;
use std::time::Duration;
use stream::{Events, Text};
use tracing::{debug, error};

/// The answer to one message.
pub(crate) enum Answer {
    /// One JSON-RPC response.
    Message {
        /// HTTP's status.
        status: u16,
        /// HTTP's `Retry-After`, in seconds.
        retry_after: Option<u64>,
        /// The response.
        text: Text,
    },
    /// The response to `initialize`, and the session it began.
    Session {
        /// The response.
        text: String,
        /// The session.
        session: Box<Session>,
    },
    /// A response with an error, and what HTTP says in `WWW-Authenticate`.
    Challenge {
        /// HTTP's status.
        status: u16,
        /// The challenge.
        challenge: Box<str>,
        /// The response.
        text: String,
    },
    /// No response, since the message was not a request.
    Accepted,
    /// Several messages, the response last.
    Stream(Events),
    /// The answer is not ready, and may not be for hours. The future does not hold the request's bytes. It is dropped when nobody waits for the
    /// answer any more.
    Later(BoxFuture<'static, Answer>),
}

impl Answer {
    /// A response with a result, which `write` appends.
    pub(crate) fn result(id: RequestId<'_>, write: impl FnOnce(&mut String)) -> Self {
        Self::written(|out| write_result(out, id, write))
    }

    /// A response whose result is an empty object.
    pub(crate) fn empty(id: RequestId<'_>) -> Self {
        Self::result(id, |out| out.push_str("{}"))
    }

    /// A response that `write` appends whole.
    pub(crate) fn written(write: impl FnOnce(&mut String)) -> Self {
        let mut text = String::with_capacity(512);
        write(&mut text);
        Self::response(text)
    }

    /// A response whose text is written already.
    pub(crate) fn response(text: String) -> Self {
        Self::Message {
            status: 200,
            retry_after: None,
            text: text.into(),
        }
    }

    /// An error response with a challenge.
    pub(crate) fn challenge(id: Option<RequestId<'_>>, error: &RpcError, challenge: String) -> Self {
        let mut text = String::new();
        error.write_response(&mut text, id);
        Self::Challenge {
            status: error.status(),
            challenge: challenge.into(),
            text,
        }
    }

    /// Waits until the answer is ready.
    pub(crate) async fn settled(mut self) -> Self {
        while let Self::Later(later) = self {
            self = later.await;
        }
        self
    }

    /// Reserves memory for a large answer. If there is none, returns what `refuse` makes of the error instead.
    pub(crate) fn with_memory_reserved(self, memory: &ByteBudget, refuse: impl FnOnce(&RpcError) -> Self) -> Self {
        match self {
            Self::Message {
                status,
                retry_after,
                text: Text {
                    text,
                    reservation: None,
                },
            } => match memory.reserve_for_answer(text.len()) {
                Ok(reservation) => Self::Message {
                    status,
                    retry_after,
                    text: Text { text, reservation },
                },
                Err(BudgetExhausted) => refuse(&memory.refuse(Busy::Answers)),
            },
            other => other,
        }
    }

    /// An error response.
    pub(crate) fn error(id: Option<RequestId<'_>>, error: &RpcError) -> Self {
        let mut text = String::new();
        error.write_response(&mut text, id);
        Self::Message {
            status: error.status(),
            retry_after: error.retry_after(),
            text: text.into(),
        }
    }
}

/// A request's id, kept for an answer that comes after the request was dropped.
pub(crate) struct OwnedRequestId(Box<RawValue>);

impl OwnedRequestId {
    pub(crate) fn of(id: RequestId<'_>) -> Self {
        let raw = RawValue::from_string(id.as_json().to_owned());
        Self(raw.unwrap_or_else(|_| unreachable!("an id was read from JSON")))
    }

    pub(crate) fn get(&self) -> RequestId<'_> {
        RequestId::from_raw(&self.0).unwrap_or_else(|| unreachable!("it was an id before"))
    }
}

/// When a client may try again if the store does not answer or has no room, or the server stops.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The error for a client when the store fails. The store's own text goes to the log.
pub(crate) fn store_failed(error: StoreError) -> RpcError {
    match error {
        StoreError::Full => RpcError::internal("The server has no room to write; try again later").with_status(507),
        StoreError::Disk(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            RpcError::internal(format!("The server's disk failed ({error}); try again later")).with_status(503)
        }
        StoreError::Locked | StoreError::LockedBy(_) => {
            RpcError::internal("Another process holds the server's database; nothing was changed, try again later").with_status(503)
        }
        StoreError::TooManySessions => RpcError::internal(
            "The session was not ended, because the server cannot remember more ended sessions; its id expires 30 days after the session began",
        )
        .with_status(429),
        StoreError::ReadOnly => RpcError::internal(
            "The server's database was restored or moved, and its operator has not accepted it yet: tasks can be read, and nothing can be started or changed. The \
             server's log says how to accept it",
        )
        .with_status(503),
        // Whatever else waits for the store logs it, once and not for each request.
        StoreError::Unavailable(why) => {
            debug!(why, "the store does not answer");
            RpcError::unavailable(
                "The server's database does not answer; nothing was changed, try again later",
                RETRY_AFTER,
            )
        }
        StoreError::Unusable(why) => {
            debug!(why, "the store cannot be used");
            RpcError::unavailable(
                "The server's database cannot be used as it is; nothing was changed, try again later",
                RETRY_AFTER,
            )
        }
        StoreError::Closed | StoreError::LeaseLost => shutting_down(),
        StoreError::HostInUse { .. } => {
            RpcError::internal("Another server uses this one's host id; nothing was changed, try again later").with_status(503)
        }
        StoreError::OutcomeUnknown(why) => {
            error!(why, "whether a change was stored is unknown");
            RpcError::internal("It is unknown whether the server has stored this; check before you try again").with_status(503)
        }
        StoreError::Failed(why) => {
            error!(why, "the store failed");
            RpcError::internal("The server's store failed")
        }
    }
}

/// The error for a client whose call was not accepted.
pub(crate) fn create_failed(error: CreateError) -> RpcError {
    match error {
        CreateError::IdempotencyKeyConflict => {
            RpcError::invalid_params("This idempotency key was used for a call with other arguments; use a new key")
        }
        CreateError::NotUnique { live: Some(live) } => RpcError::not_unique(
            format!(
                "Not started: task {live} of this tool is live with the same unique value and other arguments. Wait for its end or cancel it, then call again"
            ),
            Some(live.as_str()),
        ),
        CreateError::NotUnique { live: None } => RpcError::not_unique(
            "Not started: a call of another principal with the same unique value is live. Call again when it has ended",
            None,
        ),
        CreateError::Quota(exceeded) => Busy::Quota(exceeded).into(),
        CreateError::Parent(refused) => {
            error!(%refused, "a client's call has no parent");
            RpcError::internal("The parent task can no longer start a child task")
        }
        CreateError::Replaced(refused) => {
            error!(%refused, "a client's call replaces a task");
            RpcError::internal("The task that this call replaces cannot be ended")
        }
        CreateError::Schedule(refused) => {
            error!(%refused, "a client's call is the start of a schedule");
            RpcError::internal("The schedule does not start this call")
        }
        // A refusal, by its code, also where a proxy has changed the status.
        CreateError::Store(StoreError::Full) => RpcError::busy(
            "The server has no room to write, and the call was not started; try again later",
            RETRY_AFTER,
        )
        .with_status(507),
        CreateError::Store(error) => store_failed(error),
    }
}

/// The error for a client whose request is ended by a shutdown.
pub(crate) fn shutting_down() -> RpcError {
    RpcError::internal("The server is shutting down; try again").with_status(503)
}

/// The error for a client whose call would only begin at the next start of a server that drains.
pub(crate) fn draining() -> RpcError {
    RpcError::unavailable(
        "The server is stopping, and the call was not started; try again",
        RETRY_AFTER,
    )
}

/// The error for a client whose credentials ended before anything had begun. Not 401, after which clients repeat their request with the same credentials.
pub(crate) fn credentials_ended() -> RpcError {
    RpcError::invalid_request("The credentials have expired or were revoked").with_status(403)
}

/// The error for a client that comes back for an answer which this process does not have.
pub(crate) fn answer_lost() -> RpcError {
    RpcError::interrupted(
        "The server was started anew, or keeps the answer no longer; whether the call has completed is not known here. Call again only if it may run twice",
    )
}

/// The error in the place of one after which clients think that nothing has happened, for a call that may have begun.
pub(crate) fn after_begin(error: RpcError) -> RpcError {
    match error.status() {
        429 | 503 => {
            // What follows is advice to try again.
            let reason = error.message().split(';').next().unwrap_or_default();
            RpcError::interrupted(format!("{reason}; the call may have run")).with_status(500)
        }
        _ => error,
    }
}

/// The error for a client whose credentials were revoked while it waited for a call that may have begun. Neither a status nor a code after which clients think
/// that nothing has happened.
pub(crate) fn revoked_after_begin() -> RpcError {
    RpcError::interrupted(
        "The credentials were revoked after the call was accepted; it may have run, and its result is not sent",
    )
}
