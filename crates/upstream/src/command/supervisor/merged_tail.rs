//! The ends of both streams, in order of arrival.

use std::collections::VecDeque;

/// The last `capacity` bytes of each of two streams, in the order in which they came: much output of one drops nothing of the other.
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
        let chunk = &chunk[chunk.len().saturating_sub(self.capacity)..];
        let kept = &mut self.streams[stream];
        kept.bytes.extend(chunk);
        match kept.runs.back_mut().filter(|(turn, _)| *turn == self.turns) {
            Some((_, length)) => *length += chunk.len(),
            None => kept.runs.push_back((self.turns, chunk.len())),
        }
        kept.drop_front(kept.bytes.len().saturating_sub(self.capacity));
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut merged = Vec::with_capacity(self.streams.iter().map(|kept| kept.bytes.len()).sum());
        let mut left = self
            .streams
            .each_ref()
            .map(|kept| (kept.bytes.iter(), kept.runs.iter().peekable()));
        loop {
            let turns = left
                .each_mut()
                .map(|(_, runs)| runs.peek().map_or(u64::MAX, |(turn, _)| *turn));
            let (bytes, runs) = &mut left[usize::from(turns[1] < turns[0])];
            match runs.next() {
                Some((_, length)) => merged.extend(bytes.by_ref().take(*length)),
                None => return merged,
            }
        }
    }
}

impl StreamTail {
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

    proptest! {
        #[test]
        fn keeps_the_end_of_each_stream_in_order_of_arrival(
            chunks in proptest::collection::vec((0..2usize, proptest::collection::vec(any::<u8>(), 0..12)), 0..30), capacity in 0usize..40,
        ) {
            let mut tail = MergedTail::new(capacity);
            // Every byte, with its stream.
            let mut all = Vec::new();
            for (stream, chunk) in &chunks {
                tail.push(*stream, chunk);
                all.extend(chunk.iter().map(|byte| (*stream, *byte)));
            }
            let mut room = [capacity; 2];
            let mut expected = Vec::new();
            for (stream, byte) in all.into_iter().rev() {
                if room[stream] > 0 {
                    room[stream] -= 1;
                    expected.push(byte);
                }
            }
            expected.reverse();
            prop_assert_eq!(tail.to_bytes(), expected);
        }
    }
}
