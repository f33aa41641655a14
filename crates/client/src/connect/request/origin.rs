//! What a request is sent for.

use crate::{connect::request::sent_call::SentCall, journal::call_record::CallRecord};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a request is sent for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    /// The caller's number for it.
    pub(crate) source: Option<u64>,
    /// The record of the call that it makes.
    pub(crate) record: Option<&'a CallRecord>,
    /// Set while the user is asked something: then the server has no request.
    pub(crate) is_asking: Option<&'a AtomicBool>,
    /// Knows the request that makes the call.
    pub(crate) sent: Option<&'a SentCall>,
}

/// The user is asked until this is dropped.
pub(crate) struct Asks<'a>(Option<&'a AtomicBool>);

impl<'a> Origin<'a> {
    /// The user is asked something from now on.
    pub(crate) fn asks(self) -> Asks<'a> {
        if let Some(is_asking) = self.is_asking {
            is_asking.store(true, Ordering::Relaxed);
        }
        Asks(self.is_asking)
    }
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        if let Some(is_asking) = self.0 {
            is_asking.store(false, Ordering::Relaxed);
        }
    }
}
