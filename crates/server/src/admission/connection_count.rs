//! Who is connected, so that a server nobody needs can leave without turning anyone away.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The connections of a front.
#[derive(Clone, Default)]
pub(crate) struct Presence(Arc<Mutex<Doors>>);

#[derive(Default)]
struct Doors {
    connections: usize,
    shut: bool,
}

/// One connection, until dropped.
pub(crate) struct Present(Presence);

impl Presence {
    /// Lets a connection in; `None` if nobody is let in any more.
    pub(crate) fn enter(&self) -> Option<Present> {
        let mut doors = self.lock();
        if doors.shut {
            return None;
        }
        doors.connections += 1;
        Some(Present(self.clone()))
    }

    /// Lets nobody in any more, if nobody is there; says whether it was so.
    pub(crate) fn shut_if_empty(&self) -> bool {
        let mut doors = self.lock();
        doors.shut |= doors.connections == 0;
        doors.shut
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().connections == 0
    }

    fn lock(&self) -> MutexGuard<'_, Doors> {
        self.0.lock()
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.lock().connections -= 1;
    }
}
