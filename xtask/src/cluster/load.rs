//! The clients: each sends its requests to whichever node comes next, and goes on through all faults.

use super::{
    calls::{Call, Calls, Tool},
    history::{History, Observation},
    nodes::Service,
    violation::Violation,
};
use crate::{
    clock,
    crash::{Kind, Ledger, Load},
    mcp::{CallResponse, Client, Era, Outcome, RequestError, TaskState},
};
use fastrand::Rng;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// After this time a client does not wait for an answer any more.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(8);
/// Before a request is made again that was not answered.
const AGAIN_AFTER: Duration = Duration::from_millis(40);
/// The error code of `tasks/*` for an unknown task, and for cancelling an ended one.
const INVALID_PARAMS: i64 = -32602;
/// How many calls are kept to be made again.
const REPEATABLE: usize = 32;

/// What all clients share.
pub(super) struct Shared {
    pub(super) history: History,
    /// Of the calls of commands.
    pub(super) ledger: Ledger,
    /// Of the calls of durable tools.
    pub(super) calls: Calls,
    pub(super) violations: Mutex<Vec<Violation>>,
    pub(super) stop: AtomicBool,
    pub(super) counts: Counts,
}

/// How often what happened.
#[derive(Default)]
pub(super) struct Counts {
    /// Requests without an answer, or with one that says to try again.
    pub(super) unanswered: AtomicUsize,
    /// Calls that were made again with their key.
    pub(super) repeated: AtomicUsize,
    pub(super) plain_calls: AtomicUsize,
    pub(super) answers: AtomicUsize,
    pub(super) cancels: AtomicUsize,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            history: History::default(),
            ledger: Ledger::default(),
            calls: Calls::default(),
            violations: Mutex::default(),
            stop: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    pub(super) fn report(&self, violation: impl Into<Violation>) {
        self.violations.lock().push(violation.into());
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A call that can be made again with its key.
struct RepeatableCall {
    service: Service,
    tool: &'static str,
    arguments: Value,
    key: String,
}

/// What is recorded of a call once it is acknowledged.
enum New {
    Command(Kind, String),
    Durable(Call),
}

/// A client of both services.
pub(super) struct Worker<'a> {
    era: Era,
    commands: Client,
    durable: Client,
    rng: Rng,
    shared: &'a Shared,
    made: Vec<RepeatableCall>,
    nth: u64,
    seed: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(era: Era, addresses: [SocketAddr; 2], seed: u64, shared: &'a Shared) -> Self {
        let [commands, durable] = addresses.map(|address| Client::with_timeout(era, address, TIMEOUT));
        Self {
            era,
            commands,
            durable,
            rng: Rng::with_seed(seed),
            shared,
            made: Vec::new(),
            nth: 0,
            seed,
        }
    }

    /// Works until it is told to stop.
    pub(super) fn work(&mut self) {
        while !self.shared.is_stopped() {
            let service = Service::ALL[self.rng.usize(..2)];
            match self.rng.u8(0..100) {
                0..25 => self.create(service),
                25..30 => self.repeat(),
                30..36 => self.call(),
                36..44 => self.cancel(service),
                44..50 => self.result(service),
                50..62 => self.answer(),
                _ => self.poll(service),
            }
            clock::pause(PAUSE);
        }
    }

    fn client(&mut self, service: Service) -> &mut Client {
        match service {
            Service::Commands => &mut self.commands,
            Service::Durable => &mut self.durable,
        }
    }

    /// Creates a task, with as many requests as it takes.
    fn create(&mut self, service: Service) {
        let max_open = Load::Mixed.max_open();
        self.nth += 1;
        let token = format!("t{:x}.{}", self.seed, self.nth);
        let (made, new) = match service {
            Service::Commands if self.shared.ledger.open() < max_open => {
                let kind = Kind::draw(Load::Mixed, &mut self.rng);
                let (arguments, token) = kind.arguments(token, Load::Mixed, &mut self.rng);
                let made = RepeatableCall {
                    service,
                    tool: kind.name(),
                    arguments,
                    key: token.clone(),
                };
                (made, New::Command(kind, token))
            }
            Service::Durable if self.shared.calls.open() < max_open => {
                let call = Call::draw(token, self.era, &mut self.rng);
                let made = RepeatableCall {
                    service,
                    tool: call.tool.name(),
                    arguments: json!({"token": call.token, "steps": call.steps, "millis": self.rng.u64(0..30)}),
                    key: call.token.clone(),
                };
                (made, New::Durable(call))
            }
            _ => return,
        };
        if let Some((task, when)) = self.make(&made) {
            match new {
                New::Command(kind, token) => self.shared.ledger.record_acknowledged(task.clone(), kind, token),
                New::Durable(call) => self.shared.calls.record_acknowledged(&task, call),
            }
            self.acknowledged(&made.key, &task, when);
            if self.made.len() == REPEATABLE {
                self.made.remove(self.rng.usize(..REPEATABLE));
            }
            self.made.push(made);
        }
    }

    /// Makes a call that was made before.
    fn repeat(&mut self) {
        if self.made.is_empty() {
            return;
        }
        let made = self.made.remove(self.rng.usize(..self.made.len()));
        count(&self.shared.counts.repeated);
        if let Some((task, when)) = self.make(&made) {
            self.acknowledged(&made.key, &task, when);
        }
        self.made.push(made);
    }

    fn acknowledged(&self, key: &str, task: &str, when: (Instant, Instant)) {
        if let Err(found) = self.shared.history.record_key(key, task) {
            self.shared.report(found);
        }
        self.shared
            .history
            .record(task, "tools/call", Observation::EXISTS, when);
    }

    /// Makes a call until its task is known, or this is to stop.
    fn make(&mut self, made: &RepeatableCall) -> Option<(String, (Instant, Instant))> {
        loop {
            let began = clock::now();
            let (arguments, key) = (made.arguments.clone(), made.key.as_str());
            match self.client(made.service).create_keyed(made.tool, arguments, key) {
                Ok(task) => return Some((task, (began, clock::now()))),
                Err(error) => self.trouble("creating a task", error)?,
            }
            if self.shared.is_stopped() {
                return None;
            }
            count(&self.shared.counts.repeated);
            clock::pause(AGAIN_AFTER);
        }
    }

    /// A call whose caller waits. Of one that is not answered nothing is known.
    fn call(&mut self) {
        self.nth += 1;
        let token = format!("p{:x}.{}", self.seed, self.nth);
        let millis = self.rng.u64(0..80);
        let arguments = json!({"token": token, "millis": millis});
        let answer = match self.era {
            Era::Legacy => self.durable.call("linger", arguments).map(CallResponse::Result),
            Era::Modern => self.durable.begin("linger", arguments),
        };
        match answer {
            Ok(CallResponse::Result(outcome)) => {
                count(&self.shared.counts.plain_calls);
                let is_right = matches!(&outcome, Outcome::Result { is_error: false, text } if *text == token);
                if !is_right {
                    self.shared.report(Violation::WrongOutcome {
                        task: "none".to_owned(),
                        token,
                        outcome,
                    });
                }
            }
            // It may be lost with its node, as it is not durable.
            Ok(CallResponse::Task(_)) => count(&self.shared.counts.plain_calls),
            Err(RequestError::Refused { data, .. }) if data["reason"] == "interrupted" => {
                count(&self.shared.counts.unanswered);
            }
            Err(error) => {
                self.trouble("calling a tool", error);
            }
        }
    }

    fn pick(&mut self, service: Service) -> Option<String> {
        match service {
            Service::Commands => self.shared.ledger.pick(&mut self.rng),
            Service::Durable => self.shared.calls.pick(&mut self.rng),
        }
    }

    fn poll(&mut self, service: Service) {
        if let Some(task) = self.pick(service) {
            self.poll_task(service, &task);
        }
    }

    /// Reads a task. Returns the questions that it waits with.
    pub(super) fn poll_task(&mut self, service: Service, task: &str) -> Vec<String> {
        let began = clock::now();
        let state = match self.client(service).get(task) {
            Ok(state) => state,
            Err(error) => {
                self.trouble_with(task, "polling", error, began);
                return Vec::new();
            }
        };
        let (seen, questions) = match state {
            TaskState::Live => (Observation::LIVE, Vec::new()),
            TaskState::Asks(questions) => (Observation::ASKS, questions),
            TaskState::EndedStatus(_) => (Observation::ENDED, Vec::new()),
            TaskState::Ended(outcome) => (self.ended(service, task, outcome), Vec::new()),
        };
        self.see(task, "tasks/get", seen, began);
        questions
    }

    fn see(&self, task: &str, by: &'static str, seen: Observation, began: Instant) {
        self.shared.history.record(task, by, seen, (began, clock::now()));
    }

    /// Records an outcome.
    fn ended(&self, service: Service, task: &str, outcome: Outcome) -> Observation {
        let how = format!("{outcome:?}");
        let checked = match service {
            Service::Commands => self.shared.ledger.record_end(task, outcome).map_err(Violation::from),
            Service::Durable => self.shared.calls.record_end(task, outcome),
        };
        if let Err(violation) = checked {
            self.shared.report(violation);
        }
        Observation::ended(how)
    }

    fn cancel(&mut self, service: Service) {
        let Some(task) = self.pick(service) else { return };
        match service {
            Service::Commands => self.shared.ledger.record_cancel_sent(&task),
            Service::Durable => self.shared.calls.record_cancel_sent(&task),
        }
        let (era, began) = (self.era, clock::now());
        match self.client(service).cancel(&task) {
            Ok(()) => {
                count(&self.shared.counts.cancels);
                let seen = match era {
                    Era::Legacy => self.ended(service, &task, Outcome::Cancelled),
                    // It says only that the task was asked to end.
                    Era::Modern => Observation::EXISTS,
                };
                self.see(&task, "tasks/cancel", seen, began);
            }
            Err(RequestError::Refused {
                code: INVALID_PARAMS,
                message,
                ..
            }) if era == Era::Legacy && !message.contains("not found") => {
                self.see(&task, "tasks/cancel", Observation::ENDED, began);
            }
            Err(error) => self.trouble_with(&task, "cancelling", error, began),
        }
    }

    fn result(&mut self, service: Service) {
        if self.era == Era::Modern {
            return self.poll(service);
        }
        let Some(task) = self.pick(service) else { return };
        let began = clock::now();
        match self.client(service).result(&task) {
            // In a stream an error has no status of its own.
            Ok(Outcome::Error { message, .. }) if message.contains("try again") => {
                count(&self.shared.counts.unanswered);
            }
            Ok(outcome) => {
                let seen = self.ended(service, &task, outcome);
                self.see(&task, "tasks/result", seen, began);
            }
            Err(error) => self.trouble_with(&task, "waiting for a result", error, began),
        }
    }

    /// Answers what a task asks.
    fn answer(&mut self) {
        let asking = self.shared.calls.pick_of(Tool::Confirm, &mut self.rng);
        if let (Some(task), Era::Modern) = (asking, self.era) {
            self.answer_task(&task);
        }
    }

    pub(super) fn answer_task(&mut self, task: &str) {
        for question in self.poll_task(Service::Durable, task) {
            let began = clock::now();
            let word = json!({"word": "yes"});
            match self.durable.answer(task, &question, word) {
                Ok(()) => {
                    count(&self.shared.counts.answers);
                    self.see(task, "tasks/update", Observation::ANSWERED, began);
                }
                Err(error) => self.trouble_with(task, "answering", error, began),
            }
        }
    }

    /// A request about a task failed.
    fn trouble_with(&mut self, task: &str, doing: &'static str, error: RequestError, began: Instant) {
        match error {
            RequestError::Refused {
                code: INVALID_PARAMS,
                message,
                ..
            } => {
                self.see(task, doing, Observation::ABSENT, began);
                self.shared.report(Violation::Lost {
                    task: task.to_owned(),
                    why: format!("{doing}: {message}"),
                });
            }
            error => {
                self.trouble(doing, error);
            }
        }
    }

    /// A request failed: `None` if it must not have, and trying it again would not help.
    fn trouble(&mut self, doing: &'static str, error: RequestError) -> Option<()> {
        if may_be_tried_again(&error) {
            count(&self.shared.counts.unanswered);
            return Some(());
        }
        self.shared.report(Violation::Misbehaved {
            era: self.era.name(),
            doing,
            problem: error.to_string(),
        });
        None
    }
}

/// Whether the request was not answered, or the answer is that it may be made again.
fn may_be_tried_again(error: &RequestError) -> bool {
    match error {
        RequestError::Broken(_) => true,
        RequestError::Refused { status, message, .. } => {
            matches!(status, 429 | 503) || message.contains("try again") || message.contains("before you try again")
        }
        RequestError::Invalid(_) => false,
    }
}
