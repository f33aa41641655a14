//! What came of the cases, as a table that a page can carry.

use super::Run;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// What came of one case.
#[derive(Serialize)]
pub(super) struct CaseResult {
    host: String,
    case: String,
    way: String,
    #[serde(flatten)]
    said: CaseLine,
}

/// The line that a case prints.
#[derive(Serialize, Deserialize)]
pub(super) struct CaseLine {
    /// What the host made of it, in a word.
    word: String,
    /// What is wrong with that.
    problem: Option<String>,
    seconds: f64,
    turns: usize,
}

/// All cases.
#[derive(Serialize)]
pub(super) struct Report {
    date: String,
    versions: BTreeMap<String, String>,
    hosts: Vec<String>,
    cases: Vec<String>,
    results: Vec<CaseResult>,
}

impl CaseResult {
    /// Reads the line of a case. The last line of its log is reported if it has printed none.
    pub(super) fn read(run: &Run, line: &[u8], log: &str) -> Self {
        let said = serde_json::from_slice(line).unwrap_or_else(|_| CaseLine {
            word: "not run".to_owned(),
            problem: Some(log.lines().last().unwrap_or("it did not end in time").to_owned()),
            seconds: 0.0,
            turns: 0,
        });
        let Run { host, case, way } = run.clone();
        Self { host, case, way, said }
    }

    pub(super) fn is_good(&self) -> bool {
        self.said.problem.is_none()
    }
}

impl fmt::Display for CaseResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaseLine {
            word, problem, seconds, ..
        } = &self.said;
        write!(
            out,
            "{:12} {:11} {:5} {seconds:>6.1} s  {word}",
            self.host, self.case, self.way
        )?;
        problem
            .iter()
            .try_for_each(|problem| write!(out, "  FAILED: {problem}"))
    }
}

impl Report {
    pub(super) fn new(
        date: String,
        versions: BTreeMap<String, String>,
        hosts: Vec<String>,
        cases: Vec<String>,
        results: Vec<CaseResult>,
    ) -> Self {
        Self {
            date,
            versions,
            hosts,
            cases,
            results,
        }
    }

    /// Prints Markdown, or one line of JSON.
    pub(super) fn print(&self, as_json: bool) -> Result<(), serde_json::Error> {
        match as_json {
            true => println!("{}", serde_json::to_string(self)?),
            false => print!("{self}"),
        }
        Ok(())
    }

    /// What is in a cell: one word, or one for each way if they differ. What failed is bold.
    fn cell(&self, host: &str, case: &str) -> String {
        let here = |result: &&CaseResult| result.host == host && result.case == case;
        let word = |result: &CaseResult| match result.is_good() {
            true => result.said.word.clone(),
            false => format!("**{}**", result.said.word),
        };
        let words: Vec<_> = self
            .results
            .iter()
            .filter(here)
            .map(|it| (it.way.as_str(), word(it)))
            .collect();
        match words.as_slice() {
            [] => String::new(),
            [(_, first), rest @ ..] if rest.iter().all(|(_, word)| word == first) => first.clone(),
            words => Vec::from_iter(words.iter().map(|(way, word)| format!("{way}: {word}"))).join(", "),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self
            .versions
            .iter()
            .map(|(name, version)| format!("`{name}` {version}"));
        writeln!(out, "{}, {}.\n", self.date, Vec::from_iter(versions).join(", "))?;
        let was_run = |case: Option<&str>, host: Option<&str>| {
            let mut results = self.results.iter();
            results.any(|it| case.is_none_or(|case| it.case == case) && host.is_none_or(|host| it.host == host))
        };
        let hosts = || self.hosts.iter().filter(|host| was_run(None, Some(host)));
        writeln!(
            out,
            "| case | {} |",
            Vec::from_iter(hosts().map(String::as_str)).join(" | ")
        )?;
        writeln!(out, "| ---{} |", " | ---".repeat(hosts().count()))?;
        for case in self.cases.iter().filter(|case| was_run(Some(case), None)) {
            let cells = hosts().map(|host| self.cell(host, case));
            writeln!(out, "| {case} | {} |", Vec::from_iter(cells).join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(way: &str, line: &str) -> CaseResult {
        let [host, case, way] = ["codex", "quick", way].map(str::to_owned);
        CaseResult::read(&Run { host, case, way }, line.as_bytes(), "Traceback\nno such host")
    }

    fn cell(results: Vec<CaseResult>) -> String {
        let names = |name: &str| vec![name.to_owned()];
        Report::new(String::new(), BTreeMap::new(), names("codex"), names("quick"), results).cell("codex", "quick")
    }

    #[test]
    fn a_cell_names_the_ways_that_differ() {
        let good = r#"{"word":"result","problem":null,"seconds":1.0,"turns":2}"#;
        let bad = r#"{"word":"hung","problem":"the host did not end","seconds":1.0,"turns":2}"#;
        assert_eq!(cell(vec![result("stdio", good), result("http", good)]), "result");
        assert_eq!(
            cell(vec![result("stdio", good), result("http", bad)]),
            "stdio: result, http: **hung**"
        );
        assert_eq!(cell(Vec::new()), "");
    }

    #[test]
    fn a_case_without_a_line_has_failed() {
        let result = result("stdio", "");
        assert!(!result.is_good());
        assert!(result.to_string().ends_with("FAILED: no such host"), "{result}");
    }
}
