//! The last bytes of a stream, in memory that does not grow with it.

use longhaul_core::skip_partial;
use std::{collections::VecDeque, io::Write};

/// The last `capacity` bytes of what was pushed.
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    capacity: usize,
    total: u64,
}

impl Tail {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            capacity,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let chunk = &chunk[chunk.len().saturating_sub(self.capacity)..];
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.capacity);
        self.bytes.drain(..excess);
        self.bytes.extend(chunk);
    }

    /// How many bytes were pushed in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn write_to(&self, to: &mut impl Write) -> std::io::Result<()> {
        let (front, back) = self.bytes.as_slices();
        to.write_all(front)?;
        to.write_all(back)
    }

    /// What is kept, from the first line that is whole.
    pub(super) fn to_text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let is_cut = self.total > bytes.len() as u64;
        let begin = if is_cut { skip_partial(&bytes) } else { 0 };
        String::from_utf8_lossy(&bytes[begin..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_the_end_of_the_whole(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..20), capacity in 0usize..50) {
            let mut tail = Tail::new(capacity);
            for chunk in &chunks {
                tail.push(chunk);
            }
            let whole = chunks.concat();
            let mut kept = Vec::new();
            tail.write_to(&mut kept).unwrap();
            prop_assert_eq!(&kept[..], &whole[whole.len().saturating_sub(capacity)..]);
            prop_assert_eq!(tail.total(), whole.len() as u64);
        }
    }
}
