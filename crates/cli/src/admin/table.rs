//! Columns under a header.

use crate::{
    columns::{columns, fit_cells, padded},
    output::plain,
};

/// Rows as text: columns as wide as their cells. A line that is wider than `width` is cut; its first cell never is.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]], width: usize) -> String {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.clone().map(|cell| plain(&cell, "")))
        .collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.chain([header[column].len()]).max().unwrap_or_default()
    });
    let line = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths);
        let padded: Vec<String> = cells.map(|(cell, width)| padded(cell, width)).collect();
        format!("{}\n", fit_cells(&padded, width))
    };
    let header = header.map(str::to_owned);
    std::iter::once(&header).chain(&rows).map(line).collect()
}
