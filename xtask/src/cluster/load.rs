//! The clients: each sends its requests to whichever node comes next, and goes on through all faults.

use super::nodes::Service;
use fastrand::Rng;
use harness::{
    clock,
    commands::{CommandCall, CommandKind, CommandLedger, CommandLoad},
    durable::{DurableCall, DurableLedger, DurableTool},
    ledger::LedgerCall,
    ledger::caller::{Caller, Excuse, Unanswered},
    mcp::{Client, ClientEra},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// After this time a client does not wait for an answer any more.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(8);
/// Before a request is made again that was not answered.
const AGAIN_AFTER: Duration = Duration::from_millis(40);
/// How many calls of a service are kept to be made again.
const REPEATABLE: usize = 16;

/// What all clients share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) commands: Arc<CommandLedger>,
    pub(super) durable: Arc<DurableLedger>,
    pub(super) stop: AtomicBool,
}

impl Shared {
    /// How often something has happened.
    pub(super) fn counted(&self, what: &str) -> usize {
        self.commands.counted(what) + self.durable.counted(what)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A call that can be made again with its key.
#[derive(Clone)]
struct RepeatableCall<C> {
    tool: &'static str,
    call: C,
    arguments: Value,
}

/// A client of both services.
pub(super) struct Worker {
    pub(super) commands: Caller<CommandCall>,
    pub(super) durable: Caller<DurableCall>,
    commands_made: Vec<RepeatableCall<CommandCall>>,
    durable_made: Vec<RepeatableCall<DurableCall>>,
    rng: Rng,
    shared: Arc<Shared>,
    nth: u64,
    seed: u64,
}

impl Worker {
    pub(super) fn new(era: ClientEra, addresses: [SocketAddr; 2], seed: u64, shared: &Arc<Shared>) -> Self {
        let [commands, durable] = addresses.map(|address| Client::with_timeout(era, address, TIMEOUT));
        Self {
            commands: Caller::new(commands, &shared.commands, Excuse::Failing),
            durable: Caller::new(durable, &shared.durable, Excuse::Failing),
            commands_made: Vec::new(),
            durable_made: Vec::new(),
            rng: Rng::with_seed(seed),
            shared: Arc::clone(shared),
            nth: 0,
            seed,
        }
    }

    /// Works until it is told to stop.
    pub(super) fn work(&mut self) {
        while !self.shared.is_stopped() {
            // What was not answered is counted, and looked at by later requests.
            let _ = match Service::ALL[self.rng.usize(..2)] {
                Service::Commands => self.on_commands(),
                Service::Durable => self.on_durable(),
            };
            clock::pause(PAUSE);
        }
    }

    fn token(&mut self) -> String {
        self.nth += 1;
        format!("t{:x}.{}", self.seed, self.nth)
    }

    fn on_commands(&mut self) -> Result<(), Unanswered> {
        let decision = self.rng.u8(0..100);
        if decision < 25 && self.shared.commands.open() < CommandLoad::Mixed.max_open() {
            let token = self.token();
            let kind = CommandKind::draw(CommandLoad::Mixed, &mut self.rng);
            let (call, arguments) = kind.call(token, CommandLoad::Mixed, &mut self.rng);
            let made = RepeatableCall {
                tool: kind.name(),
                call,
                arguments,
            };
            create(
                &mut self.commands,
                made,
                &mut self.commands_made,
                &self.shared,
                &mut self.rng,
            );
            return Ok(());
        }
        if (25..30).contains(&decision) {
            repeat(&mut self.commands, &self.commands_made, &self.shared, &mut self.rng);
            return Ok(());
        }
        on_task(&mut self.commands, decision, &mut self.rng)
    }

    fn on_durable(&mut self) -> Result<(), Unanswered> {
        let decision = self.rng.u8(0..100);
        match decision {
            0..25 if self.shared.durable.open() < CommandLoad::Mixed.max_open() => {
                let call = DurableCall::draw(self.token(), self.durable.era(), &mut self.rng);
                let made = RepeatableCall {
                    tool: call.tool.name(),
                    arguments: call.arguments(self.rng.u64(0..30)),
                    call,
                };
                create(
                    &mut self.durable,
                    made,
                    &mut self.durable_made,
                    &self.shared,
                    &mut self.rng,
                );
                Ok(())
            }
            25..30 => {
                repeat(&mut self.durable, &self.durable_made, &self.shared, &mut self.rng);
                Ok(())
            }
            // Of a plain call that is not answered nothing is known, and one that has become a task may be lost with its node.
            50..62 => {
                let token = self.token();
                let arguments = json!({"token": token, "millis": self.rng.u64(0..80)});
                self.durable.call("linger", arguments, Some(&token)).map(drop)
            }
            62..86 if self.durable.era() == ClientEra::Modern => {
                let asks = |tool| tool == DurableTool::Confirm;
                let asking = self
                    .shared
                    .durable
                    .pick_of(&mut self.rng, |entry| asks(entry.call.tool) && entry.outcome.is_none());
                asking.map_or(Ok(()), |task| self.durable.answer(&task, &answer()))
            }
            decision => on_task(&mut self.durable, decision, &mut self.rng),
        }
    }

    /// Reads all durable tasks that have not ended, and answers what they ask.
    pub(super) fn answer_all(&mut self) {
        for task in self.shared.durable.open_tasks() {
            // What was not answered is looked at again.
            let _ = self.durable.answer(&task, &answer());
        }
    }
}

fn answer() -> Value {
    json!({"word": DurableCall::WORD})
}

/// A request about a task.
fn on_task<C: LedgerCall>(caller: &mut Caller<C>, decision: u8, rng: &mut Rng) -> Result<(), Unanswered> {
    let Some(task) = caller.ledger().pick(rng) else {
        return Ok(());
    };
    match (decision, caller.era()) {
        (36..44, _) => caller.cancel(&task),
        (44..50, ClientEra::Legacy) => caller.result(&task),
        _ => caller.poll(&task).map(drop),
    }
}

/// Makes a call until its task is known, or this is to stop.
fn make<C: LedgerCall>(caller: &mut Caller<C>, made: &RepeatableCall<C>, shared: &Shared) {
    while caller
        .create(made.tool, made.arguments.clone(), made.call.clone())
        .is_err()
        && !shared.is_stopped()
    {
        caller.ledger().count("calls repeated");
        clock::pause(AGAIN_AFTER);
    }
}

fn create<C: LedgerCall>(
    caller: &mut Caller<C>,
    made: RepeatableCall<C>,
    all: &mut Vec<RepeatableCall<C>>,
    shared: &Shared,
    rng: &mut Rng,
) {
    make(caller, &made, shared);
    if all.len() == REPEATABLE {
        all.swap_remove(rng.usize(..REPEATABLE));
    }
    all.push(made);
}

/// Makes a call that was made before.
fn repeat<C: LedgerCall>(caller: &mut Caller<C>, all: &[RepeatableCall<C>], shared: &Shared, rng: &mut Rng) {
    if let Some(made) = rng.choice(all) {
        caller.ledger().count("calls repeated");
        make(caller, made, shared);
    }
}
