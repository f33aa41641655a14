//! Events in memory: the model that other event stores are compared with.

use longhaul_core::{BoxFuture, EventLimits, EventStore, EventStream, KeptEvent, SessionKey, UnixMillis};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    io,
};

/// Keeps events in memory. They survive their connections, but not the process.
#[derive(Default)]
pub struct MemoryEventStore {
    limits: EventLimits,
    events: Mutex<Events>,
}

#[derive(Default)]
struct Events {
    /// In the order in which they were appended.
    entries: BTreeMap<u64, Entry>,
    /// Where the events of a stream are, by number.
    streams: HashMap<EventStream, BTreeMap<u64, u64>>,
    next: u64,
    /// Bytes of all messages.
    bytes: u64,
}

struct Entry {
    stream: EventStream,
    event: KeptEvent,
    at: UnixMillis,
}

impl MemoryEventStore {
    /// An empty store.
    pub fn new(limits: EventLimits) -> Self {
        Self {
            limits,
            events: Mutex::default(),
        }
    }
}

impl Events {
    fn remove(&mut self, place: u64) {
        let Some(entry) = self.entries.remove(&place) else {
            return;
        };
        self.bytes -= entry.event.message.len() as u64;
        if let Some(places) = self.streams.get_mut(&entry.stream) {
            places.remove(&entry.event.nth);
            if places.is_empty() {
                self.streams.remove(&entry.stream);
            }
        }
    }

    /// Drops what is too old, or more than may be kept.
    fn shrink(&mut self, limits: EventLimits, now: UnixMillis) {
        while let Some((&place, oldest)) = self.entries.first_key_value()
            && (now.0 - oldest.at.0 >= limits.age || self.bytes > limits.bytes)
        {
            self.remove(place);
        }
    }
}

impl EventStore for MemoryEventStore {
    fn append<'a>(
        &'a self,
        stream: &'a EventStream,
        event: KeptEvent,
        now: UnixMillis,
    ) -> BoxFuture<'a, io::Result<()>> {
        let mut events = self.events.lock();
        let first_kept = (event.nth + 1).saturating_sub(self.limits.events_of_stream.max(1));
        if let Some(places) = events.streams.get(stream) {
            let outside = places.range(..first_kept).chain(places.range(event.nth..=event.nth));
            let outside: Vec<u64> = outside.map(|(_, place)| *place).collect();
            outside.into_iter().for_each(|place| events.remove(place));
        }
        let place = events.next;
        events.next += 1;
        events.bytes += event.message.len() as u64;
        events
            .streams
            .entry(stream.clone())
            .or_default()
            .insert(event.nth, place);
        let entry = Entry {
            stream: stream.clone(),
            event,
            at: now,
        };
        events.entries.insert(place, entry);
        events.shrink(self.limits, now);
        Box::pin(ready(Ok(())))
    }

    fn read<'a>(&'a self, stream: &'a EventStream, now: UnixMillis) -> BoxFuture<'a, io::Result<Vec<KeptEvent>>> {
        let mut events = self.events.lock();
        events.shrink(self.limits, now);
        let places = events.streams.get(stream).into_iter().flat_map(BTreeMap::values);
        let kept = places
            .filter_map(|place| events.entries.get(place))
            .map(|entry| entry.event.clone());
        Box::pin(ready(Ok(kept.collect())))
    }

    fn end_session<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, io::Result<()>> {
        let mut events = self.events.lock();
        let of_session = events.streams.iter().filter(|(stream, _)| stream.session == *session);
        let places: Vec<u64> = of_session.flat_map(|(_, places)| places.values().copied()).collect();
        places.into_iter().for_each(|place| events.remove(place));
        Box::pin(ready(Ok(())))
    }
}
