//! The crash test of durable tools in Rust. A step has an effect before its journal entry is written. So effects show whether a step was left out, and whether
//! one was repeated after a later step of its call: then its journal entry was lost.

use super::older::Release;
use fastrand::Rng;
use harness::{
    clock,
    durable::steps::Steps,
    durable::{DurableCall, DurableLedger, under_fire},
    ledger::caller::{Caller, Excuse},
    mcp::{CallOutcome, Client, ClientEra},
    rounds::report::RunReport,
    rounds::violation::Violation,
    rounds::{Campaign, RunError},
    server::Server,
    site::Site,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How many calls are open at most.
const MAX_OPEN: usize = 24;
/// How many calls a round makes at most.
const MAX_CREATES: usize = 12;
/// How many old tasks are checked after each restart.
const OLD: usize = 20;
/// How long the last server may take to complete the open calls.
const DRAIN: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(15);

pub(super) struct DurableCrashes {
    data: PathBuf,
    effects: PathBuf,
    log: PathBuf,
    release: Release,
    ledger: Arc<DurableLedger>,
    client: Caller<DurableCall>,
    auditor: Caller<DurableCall>,
    steps: Steps,
    round: u32,
}

impl DurableCrashes {
    pub(super) fn start(site: &Site, release: Release) -> Result<Self, RunError> {
        let ledger = Arc::default();
        Ok(Self {
            steps: Steps::open(&site.file("effects"))?,
            data: site.file("data"),
            effects: site.file("effects"),
            log: site.file("server.log"),
            release,
            client: Caller::new(Client::of_nobody(ClientEra::Legacy), &ledger, Excuse::Killed),
            auditor: Caller::new(Client::of_nobody(ClientEra::Modern), &ledger, Excuse::Nothing),
            ledger,
            round: 0,
        })
    }

    fn serve(&mut self) -> Result<Server, RunError> {
        let programs = self.release.of_round(self.round);
        let mut command = under_fire(&programs.under_fire, &self.data, programs.effects_flag, &self.effects);
        let mut server = Server::start(&mut command, &self.log)?;
        let address = server.ready()?;
        self.client.moved(address);
        self.auditor.moved(address);
        Ok(server)
    }

    fn found(&mut self) -> Result<Vec<Violation>, RunError> {
        let mut found = self.ledger.violations();
        found.extend(self.steps.violations()?);
        Ok(found)
    }
}

impl Campaign for DurableCrashes {
    fn round(&mut self, round: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        self.round = round;
        let mut server = self.serve()?;
        self.auditor.poll_all(self.ledger.due(rng, OLD));
        for nth in 0..rng.usize(1..=MAX_CREATES) {
            if self.ledger.open() < MAX_OPEN {
                let call = DurableCall::draw(format!("c{round}.{nth}"), ClientEra::Legacy, rng);
                // If its acknowledgement is lost, it is unknown whether the call exists.
                let _ = self
                    .client
                    .create(call.tool.name(), call.arguments(rng.u64(0..25)), call);
            }
        }
        clock::pause(Duration::from_millis(rng.u64(20..300)));
        server.kill()?;
        self.found()
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        let mut server = self.serve()?;
        let mut found = self.auditor.drain(DRAIN);
        found.extend(self.found()?);
        for task in self.ledger.tasks() {
            if let Some(entry) = self.ledger.entry(&task)
                && matches!(entry.outcome, Some(CallOutcome::Result { .. }))
            {
                found.extend(self.steps.unfinished(&entry.call.token, entry.call.steps));
            }
        }
        server.stop(STOP)?;
        report.needed("acknowledged", self.ledger.acknowledged(), "task was acknowledged");
        report.line("effects of steps", self.steps.count);
        let repeated = self.steps.repeated;
        report.needed(
            "repeated steps",
            repeated,
            "step was caught between its effect and its entry",
        );
        Ok(found)
    }

    fn progress(&self) -> String {
        format!(
            "{} acknowledged, {} open",
            self.ledger.acknowledged(),
            self.ledger.open()
        )
    }
}
