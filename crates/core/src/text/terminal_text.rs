//! What a terminal would show of a program's output, as text.

use std::borrow::Cow;
use vte::{Params, Parser, Perform};

/// The byte order mark in UTF-8. Some programs write it at the beginning of a text, where it says nothing.
///
/// ```
/// use longhaul_core::BYTE_ORDER_MARK;
/// assert_eq!("\u{feff}{}".as_bytes().strip_prefix(BYTE_ORDER_MARK), Some(&b"{}"[..]));
/// ```
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// How many lines the cursor may go up: less than a screen.
const HIGHEST: usize = 40;
/// A tab that does not stand at the end of its line moves to the next multiple.
const TAB: usize = 8;
/// Ends any sequence (ECMA-48, "CANCEL").
const CANCEL: &[u8] = b"\x18";
/// The first byte of a control of ECMA-48 beyond ASCII in UTF-8. The second byte is that of the control; behind ESC it would be less by this.
const BEYOND_ASCII: (u8, u8) = (0xC2, 0x40);

/// What a terminal would show of `output`, line by line: a line that a carriage return begins again is overwritten, cursor movements and erased parts are
/// followed, and all other sequences are removed (colours, titles, links). One that does not end ends with its line. What is not UTF-8 is replaced. `output` is of one stream; of a beginning that is cut
/// off, see [`skip_partial`].
///
/// ```
/// use longhaul_core::terminal_text;
/// assert_eq!(terminal_text(b"10%\r100%\n\x1b[32mdone\x1b[0m\n"), "100%\ndone\n");
/// assert_eq!(terminal_text(b"\x1b]0;title\x07\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\"), "link");
/// ```
pub fn terminal_text(output: &[u8]) -> Cow<'_, str> {
    let output = output.strip_prefix(BYTE_ORDER_MARK).unwrap_or(output);
    let is_plain = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\n' | b'\t');
    if output.iter().all(is_plain) {
        let text = String::from_utf8_lossy(output);
        // The controls beyond ASCII.
        if !text.contains(|char: char| char.is_control() && !char.is_ascii()) {
            return text;
        }
    }
    let mut screen = Screen {
        text: String::with_capacity(output.len()),
        lines: vec![Line::default()],
        row: 0,
        column: 0,
        padding: output.len(),
    };
    let mut parser = Parser::new();
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = match line.split_last() {
            Some((b'\n', text)) => (text, &line[text.len()..]),
            _ => (line, &[][..]),
        };
        advance(&mut parser, &mut screen, text);
        if !end.is_empty() {
            parser.advance(&mut screen, CANCEL);
            parser.advance(&mut screen, end);
        }
    }
    Cow::Owned(screen.into_text())
}

/// Reads a line without its end, with the controls beyond ASCII as those behind ESC, which are all that the parser knows.
fn advance(parser: &mut Parser, screen: &mut Screen, mut line: &[u8]) {
    let is_control = |two: &[u8]| two[0] == BEYOND_ASCII.0 && (0x80..0xA0).contains(&two[1]);
    while let Some(at) = line.windows(2).position(is_control) {
        parser.advance(screen, &line[..at]);
        parser.advance(screen, &[0x1B, line[at + 1] - BEYOND_ASCII.1]);
        line = &line[at + 2..];
    }
    parser.advance(screen, line);
}

/// Where a tail of an output is to begin, whose front was cut off: after the first end of a line, or frame of a progress bar; else within a line at its
/// beginning. Otherwise the rest of a sequence would be taken for text.
pub fn skip_partial(tail: &[u8]) -> usize {
    let after = |end: u8| tail.iter().position(|byte| *byte == end).map(|at| at + 1);
    after(b'\n')
        .filter(|begin| *begin < tail.len())
        .or_else(|| after(b'\r'))
        .filter(|begin| *begin < tail.len())
        .unwrap_or(0)
}

/// The lines that the cursor can reach, and the text of those above.
struct Screen {
    text: String,
    lines: Vec<Line>,
    row: usize,
    column: usize,
    /// Blanks that may still be put before text that stands beyond the end of its line: no output becomes much longer than it was.
    padding: usize,
}

#[derive(Default)]
struct Line {
    chars: Vec<char>,
    /// Whether the cursor was moved in it. Then blanks at its end are what is left of something longer.
    is_drawn: bool,
}

impl Screen {
    fn line(&mut self) -> &mut Line {
        &mut self.lines[self.row]
    }

    fn put(&mut self, char: char) {
        let column = self.column;
        let missing = column
            .saturating_sub(self.lines[self.row].chars.len())
            .min(self.padding);
        self.padding -= missing;
        let chars = &mut self.line().chars;
        chars.extend(std::iter::repeat_n(' ', missing));
        let column = column.min(chars.len());
        match chars.get_mut(column) {
            Some(there) => *there = char,
            None => chars.push(char),
        }
        self.column = column + 1;
    }

    fn line_feed(&mut self) {
        self.column = 0;
        self.row += 1;
        if self.row < self.lines.len() {
            return;
        }
        self.lines.push(Line::default());
        if self.lines.len() > HIGHEST {
            let line = self.lines.remove(0);
            line.write(&mut self.text);
            self.text.push('\n');
            self.row -= 1;
        }
    }

    fn move_to(&mut self, column: usize) {
        self.line().is_drawn = true;
        self.column = column;
    }

    fn move_rows(&mut self, up: bool, by: usize) {
        self.line().is_drawn = true;
        self.row = match up {
            true => self.row.saturating_sub(by),
            false => self.row.saturating_add(by).min(self.lines.len() - 1),
        };
    }

