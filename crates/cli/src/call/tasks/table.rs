//! The list on a terminal: columns under a header, cut at the terminal's width.

use super::TaskRow;
use crate::output::{
    columns::{columns, fit_cells, padded},
    fraction, plain,
};
use longhaul_core::{Millis, UnixMillis};

/// Of a message less than this says nothing.
const LEAST_MESSAGE: usize = 12;

/// A tool or a server of fewer letters is not shortened.
const LEAST_NAME: usize = 8;

struct Column {
    name: &'static str,
    cells: Vec<String>,
}

/// The rows under a header. Columns that would say nothing are left out; the ids are whole, so that they can be copied.
pub(super) fn table(rows: &[TaskRow], now: UnixMillis, width: usize) -> String {
    let column = |name, cell: &dyn Fn(&TaskRow) -> String| Column {
        name,
        cells: rows.iter().map(|row| plain(&cell(row), "")).collect(),
    };
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let all = [
        column("TASK", &|row| row.shown_id()),
        column("TOOL", &|row| text(row.tool())),
        column("STATE", &|row| match row.not_told {
            Some(_) => format!("{}?", row.state().0),
            None => row.state().0,
        }),
        column("PROGRESS", &|row| {
            row.fraction().map_or_else(String::new, fraction::bar)
        }),
        column("AGE", &|row| {
            let begun = row.call.as_ref().map(|call| call.begun_at);
            begun.map_or_else(|| "-".to_owned(), |begun| age(now, begun))
        }),
        column("SERVER", &|row| row.server().to_owned()),
        column("MESSAGE", &|row| row.detail().unwrap_or_default()),
    ];
    let has_several_servers = rows.iter().any(|row| row.server() != rows[0].server());
    let says_something = |column: &Column| match column.name {
        "SERVER" => has_several_servers,
        "PROGRESS" | "MESSAGE" => column.cells.iter().any(|cell| !cell.is_empty()),
        _ => true,
    };
    let mut shown: Vec<Column> = all.into_iter().filter(says_something).collect();
    // What does not fit even with short names, is left out. The message has the numbers of the progress, and is in `task`.
    for name in ["PROGRESS", "MESSAGE"] {
        if least(&shown) > width {
            shown.retain(|column| column.name != name);
        }
    }
    shorten_names(&mut shown, width);
    let line = |cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = shown
            .iter()
            .map(|column| padded(&cell(column), column.width()))
            .collect();
        format!("{}\n", fit_cells(&cells, width))
    };
    let header = line(&|column| column.name.to_owned());
    let lines = (0..rows.len()).map(|row| line(&|column| column.cells[row].clone()));
    std::iter::once(header).chain(lines).collect()
}

/// The width of these columns with what is between them.
fn total(columns: &[Column]) -> usize {
    columns
        .iter()
        .map(|column| column.width() + 2)
        .sum::<usize>()
        .saturating_sub(2)
}

/// The same with short names, and the beginning of the message.
fn least(columns: &[Column]) -> usize {
    let spared = |column: &Column| {
        let least = match column.name {
            "TOOL" | "SERVER" => LEAST_NAME,
            "MESSAGE" => LEAST_MESSAGE,
            _ => return 0,
        };
        column.width().saturating_sub(least)
    };
    total(columns).saturating_sub(columns.iter().map(spared).sum())
}

/// Shortens tools and servers, the longest first, until all columns fit, of a message its beginning. The message, which is last, ends at the edge.
fn shorten_names(columns: &mut [Column], width: usize) {
    loop {
        let message = columns.last().filter(|last| last.name == "MESSAGE");
        let cut = message.map_or(0, |message| message.width().saturating_sub(LEAST_MESSAGE));
        if total(columns) - cut <= width {
            return;
        }
        let names = columns
            .iter_mut()
            .filter(|column| matches!(column.name, "TOOL" | "SERVER"));
        let Some(longest) = names.max_by_key(|column| column.width()) else {
            return;
        };
        let length = longest.width();
        if length <= LEAST_NAME {
            return;
        }
        for cell in &mut longest.cells {
            *cell = shortened(cell, length - 1);
        }
    }
}

/// The text with at most so many letters: its beginning and its end.
pub(crate) fn shortened(text: &str, length: usize) -> String {
    let count = text.chars().count();
    if count <= length {
        return text.to_owned();
    }
    // An ellipsis of an earlier cut is in the middle, and is cut away with it.
    let end = length.saturating_sub(1) / 2;
    let begin = length.saturating_sub(1) - end;
    let first: String = text.chars().take(begin).collect();
    let last: String = text.chars().skip(count - end).collect();
    format!("{first}…{last}")
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| columns(cell));
        cells.chain([self.name.len()]).max().unwrap_or_default()
    }
}

/// In the largest unit: `12s`, `3m`, `5h`, `2d`.
fn age(now: UnixMillis, begun: UnixMillis) -> String {
    const UNITS: [(Millis, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];
    let age = now.0.saturating_sub(begun.0).max(0) as u64;
    let unit = UNITS.iter().find(|(millis, _)| age >= *millis);
    unit.map_or_else(
        || format!("{}s", age / 1000),
        |(millis, name)| format!("{}{name}", age / millis),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, cell: &str) -> Column {
        Column {
            name,
            cells: vec![cell.to_owned()],
        }
    }

    #[test]
    fn names_are_shortened_until_all_columns_fit() {
        let mut columns = [
            column("TASK", &"i".repeat(36)),
            column("TOOL", "generate_the_quarterly_report"),
            column("STATE", "outcome unknown?"),
            column("AGE", "23h"),
            column("SERVER", "https://mcp.example.com/mcp"),
        ];
        shorten_names(&mut columns, 80);
        assert_eq!(total(&columns), 80);
        assert_eq!(columns[1].cells[0], "gene…port");
        assert_eq!(columns[3].cells[0], "23h");
        assert_eq!(columns[4].cells[0], "http…mcp");
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn a_message_stays_if_shorter_names_make_room() {
        let mut columns = [
            column("TASK", &"i".repeat(36)),
            column("TOOL", "generate_the_quarterly_report"),
            column("STATE", "working"),
            column("AGE", "23h"),
            column("MESSAGE", "waiting for a slot behind 3 others"),
        ];
        assert_eq!(least(&columns), 36 + 8 + 7 + 3 + 12 + 4 * 2);
        shorten_names(&mut columns, 80);
        assert_eq!(columns[1].width(), 14);
        assert_eq!(total(&columns[..4]) + 2 + LEAST_MESSAGE, 80);
    }

    #[test]
    fn ages_have_one_unit() {
        for (millis, shown) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (86_399_999, "23h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(age(UnixMillis(millis), UnixMillis(0)), shown);
        }
        assert_eq!(age(UnixMillis(0), UnixMillis(5)), "0s", "the clock was set back");
    }
}
