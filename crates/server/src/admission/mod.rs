//! Who sends a message, and whether the limits allow it.

pub(crate) mod caller;
pub(crate) mod connection_count;
pub(crate) mod limits;
pub(crate) mod request;

use connection_count::ConnectionCount;
use limits::{ByteBudget, Limits, Meter};
use longhaul_core::{Clock, Principal};
use std::sync::Arc;

/// The principal of messages, and the limits that are checked before any work.
pub(crate) struct Admission {
    /// Without authentication all senders are the same principal.
    pub(crate) principal: Principal,
    pub(crate) meter: Meter,
    pub(crate) memory: ByteBudget,
    /// The largest body accepted, in bytes.
    pub(crate) max_body: usize,
    pub(crate) connections: ConnectionCount,
}

impl Admission {
    pub(crate) fn new(limits: &Limits, max_body: usize, clock: &Arc<dyn Clock>) -> Self {
        Self {
            principal: Principal::local(),
            meter: Meter::new(limits, clock),
            memory: ByteBudget::new(limits.memory, max_body),
            max_body,
            connections: ConnectionCount::default(),
        }
    }
}
