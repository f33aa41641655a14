//! The lines of a stream, of which one that is too long ends nothing.

use bytes::{Buf as _, Bytes, BytesMut};
use std::io;
use tokio_util::codec::Decoder;

/// Bytes that are kept of either end of a line that is too long: servers write the id first or last.
const KEPT: usize = 1024;

/// A line of a stream.
#[derive(Debug)]
pub(super) enum Line {
    Whole(Bytes),
    TooLong(Ends),
}

/// What is kept of a line that is too long.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) begin: Vec<u8>,
    pub(super) end: Vec<u8>,
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
pub(super) struct Lines {
    longest: usize,
    /// Bytes of the buffer in which there is no end of a line.
    searched: usize,
    /// What is kept of the line that is being dropped.
    dropping: Option<Ends>,
}

impl Lines {
    pub(super) fn of_at_most(longest: usize) -> Self {
        Self {
            longest,
            searched: 0,
            dropping: None,
        }
    }

    /// Takes the first bytes, which are a line or its rest.
    fn take(&mut self, bytes: &mut BytesMut, length: usize) -> Line {
        self.searched = 0;
        if self.dropping.is_none() && length <= self.longest {
            return Line::Whole(bytes.split_to(length).freeze());
        }
        let mut ends = self.dropping.take().unwrap_or_default();
        ends.note(&bytes[..length]);
        bytes.advance(length);
        Line::TooLong(ends)
    }
}

impl Decoder for Lines {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        let rest = &bytes[self.searched..];
        if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let line = self.take(bytes, self.searched + at);
            bytes.advance(1);
            return Ok(Some(line));
        }
        if self.dropping.is_some() || bytes.len() > self.longest {
            self.dropping.get_or_insert_default().note(bytes);
            bytes.clear();
        }
        self.searched = bytes.len();
        Ok(None)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Line>> {
        let line = self.decode(bytes)?;
        let is_rest = line.is_none() && (self.dropping.is_some() || !bytes.is_empty());
        Ok(line.or_else(|| is_rest.then(|| self.take(bytes, bytes.len()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use tokio::io::BufReader;
    use tokio_util::codec::FramedRead;

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
            let mut lines =
                FramedRead::with_capacity(BufReader::with_capacity(chunk, &*text), Lines::of_at_most(2_000), chunk);
            let mut seen = Vec::new();
            while let Some(line) = lines.next().await {
                seen.push(match line.unwrap() {
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
}
