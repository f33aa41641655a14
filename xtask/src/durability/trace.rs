//! Reads the output of `strace -f -y -xx`: each system call with the moments of its start and end.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

const UNFINISHED: &str = " <unfinished ...>";
const RESUMED: &str = " resumed>";

/// A system call on a descriptor. Moments are line numbers: a line is written before the call, or what comes after it, goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// What the descriptor refers to: a path, or `socket:[inode]`.
    pub(super) target: String,
    /// All bytes that were read or written; none of an interrupted read.
    pub(super) data: Vec<u8>,
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) succeeded: bool,
}

/// Reads a trace. The calls have the order of their starts.
pub(super) fn read(path: &Path) -> io::Result<Vec<Call>> {
    let lines = BufReader::new(File::open(path)?).lines();
    let mut reader = Reader::default();
    for (number, line) in lines.enumerate() {
        reader.line(number, &line?);
    }
    reader.calls.sort_by_key(|call| call.begin);
    Ok(reader.calls)
}

#[derive(Default)]
struct Reader {
    calls: Vec<Call>,
    /// The unfinished call of each thread: where it started, and its first part.
    unfinished: HashMap<String, (usize, String)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let Some((thread, text)) = line.split_once(' ') else {
            return;
        };
        let text = text.trim_start();
        if let Some(begun) = text.strip_suffix(UNFINISHED) {
            self.unfinished.insert(thread.to_owned(), (number, begun.to_owned()));
        } else if text.starts_with("<... ") {
            let begun = self.unfinished.remove(thread).zip(text.split_once(RESUMED));
            if let Some(((begin, mut whole), (_, rest))) = begun {
                whole.push_str(rest);
                self.calls.extend(parse(&whole, begin, number));
            }
        } else {
            self.calls.extend(parse(text, number, number));
        }
    }
}

/// Parses `name(4</a/path>, "bytes", …) = result`; `None` for signals and exits.
fn parse(text: &str, begin: usize, end: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let target = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let target = target.map(|(target, _)| String::from_utf8_lossy(&unescape(target)).into_owned());
    let mut data = Vec::new();
    for quoted in arguments.split('"').skip(1).step_by(2) {
        data.extend(unescape(quoted));
    }
    Some(Call {
        name: name.to_owned(),
        target: target.unwrap_or_default(),
        data,
        begin,
        end,
        succeeded: result.starts_with(|first: char| first.is_ascii_digit()),
    })
}

/// Decodes `\x61` to `a`; everything else is unchanged.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.strip_prefix(b"x").and_then(|digits| digits.split_at_checked(2));
        let value = escaped.filter(|_| *first == b'\\').and_then(|(digits, rest)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, rest))
        });
        let (byte, following) = value.unwrap_or((*first, after));
        bytes.push(byte);
        rest = following;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(lines: &[&str]) -> Vec<Call> {
        let mut reader = Reader::default();
        lines
            .iter()
            .enumerate()
            .for_each(|(number, line)| reader.line(number, line));
        reader.calls
    }

    #[test]
    fn whole_calls_and_interrupted_ones_are_read() {
        let seen = calls(&[
            r#"7     pwrite64(4<\x2f\x77>, "\x61\x22\x62", 3, 32) = 3"#,
            r#"7 fdatasync(4<\x2f\x77> <unfinished ...>"#,
            r#"8 sendto(9<socket:[12]>, "\x6f\x6b", 2, MSG_NOSIGNAL, NULL, 0) = -1 EPIPE (Broken pipe)"#,
            r#"7 <... fdatasync resumed>)      = 0"#,
            r#"7 writev(9<socket:[12]>, [{iov_base="\x61", iov_len=1}, {iov_base="\x62", iov_len=1}], 2) = 2"#,
            r#"7 +++ exited with 0 +++"#,
        ]);
        let call = |name: &str, target: &str, data: &[u8], begin, end, succeeded| Call {
            name: name.to_owned(),
            target: target.to_owned(),
            data: data.to_vec(),
            begin,
            end,
            succeeded,
        };
        assert_eq!(
            seen,
            [
                call("pwrite64", "/w", b"a\"b", 0, 0, true),
                call("sendto", "socket:[12]", b"ok", 2, 2, false),
                call("fdatasync", "/w", b"", 1, 3, true),
                call("writev", "socket:[12]", b"ab", 4, 4, true),
            ]
        );
    }
}
