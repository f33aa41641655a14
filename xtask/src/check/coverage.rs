//! `cargo xtask coverage`: checks that the tests which docs/protocol-coverage.md names for each requirement exist.

use crate::peers::conformance::{self, ConformanceError};
use harness::workspace;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

const PAGE: &str = "docs/protocol-coverage.md";
const CLIENT: &str = "client's side";
const NOT_TESTED: &str = "not tested: ";
const LEFT_OUT: &str = "left out: ";

/// Why the check failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoverageError {
    #[error("the page or a source cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Suite(#[from] ConformanceError),
    #[error("{PAGE} is wrong:\n{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

/// Reads the page, checks every test that it names, and prints the requirements without one.
pub(crate) fn run() -> Result<(), CoverageError> {
    let text = fs::read_to_string(workspace::root().join(PAGE))?;
    let page = Page::read(&text);
    let tests = Tests::find()?;
    let mut wrong = page.gaps();
    for CoverageRow { line, id, shown_by } in &page.rows {
        let named: Vec<_> = code_spans(shown_by).collect();
        let missing = named.iter().filter(|name| !tests.have(name));
        wrong.extend(missing.map(|name| format!("line {line}: {id} names `{name}`, which does not exist")));
        let excused = [CLIENT, NOT_TESTED, LEFT_OUT]
            .iter()
            .any(|word| shown_by.starts_with(word));
        if named.is_empty() && !excused {
            wrong.push(format!(
                "line {line}: {id} names no test, and says neither `{CLIENT}` nor `{NOT_TESTED}…` nor `{LEFT_OUT}…`"
            ));
        }
    }
    wrong.extend(page.named_in(&tests.sources));
    if !wrong.is_empty() {
        return Err(CoverageError::Wrong(wrong));
    }
    page.print();
    Ok(())
}

/// The content of the page.
#[derive(Default)]
struct Page<'a> {
    rows: Vec<CoverageRow<'a>>,
    /// All ids in the ranges of headings, with the heading's line.
    promised: BTreeMap<String, usize>,
}

struct CoverageRow<'a> {
    line: usize,
    id: &'a str,
    shown_by: &'a str,
}

impl<'a> Page<'a> {
    fn read(text: &'a str) -> Self {
        let mut page = Self::default();
        for (line, content) in text.lines().enumerate().map(|(nth, content)| (nth + 1, content)) {
            if let Some(range) = content
                .strip_prefix("## ")
                .and_then(|heading| heading.split(": ").nth(1))
            {
                page.promised.extend(ids_of(range).map(|id| (id, line)));
            }
            let cells: Vec<_> = content.split('|').map(str::trim).collect();
            if let ["", id, _, shown_by, ""] = cells[..]
                && id.contains('-')
                && !id.starts_with('-')
            {
                page.rows.push(CoverageRow { line, id, shown_by });
            }
        }
        page
    }

    /// Ids without a row or with two, and rows outside of the ranges of headings.
    fn gaps(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::new();
        for CoverageRow { line, id, .. } in &self.rows {
            if !seen.insert(*id) {
                wrong.push(format!("line {line}: {id} has a row already"));
            }
            if !self.promised.contains_key(*id) {
                wrong.push(format!("line {line}: {id} is in no heading's range"));
            }
        }
        let missing = self.promised.iter().filter(|(id, _)| !seen.contains(id.as_str()));
        wrong.extend(missing.map(|(id, line)| format!("line {line}: {id} has no row")));
        wrong
    }

    /// Where sources name requirements. The page names the tests of each: so a reader of the sources needs no table.
    fn named_in(&self, sources: &[(String, String)]) -> Vec<String> {
        let families: BTreeSet<_> = self.rows.iter().filter_map(|row| family(row.id)).collect();
        let named = sources.iter().flat_map(|(file, source)| {
            let words = source.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            let ids = words.filter(|word| family(word).is_some_and(|family| families.contains(family)));
            ids.map(move |id| format!("{file} names {id}; say what it asks instead"))
        });
        named.collect()
    }

    /// Prints how many requirements have tests, and which have none.
    fn print(&self) {
        let excused = |row: &&CoverageRow<'_>, word| row.shown_by.starts_with(word);
        let count = |word| self.rows.iter().filter(|row| excused(row, word)).count();
        for CoverageRow { id, shown_by, .. } in self.rows.iter().filter(|row| excused(row, NOT_TESTED)) {
            println!("{id:6} {shown_by}");
        }
        let (client, not_tested, left_out) = (count(CLIENT), count(NOT_TESTED), count(LEFT_OUT));
        let shown = self.rows.len() - client - not_tested - left_out;
        println!(
            "{} requirements: {shown} shown by tests, {not_tested} not tested, {left_out} left out, {client} on the client's side",
            self.rows.len()
        );
    }
}

/// The part of an id before its number, as `G1` of `G1-07`; `None` if this is not an id.
fn family(id: &str) -> Option<&str> {
    let (family, number) = id.split_once('-')?;
    let is_id = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_id && family.starts_with(|letter: char| letter.is_ascii_uppercase())).then_some(family)
}

/// The ids in the range of a heading: `T-01 to T-17`.
fn ids_of(range: &str) -> impl Iterator<Item = String> {
    let ends = range.split_once(" to ").and_then(|(first, last)| {
        let (family, first) = first.split_once('-')?;
        let (_, last) = last.split_once('-')?;
        Some((family.to_owned(), first.parse().ok()?, last.parse().ok()?))
    });
    ends.into_iter()
        .flat_map(|(family, first, last): (String, u8, u8)| (first..=last).map(move |nth| format!("{family}-{nth:02}")))
}

/// The texts between backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|span| span.contains("::"))
}

/// All tests, by the names that the page uses.
struct Tests {
    names: BTreeSet<String>,
    /// Every source, by its path.
    sources: Vec<(String, String)>,
}

impl Tests {
    fn find() -> Result<Self, CoverageError> {
        let mut tests = Self {
            names: BTreeSet::new(),
            sources: Vec::new(),
        };
        let crates = workspace::root().join("crates");
        for folder in fs::read_dir(crates)? {
            let folder = folder?;
            let name = folder.file_name();
            tests.read_sources(&name.to_string_lossy(), &folder.path())?;
        }
        let scenarios = conformance::scenarios()?;
        tests
            .names
            .extend(scenarios.into_iter().map(|name| format!("suite::{name}")));
        Ok(tests)
    }

    fn read_sources(&mut self, name: &str, folder: &Path) -> Result<(), CoverageError> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.read_sources(name, &path)?;
            } else if path.extension().is_some_and(|it| it == "rs") {
                let source = fs::read_to_string(&path)?;
                let tests = tests_in(&source);
                self.names
                    .extend(tests.into_iter().map(|test| format!("{name}::{test}")));
                self.sources.push((path.display().to_string(), source));
            }
        }
        Ok(())
    }

    fn have(&self, name: &str) -> bool {
        match name.strip_prefix("interop::") {
            Some(file) => workspace::root().join("interop").join(file).is_file(),
            None => self.names.contains(name),
        }
    }
}

/// The test functions of a source.
fn tests_in(source: &str) -> Vec<String> {
    let mut marked = false;
    let mut names = Vec::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && let Some((_, rest)) = line.split_once("fn ") {
            names.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
            marked = false;
        }
    }
    names
}
