//! Task ids: ordered by creation, impossible to guess.

use crate::{Entropy, UnixMillis};
use std::{fmt, str::FromStr, sync::Arc};

/// Crockford's base 32 in lower case: ordered like its bytes, readable aloud, equal under any file system's case folding.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 48 bits of time in 5-bit digits.
const TIME_DIGITS: usize = 10;
/// 26 digits of 5 bits: 130 random bits.
const RANDOM_DIGITS: usize = 26;
/// 20 of the random bits.
const SHORT_DIGITS: usize = TIME_DIGITS + 4;
/// The name of a task, and where there is no authentication also the key to it.
///
/// 48 bits of unix milliseconds followed by 130 bits from the system's random source, 36 characters in all. Ids of later tasks
/// sort after those of earlier ones, which is what makes batched inserts cheap. A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// The longest id accepted from outside, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Makes the id of a task created at `at`.
    ///
    /// ```
    /// use longhaul_core::{Entropy, TaskId, UnixMillis};
    /// struct Ones;
    /// impl Entropy for Ones {
    ///     fn fill(&self, bytes: &mut [u8]) { bytes.fill(1) }
    /// }
    /// let earlier = TaskId::mint(UnixMillis(1_000), &Ones);
    /// let later = TaskId::mint(UnixMillis(2_000), &Ones);
    /// assert!(earlier < later);
    /// assert_eq!(earlier.as_str().len(), 36);
    /// ```
    pub fn mint(at: UnixMillis, entropy: &dyn Entropy) -> Self {
        let mut random = [0u8; RANDOM_DIGITS];
        entropy.fill(&mut random);
        let mut text = String::with_capacity(TIME_DIGITS + RANDOM_DIGITS);
        let millis = at.0.clamp(0, (1 << 48) - 1) as u64;
        for digit in (0..TIME_DIGITS).rev() {
            text.push(digit_char(millis >> (5 * digit)));
        }
        // One random byte a digit: 26 bytes cost nothing and spare the bit packing.
        text.extend(random.iter().map(|byte| digit_char(u64::from(*byte))));
        Self(text.into())
    }

    /// The part of the id that logs show, which many can read: the time of creation and a few random digits. The rest is far too long to be
    /// guessed.
    pub fn short(&self) -> &str {
        let shown = if self.0.len() >= TIME_DIGITS + RANDOM_DIGITS {
            SHORT_DIGITS
        } else {
            self.0.len() / 3
        };
        self.0.get(..shown).unwrap_or_default()
    }

    /// The id as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn digit_char(bits: u64) -> char {
    char::from(ALPHABET[(bits & 31) as usize])
}

/// The text cannot be a task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a task id has 1 to 64 characters of A-Z a-z 0-9 _ -")]
pub struct InvalidTaskId;

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(legal) {
            return Err(InvalidTaskId);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ids may serve as bearer tokens, so a debug print shows only the time of creation.
impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({}…)", self.0.get(..TIME_DIGITS).unwrap_or("?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct FixedEntropy(Vec<u8>);
    impl Entropy for FixedEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            for (to, from) in bytes.iter_mut().zip(self.0.iter().cycle()) {
                *to = *from;
            }
        }
    }

    proptest! {
        /// Each of 130 bits of the source decides a bit of its own.
        #[test]
        fn g2_62_an_id_has_130_bits_of_the_random_source(seed in proptest::collection::vec(any::<u8>(), 26), nth in 0usize..26, bit in 0u32..5) {
            let mut other = seed.clone();
            other[nth] ^= 1 << bit;
            let [one, other] = [seed, other].map(|random| TaskId::mint(UnixMillis(1), &FixedEntropy(random)));
            let pairs = one.as_str().chars().zip(other.as_str().chars());
            let differing: Vec<usize> = pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
            prop_assert_eq!(differing, [TIME_DIGITS + nth]);
        }

        #[test]
        fn a_short_id_keeps_most_of_the_random_digits_to_itself(seed in proptest::collection::vec(any::<u8>(), 26), foreign in "[a-zA-Z0-9_-]{1,64}") {
            let id = TaskId::mint(UnixMillis(1), &FixedEntropy(seed));
            prop_assert_eq!(id.short(), &id.as_str()[..14]);
            let foreign: TaskId = foreign.parse().unwrap();
            prop_assert!(foreign.short().len() <= 14.max(foreign.as_str().len() / 3));
        }

        #[test]
        fn minted_ids_parse_and_sort_by_time(a in 0i64..1 << 48, b in 0i64..1 << 48, seed in proptest::collection::vec(any::<u8>(), 26)) {
            let entropy = FixedEntropy(seed);
            let (first, second) = (TaskId::mint(UnixMillis(a), &entropy), TaskId::mint(UnixMillis(b), &entropy));
            prop_assert_eq!(first.as_str().parse::<TaskId>().unwrap(), first.clone());
            prop_assert_eq!(a.cmp(&b), first.cmp(&second));
        }
    }

    #[test]
    fn what_cannot_stand_in_a_header_or_a_file_name_is_no_id() {
        for text in ["", "a b", "a/b", "..", "é", "a\n", &"x".repeat(65)] {
            assert_eq!(text.parse::<TaskId>(), Err(InvalidTaskId), "{text:?}");
        }
    }
}
