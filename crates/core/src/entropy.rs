//! The port through which randomness comes in.

/// A source of random bytes.
///
/// In a server it is the operating system's cryptographic source; in a simulation it is a seed.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` whole. A source that cannot deliver must panic rather than return weak bytes.
    fn fill(&self, bytes: &mut [u8]);
}
