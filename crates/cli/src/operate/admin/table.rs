//! Columns under a header.

use crate::output::{
    columns::{columns, fit_cells, padded},
    plain,
};

/// Between two columns.
const GAP: usize = 2;
/// Columns of the terminal that the last cells need, to say something.
const LAST: usize = 24;

/// Rows as text: columns as wide as their cells. A line that is wider than `width` is cut; its first cell never is.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]], width: usize) -> String {
    table_without(header, rows, width, &[])
}

/// As [`table`]. If the last column would not be seen, it leaves out these ones, until it is.
pub(super) fn table_without<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    width: usize,
    dispensable: &[usize],
) -> String {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.clone().map(|cell| plain(&cell, "")))
        .collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.chain([header[column].len()]).max().unwrap_or_default()
    });
    let mut shown: Vec<usize> = (0..N).collect();
    for left_out in dispensable {
        let needed = |column: &usize| match column + 1 == N {
            true => widths[*column].min(LAST),
            false => widths[*column] + GAP,
        };
        if shown.iter().map(needed).sum::<usize>() <= width {
            break;
        }
        shown.retain(|column| column != left_out);
    }
    let line = |cells: &[String; N]| {
        let cells = shown.iter().map(|&column| padded(&cells[column], widths[column]));
        format!("{}\n", fit_cells(&cells.collect::<Vec<_>>(), width))
    };
    let header = header.map(str::to_owned);
    std::iter::once(&header).chain(&rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_leaves_out_what_matters_least() {
        let rows = [["8jp8bw", "running", "user", "why it is so, in many words"].map(str::to_owned)];
        let lines = |width| {
            let table = table_without(["TASK", "STATE", "WHO", "STATUS"], &rows, width, &[2, 1]);
            table.lines().last().unwrap().to_owned()
        };
        assert_eq!(lines(usize::MAX), "8jp8bw  running  user  why it is so, in many words");
        assert_eq!(lines(47), "8jp8bw  running  user  why it is so, in many w…");
        assert_eq!(lines(45), "8jp8bw  running  why it is so, in many words");
        assert_eq!(lines(32), "8jp8bw  why it is so, in many w…");
        assert_eq!(lines(20), "8jp8bw  why it is s…", "no more can be left out");
    }
}
