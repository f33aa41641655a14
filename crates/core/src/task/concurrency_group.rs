//! Tasks of a tool that share its concurrency.

use std::fmt;

/// The digest of the value that a call has of its tool's concurrency key. The tasks of a tool with the same one are a group: no more of them are in progress at
/// once than the tool's limit says, and the others wait for the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConcurrencyGroup(pub [u8; 32]);

/// Whoever can guess the value could check the guess, so a debug print does not show it.
impl fmt::Debug for ConcurrencyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConcurrencyGroup")
    }
}
