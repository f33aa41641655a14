//! Who sends a message, and whether the limits allow it.

pub(crate) mod access;
pub(crate) mod authenticator;
pub(crate) mod caller;
pub(crate) mod connection_count;
pub(crate) mod handoff;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod permissions;
pub(crate) mod request;

use access::{Access, Authentication};
use connection_count::ConnectionCount;
use limits::{ByteBudget, Limits, Meter};
use longhaul_core::Clock;
use std::sync::Arc;

/// Who is served, and the limits that are checked before any work.
pub(crate) struct Admission {
    pub(crate) access: Access,
    pub(crate) meter: Meter,
    pub(crate) memory: ByteBudget,
    /// The largest body accepted, in bytes.
    pub(crate) max_body: usize,
    pub(crate) connections: ConnectionCount,
}

impl Admission {
    pub(crate) fn new(
        authentication: Authentication,
        limits: &Limits,
        max_body: usize,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let has_defaults = !authentication.is_of_one_user();
        let meter = Meter::new(limits, has_defaults, clock);
        Self {
            access: Access::new(authentication),
            memory: ByteBudget::new(limits.memory, max_body, Arc::clone(&meter.refusals)),
            meter,
            max_body,
            connections: ConnectionCount::default(),
        }
    }
}
