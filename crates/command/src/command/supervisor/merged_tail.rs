//! The ends of both streams, in order of arrival, without mixing their lines.

use std::collections::VecDeque;

/// The last `capacity` bytes of each of two streams, line by line in the order in which the lines ended: much output of one drops nothing of the other.
pub(super) struct MergedTail {
    capacity: usize,
    streams: [StreamTail; 2],
    /// Which stream wrote last, and how often that has changed.
    latest: Option<usize>,
    turns: u64,
}

#[derive(Default)]
struct StreamTail {
    bytes: VecDeque<u8>,
    /// The same, cut where the other stream wrote in between: in which turn, and how many bytes.
    runs: VecDeque<(u64, usize)>,
    is_cut: bool,
}

impl MergedTail {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            streams: Default::default(),
            latest: None,
            turns: 0,
        }
    }

    pub(super) fn push(&mut self, stream: usize, chunk: &[u8]) {
        if self.latest.replace(stream) != Some(stream) {
            self.turns += 1;
        }
        let kept = &mut self.streams[stream];
        kept.is_cut |= kept.bytes.len() + chunk.len() > self.capacity;
        let chunk = &chunk[chunk.len().saturating_sub(self.capacity)..];
        kept.bytes.extend(chunk);
        match kept.runs.back_mut().filter(|(turn, _)| *turn == self.turns) {
            Some((_, length)) => *length += chunk.len(),
            None => kept.runs.push_back((self.turns, chunk.len())),
        }
        kept.drop_front(kept.bytes.len().saturating_sub(self.capacity));
    }

    /// Which stream was written to last.
    pub(super) fn latest(&self) -> Option<usize> {
        self.latest
    }

    /// A stream whose front was cut off begins with a whole line. A last line without an end gets one if a line of the other stream follows.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut merged = Vec::with_capacity(self.streams.iter().map(|kept| kept.bytes.len() + 1).sum());
        let lines = self.streams.each_ref().map(StreamTail::lines);
        let mut left = lines.each_ref().map(|lines| lines.iter().peekable());
        loop {
            let turns = left
                .each_mut()
                .map(|lines| lines.peek().map_or(u64::MAX, |(turn, _)| *turn));
            let Some((_, line)) = left[usize::from(turns[1] < turns[0])].next() else {
                return merged;
            };
            if merged.last().is_some_and(|last| *last != b'\n') {
                merged.push(b'\n');
            }
            merged.extend_from_slice(line);
        }
    }
}

impl StreamTail {
    /// The lines, each with the turn in which it has ended, or has come to where it is.
    fn lines(&self) -> Vec<(u64, Vec<u8>)> {
        let mut bytes = self.bytes.iter().copied();
        let mut lines: Vec<(u64, Vec<u8>)> = Vec::new();
        for (turn, length) in &self.runs {
            for byte in bytes.by_ref().take(*length) {
                match lines.last_mut().filter(|(_, line)| !line.ends_with(b"\n")) {
                    Some((ends, line)) => {
                        *ends = *turn;
                        line.push(byte);
                    }
                    None => lines.push((*turn, vec![byte])),
                }
            }
        }
        if self.is_cut && lines.len() > 1 {
            lines.remove(0);
        }
        lines
    }

    fn drop_front(&mut self, mut excess: usize) {
        self.bytes.drain(..excess);
        while let Some((_, length)) = self.runs.front_mut().filter(|_| excess > 0) {
            let cut = excess.min(*length);
            *length -= cut;
            excess -= cut;
            if *length == 0 {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_streams_are_not_mixed() {
        let mut tail = MergedTail::new(30);
        for (stream, chunk) in [
            (1, "\r 98%"),
            (0, "start\n"),
            (1, "\r 99%"),
            (0, "res"),
            (1, "\nwarning"),
            (0, "ult\n"),
        ] {
            tail.push(stream, chunk.as_bytes());
        }
        assert_eq!(
            String::from_utf8(tail.to_bytes()).unwrap(),
            "start\n\r 98%\r 99%\nwarning\nresult\n"
        );
        tail.push(0, b"012345678901234567890123\n");
        assert_eq!(
            String::from_utf8(tail.to_bytes()).unwrap(),
            "\r 98%\r 99%\nwarning\n012345678901234567890123\n"
        );
    }

    proptest! {
        #[test]
        fn keeps_the_end_of_each_stream(
            chunks in proptest::collection::vec((0..2usize, "[ab\n]{0,9}"), 0..30), capacity in 1usize..40,
        ) {
            let mut tail = MergedTail::new(capacity);
            let mut written = [String::new(), String::new()];
            for (stream, chunk) in &chunks {
                // The streams use different letters.
                let chunk = if *stream == 1 { chunk.replace('a', "c").replace('b', "d") } else { chunk.clone() };
                tail.push(*stream, chunk.as_bytes());
                written[*stream].push_str(&chunk);
            }
            let merged = String::from_utf8(tail.to_bytes()).unwrap();
            for (written, letters) in written.iter().zip([['a', 'b'], ['c', 'd']]) {
                let is_own = |line: &&str| line.contains(letters);
                let kept: Vec<&str> = merged.lines().filter(is_own).collect();
                let mut end = &written[written.len().saturating_sub(capacity)..];
                if end.len() < written.len() {
                    end = end.split_once('\n').filter(|(_, rest)| !rest.is_empty()).map_or(end, |(_, rest)| rest);
                }
                prop_assert_eq!(kept, end.lines().filter(is_own).collect::<Vec<_>>());
            }
        }
    }
}
