//! How many connections there are, so that an idle server can exit without refusing a client.

use parking_lot::Mutex;
use std::sync::Arc;

/// The connections of a server.
#[derive(Clone, Default)]
pub(crate) struct ConnectionCount(Arc<Mutex<ConnectionState>>);

#[derive(Default)]
struct ConnectionState {
    open: usize,
    refusing: bool,
}

/// One connection, until dropped.
pub(crate) struct CountedConnection(ConnectionCount);

impl ConnectionCount {
    /// Counts a connection; `None` if no more are accepted.
    pub(crate) fn enter(&self) -> Option<CountedConnection> {
        let mut state = self.0.lock();
        if state.refusing {
            return None;
        }
        state.open += 1;
        Some(CountedConnection(self.clone()))
    }

    /// Accepts no more connections if there are none; returns whether there were none.
    pub(crate) fn refuse_if_none(&self) -> bool {
        let mut state = self.0.lock();
        state.refusing |= state.open == 0;
        state.refusing
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.lock().open == 0
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.0.lock().open -= 1;
    }
}
