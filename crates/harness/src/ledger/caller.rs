//! The requests of a client about tasks, with what is recorded of each in the ledger.

use crate::{
    clock,
    ledger::history::Observation,
    ledger::{Ledger, LedgerCall},
    mcp::{CallOutcome, Client, ClientEra, RequestError, TaskState},
    rounds::violation::{Invariant, Violation},
};
use serde_json::Value;
use std::{
    io::ErrorKind,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// The error code of `tasks/*` for an unknown task, and for cancelling an ended one.
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
/// `data.reason` of a call that was cut off.
const INTERRUPTED: &str = "interrupted";

/// What happens to the servers of a client, and excuses that a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    Nothing,
    /// The server is killed, so connections break.
    Killed,
    /// Nodes are paused and cut off from their database, too: they do not answer in time, or say that it is to be tried again.
    Failing,
}

/// A request was not answered, and is excused. It may have been executed.
pub struct Unanswered;

/// A client.
pub struct Caller<C> {
    client: Client,
    ledger: Arc<Ledger<C>>,
    excuse: Excuse,
}

impl<C: LedgerCall> Caller<C> {
    pub fn new(client: Client, ledger: &Arc<Ledger<C>>, excuse: Excuse) -> Self {
        Self {
            client,
            ledger: Arc::clone(ledger),
            excuse,
        }
    }

    pub fn era(&self) -> ClientEra {
        self.client.era()
    }

    pub fn ledger(&self) -> &Ledger<C> {
        &self.ledger
    }

    /// Sends later requests to this address.
    pub fn moved(&mut self, address: SocketAddr) {
        self.client.moved(address);
    }

    /// Creates a task. Where it may have to be made again, the token of the call is its idempotency key.
    pub fn create(&mut self, tool: &str, arguments: Value, call: C) -> Result<Option<String>, Unanswered> {
        let began = clock::now();
        let key = call.token().to_owned();
        let created = match self.excuse {
            Excuse::Failing => self.client.create_keyed(tool, arguments, &key),
            Excuse::Nothing | Excuse::Killed => self.client.create(tool, arguments),
        };
        match created {
            Ok(task) => {
                self.ledger.record_acknowledged(&task, call, &key, began);
                Ok(Some(task))
            }
            Err(error) => self.failed("creating a task", error).map(|()| None),
        }
    }

    /// Calls a tool and waits for its result; a modern call may become a task. `Err` if it was interrupted: nothing of it may be left.
    pub fn call(&mut self, tool: &str, arguments: Value, text: Option<&str>) -> Result<Result<(), String>, Unanswered> {
        let ended = match self.era() {
            ClientEra::Legacy => self.client.call(tool, arguments).map(Some),
            ClientEra::Modern => self.client.begin(tool, arguments).map(|response| response.outcome()),
        };
        match ended {
            Ok(outcome) => {
                self.ledger.count("plain calls");
                if let (Some(text), Some(outcome)) = (text, outcome)
                    && !outcome.is(text)
                {
                    let what = format!("the plain call {text} ended as {outcome:?}");
                    self.ledger.report(Invariant::OWN_RESULT.violated(what));
                }
                Ok(Ok(()))
            }
            Err(RequestError::Refused { message, data, .. }) if data["reason"] == INTERRUPTED => Ok(Err(message)),
            Err(error) => self.failed("calling a tool", error).map(Ok),
        }
    }

    /// Reads a task. Returns the questions that it waits with.
    pub fn poll(&mut self, task: &str) -> Result<Vec<String>, Unanswered> {
        let began = clock::now();
        let state = match self.client.get(task) {
            Ok(state) => state,
            Err(error) => return self.failed_with(task, "tasks/get", error, began).map(|()| Vec::new()),
        };
        let mut questions = Vec::new();
        let seen = match state {
            TaskState::Live => Observation::LIVE,
            TaskState::Asks(asked) => {
                questions = asked;
                Observation::ASKS
            }
            TaskState::EndedStatus(status) => Observation::ended_as(&status),
            TaskState::Ended(outcome) => self.ledger.record_end(task, outcome),
        };
        self.ledger.observe(task, "tasks/get", seen, began);
        Ok(questions)
    }

    /// Reads these tasks; what is wrong with them is in the ledger.
    pub fn poll_all(&mut self, tasks: Vec<String>) {
        for task in tasks {
            // What is excused is looked at later.
            let _ = self.poll(&task);
        }
    }

    /// Reads all tasks that have not ended until they have. Returns what was found meanwhile.
    pub fn drain(&mut self, timeout: Duration) -> Vec<Violation> {
        let mut found = Vec::new();
        clock::wait_for(timeout, || {
            self.poll_all(self.ledger.open_tasks());
            found.extend(self.ledger.violations());
            (self.ledger.open() == 0 || !found.is_empty()).then_some(())
        });
        if found.is_empty() {
            found.extend(self.ledger.unended());
        }
        found
    }

