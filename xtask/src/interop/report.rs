//! What a client said, and how it is told.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// A line of a script.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Step {
        client: String,
        step: String,
        ok: bool,
        error: Option<String>,
    },
    /// The last one: how many steps there were.
    End { done: usize },
}

/// What came of a script.
#[derive(Serialize)]
pub(super) struct Verdict {
    script: String,
    /// The client and its version, by its own word.
    client: String,
    passed: usize,
    /// What did not go as it has to, and why.
    failed: Vec<String>,
}

impl Verdict {
    /// Reads the lines of a script; its log tells why it broke off.
    pub(super) fn read(script: String, lines: &str, log: &str) -> Self {
        let mut verdict = Self {
            script,
            client: String::new(),
            passed: 0,
            failed: Vec::new(),
        };
        let mut end = None;
        for line in lines.lines() {
            match serde_json::from_str(line) {
                Ok(Line::Step {
                    client,
                    step,
                    ok,
                    error,
                }) => {
                    verdict.client = client;
                    match ok {
                        true => verdict.passed += 1,
                        false => verdict.failed.push(format!("{step}: {}", error.unwrap_or_default())),
                    }
                }
                Ok(Line::End { done }) => end = Some(done),
                Err(_) => verdict.failed.push(format!("a line that was not understood: {line}")),
            }
        }
        // A script that broke off has not done the rest; one that did nothing has shown nothing.
        if end != Some(verdict.passed + verdict.failed.len()) || end == Some(0) {
            let last_words = log.lines().rev().find(|line| line.contains(char::is_alphanumeric));
            let last_words = last_words.map_or("it left no word why", str::trim);
            verdict.failed.push(format!("it did not come to its end: {last_words}"));
        }
        verdict
    }

    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty()
    }

    /// As progress.
    pub(super) fn tell(&self) {
        eprintln!("interop: {self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed + self.failed.len();
        write!(out, "{:34} {:38} {}/{all}", self.script, self.client, self.passed)?;
        if !self.is_good() {
            write!(out, "  FAILED")?;
        }
        self.failed.iter().try_for_each(|step| write!(out, "\n  {step}"))
    }
}

/// A table, or one line of JSON.
pub(super) fn report(as_json: bool, verdicts: &[Verdict]) {
    if as_json {
        println!("{}", json!({"scripts": verdicts}));
        return;
    }
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    let passed: usize = verdicts.iter().map(|verdict| verdict.passed).sum();
    let failed: usize = verdicts.iter().map(|verdict| verdict.failed.len()).sum();
    println!("{} scripts: {passed} steps passed, {failed} failed", verdicts.len());
}
