//! Lines of bounded length.

use bytes::{Buf, Bytes, BytesMut};
use longhaul_core::BYTE_ORDER_MARK;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What is read at once.
const CHUNK: usize = 16 * 1024;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Its bytes, without the break and without a byte order mark; not blank.
    Message(Bytes),
    /// It was longer than the limit and was skipped.
    TooLong,
}

/// Reads lines.
pub(super) struct Lines<R> {
    reader: R,
    limit: usize,
    buffer: BytesMut,
    /// Bytes of the buffer in which no break was found.
    searched: usize,
    /// The line that is being read is too long.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            buffer: BytesMut::new(),
            searched: 0,
            skipping: false,
        }
    }

    /// The next line that is not blank; `None` at the end. The rest after the last line break counts as a line. Dropping the future
    /// loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.buffer.len() > self.limit {
                self.skipping = true;
            }
            if self.skipping {
                self.buffer.clear();
                self.searched = 0;
            }
            self.buffer.reserve(CHUNK);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.rest());
            }
        }
    }

    /// The next line of those in the buffer.
    fn take(&mut self) -> Option<Line> {
        while let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.searched + at);
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(line) = self.finish_line(line) {
                return Some(line);
            }
        }
        self.searched = self.buffer.len();
        None
    }

    fn rest(&mut self) -> Option<Line> {
        self.searched = 0;
        let rest = self.buffer.split();
        self.finish_line(rest)
    }

    fn finish_line(&mut self, mut line: BytesMut) -> Option<Line> {
        if std::mem::take(&mut self.skipping) || line.len() > self.limit {
            return Some(Line::TooLong);
        }
        if line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        let filled = !line.trim_ascii().is_empty();
        filled.then(|| Line::Message(line.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_test_reader::Pieces;

    /// A reader that gives what it is given, in these pieces.
    mod tokio_test_reader {
        use std::{
            collections::VecDeque,
            io,
            pin::Pin,
            task::{Context, Poll},
        };
        use tokio::io::{AsyncRead, ReadBuf};

        pub(super) struct Pieces(pub(super) VecDeque<Vec<u8>>);

        impl AsyncRead for Pieces {
            fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                if let Some(piece) = self.0.pop_front() {
                    out.put_slice(&piece);
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    const LIMIT: usize = 12;

    fn read(pieces: Vec<Vec<u8>>) -> Vec<Line> {
        use futures_util::FutureExt;
        let mut lines = Lines::new(Pieces(pieces.into()), LIMIT);
        let mut read = Vec::new();
        while let Some(line) = lines.next().now_or_never().unwrap().unwrap() {
            read.push(line);
        }
        read
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_line() {
        let message = |text: &str| Line::Message(Bytes::copy_from_slice(text.as_bytes()));
        let text = "\u{feff}a\n\u{feff}\nb\n";
        assert_eq!(read(vec![text.as_bytes().to_vec()]), [message("a"), message("b")]);
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_arrive(
            text in "[ab \r\n]{0,80}",
            cuts in prop::collection::vec(1..20usize, 0..30),
        ) {
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece.to_vec());
                rest = more;
            }
            pieces.push(rest.to_vec());
            // An empty piece would read as the end.
            pieces.retain(|piece| !piece.is_empty());
            let expected: Vec<Line> = text
                .split('\n')
                .filter(|line| line.len() > LIMIT || !line.trim().is_empty())
                .map(|line| match line.len() {
                    length if length > LIMIT => Line::TooLong,
                    _ => Line::Message(Bytes::copy_from_slice(line.as_bytes())),
                })
                .collect();
            prop_assert_eq!(read(pieces), expected);
        }
    }
}
