//! The audit log's lines of requests that are refused.

use crate::context::AdminContext;
use longhaul_server::{
    audit::{AuditAction, AuditEvent, AuditOutcome},
    auth::Peer,
};

/// What the audit log says of a request without a key, or with a wrong one.
pub(crate) const WRONG_KEY: &str = "the admin address: no key, or a wrong one";

/// Records a request that is refused, unless there was one right before.
pub(crate) fn audit_denial(context: &AdminContext, peer: &Peer, why: &str) {
    if let (Some(audit), Some(left_out)) = (&context.audit, context.denials.record(context.now())) {
        let now = context.engine.ports().clock.wall();
        let mut event = AuditEvent::new(now, AuditAction::Denied, AuditOutcome::Denied).with_detail(why);
        event.address = peer.address().map(|address| address.ip());
        event.left_out = left_out;
        audit.record(&event);
    }
}
