//! The result of a scenario, and its report.

use super::case::{Case, VERSION};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// A check in the suite's report.
#[derive(Deserialize)]
pub(super) struct Check {
    id: String,
    status: String,
    #[serde(rename = "errorMessage")]
    error_message: Option<String>,
}

/// The result of a scenario.
#[derive(Serialize)]
pub(super) struct Verdict {
    revision: &'static str,
    scenario: String,
    passed: usize,
    /// The checks that the suite has skipped.
    skipped: Vec<String>,
    /// The checks that failed, and why.
    failed: Vec<String>,
    /// Each check that has a result, and its status.
    #[serde(skip)]
    statuses: Vec<(String, String)>,
}

impl Verdict {
    pub(super) fn new(case: &Case, checks: Vec<Check>) -> Self {
        let mut verdict = Self {
            revision: case.revision,
            scenario: case.scenario.clone(),
            passed: 0,
            skipped: Vec::new(),
            failed: Vec::new(),
            statuses: Vec::new(),
        };
        for check in checks {
            if check.status != "INFO" {
                verdict.statuses.push((check.id.clone(), check.status.clone()));
            }
            match check.status.as_str() {
                "SUCCESS" => verdict.passed += 1,
                "SKIPPED" => verdict.skipped.push(check.id),
                "INFO" => {}
                status => {
                    let why = check.error_message.unwrap_or_default();
                    verdict.failed.push(format!("{status} {}: {why}", check.id));
                }
            }
        }
        // A scenario without checks has tested nothing, unless the suite skipped all of them.
        if verdict.passed + verdict.skipped.len() + verdict.failed.len() == 0 {
            verdict.failed.push("nothing was checked".to_owned());
        }
        verdict
    }

    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty()
    }

    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// The revision and the scenario.
    pub(super) fn case(&self) -> (&'static str, &str) {
        (self.revision, &self.scenario)
    }

    /// The checks and their statuses.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (&str, &str)> {
        let statuses = self.statuses.iter();
        statuses.map(|(check, status)| (check.as_str(), status.as_str()))
    }

    /// Prints the result as progress.
    pub(super) fn print_progress(&self) {
        eprintln!("conformance: {self}");
        self.failed.iter().for_each(|check| eprintln!("conformance:   {check}"));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed + self.failed.len();
        write!(out, "{} {:46} {}/{all}", self.revision, self.scenario, self.passed)?;
        if !self.skipped.is_empty() {
            write!(out, ", {} skipped", self.skipped.len())?;
        }
        if !self.is_good() {
            write!(out, "  FAILED")?;
        }
        Ok(())
    }
}

/// Prints a table, or one line of JSON.
pub(super) fn report(as_json: bool, verdicts: &[Verdict]) {
    if as_json {
        println!("{}", json!({"suite": VERSION, "scenarios": verdicts}));
        return;
    }
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    let sum = |count: fn(&Verdict) -> usize| verdicts.iter().map(count).sum::<usize>();
    println!(
        "{} scenarios: {} checks passed, {} failed, {} skipped by the suite",
        verdicts.len(),
        sum(|verdict| verdict.passed),
        sum(|verdict| verdict.failed.len()),
        sum(|verdict| verdict.skipped.len()),
    );
}
