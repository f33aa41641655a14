//! What a fault makes of the network of a host.

/// What becomes of what a host and the database send each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// It arrives.
    Open,
    /// Packets are lost: nobody is told, and they are sent again once the network works.
    Stalled,
    /// Connections break at both ends, and new ones fail at once.
    Cut,
}
