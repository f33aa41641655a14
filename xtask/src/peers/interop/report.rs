//! Reads the output of a script, and reports it.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// A line of a script's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Step {
        /// Whoever is not ours.
        #[serde(alias = "server")]
        client: String,
        step: String,
        ok: bool,
        error: Option<String>,
    },
    /// The last line, with the number of steps.
    End { done: usize },
}

/// The result of a script.
#[derive(Serialize)]
pub(super) struct Verdict {
    script: String,
    /// The name and version of the client, as the script reports them; or of the server, if the client is ours.
    client: String,
    passed: usize,
    /// The steps that failed, and why.
    failed: Vec<String>,
}

impl Verdict {
    /// Reads the lines of a script. The last line of its log is reported if it did not finish.
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
                Err(_) => verdict.failed.push(format!("an invalid line: {line}")),
            }
        }
        // A script must have finished, and must have done at least one step.
        if end != Some(verdict.passed + verdict.failed.len()) || end == Some(0) {
            let last_line = log.lines().rev().find(|line| line.contains(char::is_alphanumeric));
            let last_line = last_line.map_or("its log is empty", str::trim);
            verdict.failed.push(format!("it did not finish: {last_line}"));
        }
        verdict
    }

    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty()
    }

    /// Prints the result as progress.
    pub(super) fn print_progress(&self) {
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

/// Prints a table, or one line of JSON.
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