    fn erase_in_line(&mut self, what: usize) {
        let column = self.column;
        let line = self.line();
        line.is_drawn = true;
        match what {
            0 => line.chars.truncate(column),
            1 => line.chars.iter_mut().take(column + 1).for_each(|char| *char = ' '),
            _ => line.chars.clear(),
        }
    }

    fn into_text(self) -> String {
        let mut text = self.text;
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            line.write(&mut text);
        }
        text
    }
}

impl Line {
    fn write(&self, text: &mut String) {
        let shown = match self.is_drawn {
            true => self
                .chars
                .iter()
                .rposition(|char| *char != ' ')
                .map_or(0, |last| last + 1),
            false => self.chars.len(),
        };
        text.extend(&self.chars[..shown]);
    }
}

impl Perform for Screen {
    fn print(&mut self, char: char) {
        if !char.is_control() {
            self.put(char);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' | 0x0B | 0x0C => self.line_feed(),
            b'\r' => self.move_to(0),
            0x08 => self.move_to(self.column.saturating_sub(1)),
            b'\t' if self.column >= self.line().chars.len() => self.put('\t'),
            b'\t' => self.move_to((self.column / TAB + 1) * TAB),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore || !intermediates.is_empty() {
            return;
        }
        let given = params
            .iter()
            .next()
            .and_then(|param| param.first())
            .map_or(0, |first| usize::from(*first));
        let count = given.max(1);
        match action {
            'A' => self.move_rows(true, count),
            'B' => self.move_rows(false, count),
            'C' => self.move_to(self.column + count),
            'D' => self.move_to(self.column.saturating_sub(count)),
            'E' | 'F' => {
                self.move_rows(action == 'F', count);
                self.column = 0;
            }
            'G' | '`' => self.move_to(count - 1),
            'K' => self.erase_in_line(given),
            // Below the cursor. What is above was read by somebody, so a screen that is cleared stays.
            'J' if given == 0 => {
                self.erase_in_line(0);
                let row = self.row;
                self.lines.truncate(row + 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_what_a_terminal_shows() {
        for (output, shown) in [
            ("one\r\ntwo\r\n", "one\ntwo\n"),
            ("  1%\r 50%\r100%", "100%"),
            ("\r  1%\r100%\nsent 5 bytes\n", "100%\nsent 5 bytes\n"),
            ("longer\rabc", "abcger"),
            ("longer\r\x1b[Kabc", "abc"),
            ("longer\x1b[2K\rabc", "abc"),
            ("longer\r      \rabc", "abc"),
            ("ab\x08c", "ac"),
            ("|\x08/\x08-\x08done\n", "done\n"),
            ("a\tb\n", "a\tb\n"),
            (
                "one: waiting\ntwo: waiting\n\x1b[2A\rone: done\x1b[K\n\x1b[1Btail\n",
                "one: done\ntwo: waiting\ntail\n",
            ),
            ("a\nb\nc\x1b[2A\x1b[J!", "a!"),
            ("\x1b[1;32mok\x1b[0m \x1b(Bplain\x1b=", "ok plain"),
            (
                "\x1b]0;title\x07\x1b]8;;https://a.example/?q=1\x1b\\link\x1b]8;;\x1b\\ end",
                "link end",
            ),
            (
                "\x1bPdevice control\x1b\\a\x1b_application\x1b\\b\x1b^privacy\x1b\\c\x1bXstart\x1b\\d",
                "abcd",
            ),
            ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
            ("a\x1b[3Cb", "a   b"),
            ("bell\x07 nul\0 del\x7f next\u{85}", "bell nul del next"),
            ("trailing  \n", "trailing  \n"),
            ("cut \x1b[3", "cut "),
            ("\x1b]0;building\nstep 1\nRESULT\n", "\nstep 1\nRESULT\n"),
            ("\x1bPq\nRESULT", "\nRESULT"),
            ("start\nPNG\x1bX\0\x01 stuff\nRESULT\n", "start\nPNG\nRESULT\n"),
            ("\x1b[3\nRESULT", "\nRESULT"),
            ("\u{9b}31mred\u{9b}0m \u{9d}0;title\u{9c}é", "red é"),
        ] {
            assert_eq!(terminal_text(output.as_bytes()), shown, "{output:?}");
        }
        assert_eq!(terminal_text(b"a\xFFb\r\n"), "a\u{FFFD}b\n");
    }

    #[test]
    fn a_tail_begins_with_a_line_or_a_frame() {
        for (tail, begin) in [
            ("of a line\nnext\n", "next\n"),
            ("2mgreen", "2mgreen"),
            ("7%\r 58%\r 59%", " 58%\r 59%"),
            ("end\n", "end\n"),
            ("", ""),
        ] {
            assert_eq!(&tail[skip_partial(tail.as_bytes())..], begin);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_short_plain_text(parts in proptest::collection::vec(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..8),
            "[a-c\r\n\t\u{8}]{0,6}".prop_map(String::into_bytes),
            "\u{1b}\\[[0-9;?]{0,6}[A-K`m]".prop_map(String::into_bytes),
            "\u{1b}[\\]PX^_][a-z0-9;]{0,9}".prop_map(String::into_bytes),
        ], 0..60)) {
            let output = parts.concat();
            let text = terminal_text(&output);
            prop_assert!(text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\t')), "{:?}", text);
            // A byte that is not UTF-8 becomes three, and each may come with a blank.
            prop_assert!(text.len() <= 4 * output.len());
            prop_assert_eq!(terminal_text(text.as_bytes()), text.clone());
        }
    }
}
