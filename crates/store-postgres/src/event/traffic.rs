//! What is sent and heard of events, so that a node whose events are lost is noticed, by itself and by the others.
//!
//! Each notification has a number. With each renewal of its lease a node writes the number of the last one that it has sent, and reads those of the others. By its
//! next renewal it must have heard what it has read of.

use longhaul_core::{
    NodeId,
    store::{EventDelivery, StoreHealth},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicU64, Ordering},
};

/// What this process sends, and what it hears.
pub(crate) struct EventTraffic {
    /// Tells this process's notifications from those of others.
    pub(crate) me: u64,
    /// The number of the next notification.
    next: AtomicU64,
    /// The number of the last one that was sent.
    sent: AtomicU64,
    heard: AtomicU64,
    delivery: Mutex<EventDelivery>,
    others: Mutex<Others>,
}

#[derive(Default)]
struct Others {
    /// The greatest number that was heard, by sender.
    heard: HashMap<u64, u64>,
    /// What each had sent when that was read last.
    sent: HashMap<u64, u64>,
    silent: BTreeSet<NodeId>,
}

/// What another node has sent, as its row says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeTraffic {
    pub(crate) node: NodeId,
    pub(crate) sender: u64,
    pub(crate) number: u64,
    pub(crate) delivery: EventDelivery,
}

impl EventTraffic {
    pub(crate) fn new() -> Self {
        Self {
            me: fastrand::u64(..),
            next: AtomicU64::new(1),
            sent: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            delivery: Mutex::default(),
            others: Mutex::default(),
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of the last notification that was sent.
    pub(crate) fn last_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The database has taken this one.
    pub(crate) fn was_sent(&self, number: u64) {
        self.sent.fetch_max(number, Ordering::Relaxed);
    }

    pub(crate) fn delivery(&self) -> EventDelivery {
        *self.delivery.lock()
    }

    /// Returns what it was before.
    pub(crate) fn set_delivery(&self, delivery: EventDelivery) -> EventDelivery {
        std::mem::replace(&mut self.delivery.lock(), delivery)
    }

    /// One of another process was heard. Returns whether some before it were not.
    pub(crate) fn was_heard(&self, sender: u64, number: Option<u64>) -> bool {
        self.heard.fetch_add(1, Ordering::Relaxed);
        // An earlier release does not count.
        let Some(number) = number else { return false };
        let mut others = self.others.lock();
        let before = others.heard.insert(sender, number);
        match before {
            // The same may be sent on two connections.
            Some(before) if before >= number => {
                others.heard.insert(sender, before);
                false
            }
            Some(before) => before + 1 < number,
            None => false,
        }
    }

    /// Whether a node lives whose events are not heard here.
    pub(crate) fn is_any_silent(&self) -> bool {
        !self.others.lock().silent.is_empty()
    }

    /// Compares what the others have sent with what was heard of them.
    pub(crate) fn compare(&self, sent: &[NodeTraffic]) {
        let mut others = self.others.lock();
        let before = std::mem::take(&mut others.sent);
        let mut silent = BTreeSet::new();
        for other in sent.iter().filter(|other| other.sender != self.me) {
            // Of one that is new here only what it sends from now on counts.
            let heard = *others.heard.entry(other.sender).or_insert(other.number);
            let is_behind = before.get(&other.sender).is_some_and(|before| heard < *before);
            if is_behind || other.delivery == EventDelivery::Lost {
                silent.insert(other.node);
            }
            others.sent.insert(other.sender, other.number);
        }
        let Others { heard, sent, .. } = &mut *others;
        heard.retain(|sender, _| sent.contains_key(sender));
        for node in silent.difference(&others.silent) {
            tracing::warn!(
                node = node.0,
                "the events of another server are not heard here, so the database is polled; look at `store_direct` there and here"
            );
        }
        for node in others.silent.difference(&silent) {
            tracing::warn!(
                node = node.0,
                "the events of another server are heard again, or it has ended"
            );
        }
        others.silent = silent;
    }

    /// What is known of it, without the connections.
    pub(crate) fn health(&self) -> StoreHealth {
        StoreHealth {
            delivery: self.delivery(),
            sent: self.last_sent(),
            heard: self.heard.load(Ordering::Relaxed),
            silent: self.others.lock().silent.iter().copied().collect(),
            locked_by: None,
            pools: Vec::new(),
        }
    }
}