    /// Waits for the result of a task. Legacy only.
    pub fn result(&mut self, task: &str) -> Result<(), Unanswered> {
        let began = clock::now();
        match self.client.result(task) {
            // In a stream an error has no status of its own.
            Ok(CallOutcome::Error { message, .. }) if self.excuse == Excuse::Failing && asks_to_try_again(&message) => {
                Err(self.unanswered())
            }
            Ok(outcome) => {
                let seen = self.ledger.record_end(task, outcome);
                self.ledger.observe(task, "tasks/result", seen, began);
                Ok(())
            }
            Err(error) => self.failed_with(task, "tasks/result", error, began),
        }
    }

    pub fn cancel(&mut self, task: &str) -> Result<(), Unanswered> {
        self.ledger.record_cancel_sent(task);
        let (began, era) = (clock::now(), self.era());
        let seen = match self.client.cancel(task) {
            Ok(()) => {
                self.ledger.count("cancels");
                match era {
                    ClientEra::Legacy => self.ledger.record_end(task, CallOutcome::Cancelled),
                    // It says only that the task was asked to end.
                    ClientEra::Modern => Observation::EXISTS,
                }
            }
            Err(RequestError::Refused {
                code: INVALID_PARAMS,
                message,
                ..
            }) if era == ClientEra::Legacy && !message.contains("not found") => Observation::ENDED,
            Err(error) => return self.failed_with(task, "tasks/cancel", error, began),
        };
        self.ledger.observe(task, "tasks/cancel", seen, began);
        Ok(())
    }

    /// Answers what a task asks. Modern only.
    pub fn answer(&mut self, task: &str, contents: &Value) -> Result<(), Unanswered> {
        for question in self.poll(task)? {
            let began = clock::now();
            match self.client.answer(task, &question, contents.clone()) {
                Ok(()) => {
                    self.ledger.count("questions answered");
                    self.ledger.observe(task, "tasks/update", Observation::ANSWERED, began);
                }
                Err(error) => self.failed_with(task, "tasks/update", error, began)?,
            }
        }
        Ok(())
    }

    /// Deletes a task that has ended.
    pub fn delete(&mut self, task: &str) -> Result<(), Unanswered> {
        if !self.ledger.record_delete_sent(task) {
            return Ok(());
        }
        match self.client.delete(task) {
            Ok(()) => self.ledger.record_delete_acknowledged(task),
            // Its work is still being stopped, or the release cannot delete. Then it is still there, which later polls check.
            Err(RequestError::Refused {
                code: INVALID_PARAMS | METHOD_NOT_FOUND,
                ..
            }) => self.ledger.record_delete_refused(task),
            Err(error) => return self.failed("deleting a task", error),
        }
        Ok(())
    }

    /// Checks that a task is gone whose deletion was requested. Without an acknowledgement it is deleted again: it may be there or not.
    pub fn check_deleted(&mut self, task: &str, is_acknowledged: bool) {
        if !is_acknowledged {
            let again = self.client.delete(task);
            if !matches!(again, Ok(()) | Err(RequestError::Refused { .. })) {
                let what = format!("the second deletion of task {task} fails: {again:?}");
                self.ledger.report(Invariant::SERVED.violated(what));
            }
        }
        if !matches!(self.client.get(task), Err(RequestError::Refused { .. })) {
            let what = format!("task {task} was deleted, and can be read");
            self.ledger.report(Invariant::FILES_GO.violated(what));
        }
    }

    /// A request about a task failed.
    fn failed_with(
        &mut self,
        task: &str,
        doing: &'static str,
        error: RequestError,
        began: Instant,
    ) -> Result<(), Unanswered> {
        let RequestError::Refused {
            code: INVALID_PARAMS,
            message,
            ..
        } = &error
        else {
            return self.failed(doing, error);
        };
        if self.ledger.may_be_deleted(task) {
            return Ok(());
        }
        self.ledger.observe(task, doing, Observation::ABSENT, began);
        // While a server runs this is only a contradiction; what it has forgotten over a fault is lost.
        if self.excuse != Excuse::Killed {
            let what = format!("task {task} was acknowledged and is not known: {doing}: {message}");
            self.ledger.report(Invariant::NOTHING_LOST.violated(what));
        }
        Ok(())
    }

    /// A request failed, which is excused or a violation.
    fn failed(&mut self, doing: &'static str, error: RequestError) -> Result<(), Unanswered> {
        let is_excused = match (self.excuse, &error) {
            (Excuse::Nothing, _) | (_, RequestError::Invalid(_)) => false,
            // A timeout does not mean that the server was killed.
            (Excuse::Killed, RequestError::Broken(error)) => !matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::TimedOut | ErrorKind::WouldBlock
            ),
            (Excuse::Killed, RequestError::Refused { .. }) => false,
            (Excuse::Failing, RequestError::Broken(_)) => true,
            (Excuse::Failing, RequestError::Refused { status, message, .. }) => {
                matches!(status, 429 | 503) || asks_to_try_again(message)
            }
        };
        if is_excused {
            return Err(self.unanswered());
        }
        let what = format!("{} client, {doing}: {error}", self.era().name());
        self.ledger.report(Invariant::SERVED.violated(what));
        Ok(())
    }

    fn unanswered(&self) -> Unanswered {
        self.ledger.count("unanswered");
        Unanswered
    }
}

fn asks_to_try_again(message: &str) -> bool {
    message.contains("try again")
}
