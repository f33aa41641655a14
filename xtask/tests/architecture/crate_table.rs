//! The table "What lives where" of ARCHITECTURE.md.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

/// What a row of the table says.
pub(crate) struct Row {
    /// The crate's folder.
    pub(crate) folder: String,
    /// The folders of the crates it uses; `None` where the table says "all".
    uses: Option<BTreeSet<String>>,
}

/// The rows of the table's crates, in its order.
pub(crate) fn read(page: &Path) -> Vec<Row> {
    let page = fs::read_to_string(page).expect("the page can be read");
    let rows: Vec<Row> = page
        .lines()
        .skip_while(|line| *line != "## What lives where")
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(row)
        .collect();
    assert!(rows.len() > 10, "the table has only {} rows", rows.len());
    rows
}

fn row(line: &str) -> Row {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let folder = cells.next().unwrap_or_default().trim_matches('`').to_owned();
    let uses = cells.next_back().unwrap_or_default();
    let named = uses.split(',').map(str::trim).filter(|name| *name != "–");
    Row {
        folder,
        uses: (uses != "all").then(|| named.map(|name| format!("crates/{name}")).collect()),
    }
}

/// How `uses` differs from what the row says, and what it uses of those that do not stand above it; empty if nothing is wrong.
pub(crate) fn compare(row: &Row, above: &[Row], uses: &BTreeSet<String>) -> String {
    let mut wrong = String::new();
    if let Some(said) = &row.uses {
        for unnamed in uses.difference(said) {
            let _ = writeln!(wrong, "`{}` uses `{unnamed}`, which its row does not name", row.folder);
        }
        for unused in said.difference(uses) {
            let _ = writeln!(wrong, "`{}` does not use `{unused}`, which its row names", row.folder);
        }
    }
    for below in uses
        .iter()
        .filter(|used| above.iter().all(|above| above.folder != **used))
    {
        let _ = writeln!(wrong, "`{}` uses `{below}`, which does not stand above it", row.folder);
    }
    wrong
}
