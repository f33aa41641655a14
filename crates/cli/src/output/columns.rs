//! Text in the columns of a terminal, where a letter may take two of them.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How many columns the text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text, and spaces up to this column.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The line in at most so many columns: one that is too long ends with `…`.
pub(crate) fn fit(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |char: &char| match room.checked_sub(char.width().unwrap_or_default()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let begin: String = line.chars().take_while(fits).collect();
    match begin.trim().is_empty() {
        true => String::new(),
        false => format!("{begin}…"),
    }
}

/// The cells of a line, of which the first is never cut: it is an id, to be copied.
pub(crate) fn fit_cells(cells: &[String], width: usize) -> String {
    let Some((first, others)) = cells.split_first() else {
        return String::new();
    };
    let others: String = others.iter().map(|cell| format!("  {cell}")).collect();
    let room = width.saturating_sub(columns(first));
    format!("{first}{}", fit(others.trim_end(), room)).trim_end().to_owned()
}

/// The width of a terminal that does not say it.
const USUAL_WIDTH: usize = 80;

/// The width of the terminal that standard output is.
pub(crate) fn terminal_width() -> usize {
    #[cfg(unix)]
    let width = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col.into());
    #[cfg(not(unix))]
    let width = 0;
    if width == 0 { USUAL_WIDTH } else { width }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_says_so() {
        assert_eq!(fit("abcd", 4), "abcd");
        assert_eq!(fit("abcde", 4), "abc…");
        assert_eq!(fit("abcde", usize::MAX), "abcde");
        assert_eq!(fit("  abc", 3), "", "no letter of it fits");
        // Each takes two columns.
        assert_eq!(fit("\u{65e5}\u{672c}\u{8a9e}", 6), "\u{65e5}\u{672c}\u{8a9e}");
        assert_eq!(fit("\u{65e5}\u{672c}\u{8a9e}", 5), "\u{65e5}\u{672c}…");
        assert_eq!(fit("\u{65e5}\u{672c}\u{8a9e}", 4), "\u{65e5}…");
        assert_eq!(padded("\u{65e5}", 3), "\u{65e5} ");
    }

    #[test]
    fn the_first_cell_stays_whole() {
        let cells = ["8jp8bw", "running", "a long status"].map(str::to_owned);
        assert_eq!(fit_cells(&cells, 30), "8jp8bw  running  a long status");
        assert_eq!(fit_cells(&cells, 20), "8jp8bw  running  a …");
        assert_eq!(fit_cells(&cells, 10), "8jp8bw  r…");
        assert_eq!(fit_cells(&cells, 9), "8jp8bw");
        assert_eq!(fit_cells(&cells, 3), "8jp8bw");
        let cells = ["8jp8bw", "running", "   "].map(str::to_owned);
        assert_eq!(fit_cells(&cells, 15), "8jp8bw  running", "there is nothing more");
    }
}
