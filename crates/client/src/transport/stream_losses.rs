//! Streams of a server that were lost, and are open again: for those that wait on a connection.

use futures_util::FutureExt;
use std::{
    fmt::Display,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::watch;

/// What has become of the streams of a connection. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct StreamLosses {
    counts: Arc<watch::Sender<Counts>>,
    /// The push stream, which is opened again in several places.
    is_push_lost: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    lost: u64,
    opened: u64,
    /// Why the latest one was lost.
    reason: Arc<str>,
}

/// A stream that is opened again when it is lost. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WatchedStream {
    losses: StreamLosses,
    is_lost: Arc<AtomicBool>,
}

impl StreamLosses {
    /// A stream of its own.
    pub(crate) fn stream(&self) -> WatchedStream {
        WatchedStream {
            losses: self.clone(),
            is_lost: Arc::default(),
        }
    }

    /// The push stream of the session.
    pub(crate) fn push_stream(&self) -> WatchedStream {
        WatchedStream {
            losses: self.clone(),
            is_lost: Arc::clone(&self.is_push_lost),
        }
    }

    /// What becomes of the streams from now on.
    pub(crate) fn changes(&self) -> StreamChanges {
        let receiver = self.counts.subscribe();
        let told = receiver.borrow().clone();
        StreamChanges { receiver, told }
    }
}

impl WatchedStream {
    /// It was lost, or could not be opened again, which is not told again.
    pub(crate) fn lost(&self, reason: &impl Display) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            let reason = reason.to_string();
            self.losses.counts.send_modify(|counts| {
                counts.lost += 1;
                counts.reason = reason.into();
            });
        }
    }

    /// It is open.
    pub(crate) fn opened(&self) {
        if self.is_lost.swap(false, Ordering::Relaxed) {
            self.losses.counts.send_modify(|counts| counts.opened += 1);
        }
    }
}

/// What becomes of the streams of a connection.
pub(crate) struct StreamChanges {
    receiver: watch::Receiver<Counts>,
    told: Counts,
}

/// What has become of a stream.
pub(crate) enum StreamChange {
    Lost(Arc<str>),
    Reopened,
}

impl StreamChanges {
    /// The next change. Several that are not told yet count as one of their kind. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> StreamChange {
        loop {
            let now = self.receiver.borrow_and_update().clone();
            if now.lost > self.told.lost {
                self.told.lost = now.lost;
                return StreamChange::Lost(now.reason);
            }
            if now.opened > self.told.opened {
                self.told.opened = now.opened;
                return StreamChange::Reopened;
            }
            if self.receiver.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Does the work, and hands on meanwhile what becomes of the streams.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>, mut report: impl FnMut(StreamChange)) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    // The stream that has brought the end may have been opened again just before it.
                    while let Some(change) = self.next().now_or_never() {
                        report(change);
                    }
                    return done;
                }
                change = self.next() => report(change),
            }
        }
    }
}
