//! Columns under a header.

use crate::output::plain;

/// Rows as text: columns as wide as their cells, the last one to the end of the line.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]], width: usize) -> String {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.clone().map(|cell| plain(&cell, "")))
        .collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or_default()
    });
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths);
        let padded: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        let line: String = padded.join("  ").chars().take(width).collect();
        format!("{}\n", line.trim_end())
    };
    let header = header.map(str::to_owned);
    std::iter::once(&header).chain(&rows).map(line).collect()
}
