//! The lines of a stream, of which one that is too long ends nothing.
#![expect(clippy::disallowed_methods, reason = "real pipes are not simulated")]

use bytes::{Buf as _, Bytes, BytesMut};
use std::{io, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What is read at once.
const CHUNK: usize = 8 * 1024;
/// How long the end of a line is waited for, until what there is may be taken for one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that are kept of either end of a line that is too long: servers write the id first or last.
const KEPT: usize = 1024;

/// A line of a stream.
#[derive(Debug)]
pub(crate) enum Line {
    Whole(Bytes),
    TooLong(Ends),
    /// What the stream has ended with, which is no line.
    Rest(Bytes),
}

/// What is kept of a line that is too long.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) begin: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Ends {
    /// Notes the next bytes of the line.
    fn note(&mut self, bytes: &[u8]) {
        let room = KEPT - self.begin.len();
        self.begin.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let last = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.end.len() + last.len()).saturating_sub(KEPT);
        self.end.drain(..excess);
        self.end.extend_from_slice(last);
    }
}

/// Reads lines of at most so many bytes.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    longest: usize,
    /// Bytes of the buffer in which there is no end of a line.
    searched: usize,
    /// What is kept of the line that is being dropped.
    dropping: Option<Ends>,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn of_at_most(reader: R, longest: usize) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            longest,
            searched: 0,
            dropping: None,
            has_ended: false,
        }
    }

    /// The next line; `None` at the end. If the end of a line does not come for a second, what there is counts as a line if it `is_whole`. Dropping the future
    /// loses nothing.
    pub(crate) async fn next(&mut self, is_whole: impl Fn(&[u8]) -> bool) -> io::Result<Option<Line>> {
        // How much was looked at without it being whole.
        let mut looked_at = 0;
        loop {
            if let Some(line) = self.line() {
                return Ok(Some(line));
            }
            if self.has_ended {
                return Ok(self.rest());
            }
            self.buffer.reserve(CHUNK);
            let waits = self.buffer.len() > looked_at;
            let read = self.reader.read_buf(&mut self.buffer);
            let read = match waits {
                true => tokio::time::timeout(LONGEST_PAUSE, read).await,
                false => Ok(read.await),
            };
            match read {
                Ok(read) => self.has_ended = read? == 0,
                Err(_) if self.dropping.is_none() && is_whole(&self.buffer) => {
                    let length = self.buffer.len();
                    return Ok(Some(self.take(length)));
                }
                Err(_) => looked_at = self.buffer.len(),
            }
        }
    }

    /// Whether the beginning of a line was read.
    pub(crate) fn is_within_line(&self) -> bool {
        !self.buffer.is_empty() || self.dropping.is_some()
    }

    /// The first line of the buffer.
    fn line(&mut self) -> Option<Line> {
        let rest = &self.buffer[self.searched..];
        if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let line = self.take(self.searched + at);
            self.buffer.advance(1);
            return Some(line);
        }
        if self.dropping.is_some() || self.buffer.len() > self.longest {
            self.dropping.get_or_insert_default().note(&self.buffer);
            self.buffer.clear();
        }
        self.searched = self.buffer.len();
        None
    }

    fn rest(&mut self) -> Option<Line> {
        if self.dropping.is_some() {
            return Some(self.take(0));
        }
        self.searched = 0;
        let rest = self.buffer.split().freeze();
        (!rest.is_empty()).then_some(Line::Rest(rest))
    }

    /// Takes the first bytes, which are a line or its rest.
    fn take(&mut self, length: usize) -> Line {
        self.searched = 0;
        if self.dropping.is_none() && length <= self.longest {
            return Line::Whole(self.buffer.split_to(length).freeze());
        }
        let mut ends = self.dropping.take().unwrap_or_default();
        ends.note(&self.buffer[..length]);
        self.buffer.advance(length);
        Line::TooLong(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt as _, BufReader};

    #[tokio::test]
    async fn what_follows_a_line_that_is_too_long_is_read() {
        let (long, longest) = ([b'x'; 5_000], [b'z'; 2_000]);
        let text = [
            b"one\n",
            &long[..],
            b"1\ntwo\n",
            &longest,
            b"\n",
            &longest,
            b"4\n\nlast\n",
            &long,
            b"7",
        ]
        .concat();
        for chunk in [1, 7, 1_023, 1_024, 1_025, 4_096, text.len()] {
            let mut lines = Lines::of_at_most(BufReader::with_capacity(chunk, &*text), 2_000);
            let mut seen = Vec::new();
            while let Some(line) = lines.next(|_| false).await.unwrap() {
                seen.push(match line {
                    Line::Rest(rest) => panic!("{rest:?}"),
                    Line::Whole(line) if line.len() == 2_000 => "whole".to_owned(),
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::TooLong(Ends { begin, end }) => {
                        assert_eq!((begin.len(), end.len()), (1_024, 1_024));
                        format!("{}...{}", begin[0] as char, end[1_023] as char)
                    }
                });
            }
            assert_eq!(
                seen,
                ["one", "x...1", "two", "whole", "z...4", "", "last", "x...7"],
                "{chunk}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_without_an_end_is_one_if_it_is_whole() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = Lines::of_at_most(reader, 2_000);
        let mut seen = Vec::new();
        for written in [Some("{a}"), Some("\n{b"), Some("}"), Some("\n{c"), None] {
            match written {
                Some(written) => writer.write_all(written.as_bytes()).await.unwrap(),
                None => writer.shutdown().await.unwrap(),
            }
            // Longer than a line without an end waits.
            let mut next =
                async || tokio::time::timeout(LONGEST_PAUSE * 3, lines.next(|text| text.ends_with(b"}"))).await;
            while let Ok(Some(line)) = next().await.unwrap_or(Ok(None)) {
                seen.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::Rest(rest) => format!("rest {}", String::from_utf8_lossy(&rest)),
                    Line::TooLong(_) => panic!("too long"),
                });
            }
        }
        assert_eq!(seen, ["{a}", "", "{b}", "", "rest {c"]);
    }
}
