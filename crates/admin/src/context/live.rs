//! Who watches a page is told that something has changed.

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use longhaul_runtime::Engine;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Changes within this time are one: a page is drawn anew at most so often. Longer than what is drawn, and what is wrong, are remembered.
const TOGETHER: Duration = Duration::from_secs(2);

/// Counts changes of tasks, all those within two seconds as one.
pub(crate) struct Live {
    changes: watch::Receiver<u64>,
    changed: Arc<Notify>,
    /// How many changes there were, each of them at once.
    count: Arc<AtomicU64>,
}

impl Live {
    /// Listens to the store of an engine until the engine stops.
    pub(crate) fn of(engine: &Engine) -> Self {
        // Those of an earlier process were less.
        let first = engine.ports().clock.wall().0.cast_unsigned();
        let (tell, changes) = watch::channel(first);
        let changed = Arc::new(Notify::new());
        let (notified, awaited) = (Arc::clone(&changed), Arc::clone(&changed));
        let count = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&count);
        engine.store().listen(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            notified.notify_one();
        }));
        let clock = Arc::clone(&engine.ports().clock);
        engine.spawn(async move {
            loop {
                awaited.notified().await;
                loop {
                    tell.send_modify(|changes| *changes += 1);
                    clock.sleep(TOGETHER).await;
                    if awaited.notified().now_or_never().is_none() {
                        break;
                    }
                }
                // A page that was drawn at once may have shown what was found a moment before the change.
                tell.send_modify(|changes| *changes += 1);
            }
        });
        Self {
            changes,
            changed,
            count,
        }
    }

    /// Says that something has changed that is no task.
    pub(crate) fn change(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// The number of changes so far, without the delay of [`version`](Self::version).
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The version of everything that pages show. A page that was drawn at this version is up to date.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    /// The present version, then each new one, until `stop`. A page that was drawn at another version is out of date.
    pub(crate) fn events(&self, stop: CancellationToken) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let mut changes = self.changes.clone();
        changes.mark_changed();
        let events = stream::unfold(changes, async |mut changes| {
            changes.changed().await.ok()?;
            let version = *changes.borrow_and_update();
            Some((Ok(Event::default().event("change").data(version.to_string())), changes))
        });
        let events = events.take_until(stop.cancelled_owned());
        Sse::new(events).keep_alive(KeepAlive::default())
    }
}
