//! What a request is sent for.

use crate::{connect::request::call_progress::CallProgress, journal::call_record::CallRecord};

/// What a request is sent for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    /// The caller's number for it.
    pub(crate) source: Option<u64>,
    /// The record of the call that it makes.
    pub(crate) record: Option<&'a CallRecord>,
    /// How far that call is.
    pub(crate) call: Option<&'a CallProgress>,
}

/// The user is asked until this is dropped.
pub(crate) struct Asks<'a>(Option<&'a CallProgress>);

impl<'a> Origin<'a> {
    /// The user is asked something from now on.
    pub(crate) fn asks(self) -> Asks<'a> {
        if let Some(call) = self.call {
            call.begin_asking();
        }
        Asks(self.call)
    }
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            call.end_asking();
        }
    }
}
