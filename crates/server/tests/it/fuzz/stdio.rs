//! Lines of both eras on one connection, sound and damaged, junk between them, and lines that never seem to end.

use super::{
    CHANCES,
    expected::{self, Seen},
    grammar::{DamagedRequest, Family, Known},
    json::Rarely,
    world::{World, Worlds},
};
use bolero::{TypeGenerator, generator::produce};
use longhaul_schemas::MessageChecker;
use longhaul_server::stdio::MAX_LINE;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, Clone, TypeGenerator)]
struct Case {
    #[generator(produce::<Vec<_>>().with().len(1..8usize))]
    sent: Vec<SentLine>,
}

#[derive(Debug, Clone, TypeGenerator)]
struct SentLine {
    family: Family,
    step: DamagedRequest,
    /// Sent before it, perhaps without a line break between them.
    junk: Rarely<Vec<u8>>,
    /// By how many bytes the line is longer or shorter than the limit; very rare, since it takes as long as many cases.
    endless: Rarely<Rarely<Rarely<i8>>>,
    ends_as_on_windows: bool,
}

impl SentLine {
    fn endless(&self) -> Option<i8> {
        self.endless.0.as_ref()?.0.as_ref()?.0
    }

    fn write(&self, known: &Known) -> Vec<u8> {
        let mut bytes = self.junk.0.clone().unwrap_or_default();
        if let Some(more) = self.endless() {
            bytes.resize(MAX_LINE.saturating_add_signed(more.into()), b' ');
        }
        // A line break between the values of JSON would end the message.
        let body = self.step.write(self.family, known).body;
        bytes.extend(body.into_iter().filter(|byte| *byte != b'\n'));
        bytes.extend(if self.ends_as_on_windows { &b"\r\n"[..] } else { b"\n" });
        bytes
    }
}

/// The responses that must come for what was sent so far.
#[derive(Default)]
struct ResponseTally {
    /// For each id, as it was written: how many requests had it, and how many must be answered.
    asked: HashMap<String, (usize, usize)>,
    answered: HashMap<String, usize>,
    /// Lines that need an answer without an id.
    lines: usize,
    anonymous: usize,
    calls_off: bool,
    checker: MessageChecker,
}

impl ResponseTally {
    fn sent(&mut self, bytes: &[u8]) {
        let filled = |line: &&[u8]| !line.trim_ascii().is_empty() || line.len() > MAX_LINE;
        for line in bytes.split(|byte| *byte == b'\n').filter(filled) {
            self.lines += 1;
            if line.len() > MAX_LINE {
                continue;
            }
            let seen = Seen::of(line);
            self.calls_off |= seen.method() == "notifications/cancelled";
            if let Some(id) = seen.sound_id().filter(|_| seen.method.is_some()) {
                self.checker.sent(&seen.outline());
                let (all, sure) = self.asked.entry(id.to_owned()).or_default();
                *all += 1;
                *sure += usize::from(!seen.may_take_forever());
            }
        }
    }

    fn received(&mut self, text: &str, known: &mut Known) {
        let message = expected::tree(text);
        self.checker.received(&message).unwrap();
        let id = Seen::of(text.as_bytes()).sound_id().map(str::to_owned);
        match (message.get("method"), id) {
            (Some(_), Some(_)) => known.asked.extend(message["id"].as_str().map(str::to_owned)),
            (Some(_), None) => {}
            (None, Some(id)) => {
                *self.answered.entry(id).or_default() += 1;
                known.learn(&message);
                known.tasks.extend(task(&message));
            }
            (None, None) => self.anonymous += 1,
        }
    }

    /// Each request is answered once, under its id, unless it never ends or was cancelled; any other line at most once.
    fn balance(&self) {
        let total: usize = self.answered.values().sum();
        assert!(total + self.anonymous <= self.lines, "more answers than lines");
        // What we cannot read may have had any id.
        let all_are_read = self.lines == self.requests();
        for (id, (all, sure)) in &self.asked {
            let answered = self.answered.get(id).copied().unwrap_or_default();
            let is_enough = answered >= *sure || self.calls_off;
            let is_too_much = answered > *all && all_are_read;
            assert!(
                is_enough && !is_too_much,
                "{answered} answers to {sure} to {all} requests of id {id}"
            );
        }
    }

    fn requests(&self) -> usize {
        self.asked.values().map(|(all, _)| all).sum()
    }
}

fn task(answer: &Value) -> Option<String> {
    let result = &answer["result"];
    let task = result["task"]["taskId"].as_str().or(result["taskId"].as_str());
    task.map(str::to_owned)
}

const LAST: &[u8] = br#"{"jsonrpc":"2.0","id":"the last one","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
"#;

impl Case {
    /// No input is fatal: whatever was sent, the next request is answered, and the connection ends when its client is done.
    fn check(&self, world: &World) {
        world.over_a_pipe(async |mut pipe| {
            let (mut tally, mut known) = (ResponseTally::default(), Known::default());
            let written = self.sent.iter().map(Some).chain([None]);
            for sent in written {
                let bytes = sent.map_or_else(|| LAST.to_vec(), |sent| sent.write(&known));
                tally.sent(&bytes);
                for line in pipe.exchange(&bytes).await {
                    tally.received(&line, &mut known);
                }
            }
            assert!(
                tally.answered.contains_key(r#""the last one""#),
                "it does not answer any more"
            );
            for line in pipe.finish().await {
                tally.received(&line, &mut known);
            }
            tally.balance();
        });
    }
}

#[test]
fn stdio() {
    let worlds = std::panic::AssertUnwindSafe(Worlds::default());
    bolero::check!(name = "stdio")
        .with_iterations(CHANCES)
        .with_type::<Case>()
        .for_each(move |case| worlds.with(|world| case.check(world)));
}
