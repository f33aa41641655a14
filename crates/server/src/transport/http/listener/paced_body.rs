//! Bodies of HTTP/2, whose readers are watched one by one: all streams of a connection share its socket, so that cannot tell who reads too slowly.

use super::stall::{LEAST, WINDOW};
use crate::transport::http::response::ResponseBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use longhaul_core::Clock;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

/// What is handed over at once: as much as a frame has. The last piece stays in memory until the reader takes it, after the body is gone, too.
const PIECE: usize = 16 * 1024;

/// How the reader of one stream keeps up. The streams of a connection that wait share what a reader must take: it has one network, whatever it reads of it.
#[derive(Default)]
pub(super) struct Pace {
    /// Bytes handed over.
    given: AtomicUsize,
    /// Times that there was nothing more to hand over.
    drained: AtomicUsize,
    /// Whether there is more, which the reader has not asked for.
    is_waited_for: AtomicBool,
    /// For how many streams of the connection that is so.
    waiting: Arc<AtomicUsize>,
}

/// A body in pieces, each of which its reader asks for.
pub(super) struct PacedBody {
    body: ResponseBody,
    /// What was not handed over yet.
    rest: Bytes,
    /// Whether some of the same bytes was.
    is_split: bool,
    pace: Arc<Pace>,
}

impl Pace {
    /// Of a stream of a connection where so many wait.
    pub(super) fn new(waiting: Arc<AtomicUsize>) -> Self {
        Self {
            given: AtomicUsize::new(0),
            drained: AtomicUsize::new(0),
            is_waited_for: AtomicBool::new(false),
            waiting,
        }
    }

    /// Completes when the reader has kept the stream waiting for a whole window, and has taken too little in it.
    pub(super) async fn is_too_slow(&self, clock: &dyn Clock) {
        loop {
            let (before, among) = (self.read(), self.among());
            clock.sleep(WINDOW).await;
            let now = self.read();
            let waits = before.2 && now.2 && before.1 == now.1;
            if waits && now.0 - before.0 < LEAST / among.max(self.among()) {
                return;
            }
        }
    }

    fn read(&self) -> (usize, usize, bool) {
        (
            self.given.load(Ordering::Relaxed),
            self.drained.load(Ordering::Relaxed),
            self.is_waited_for.load(Ordering::Relaxed),
        )
    }

    /// How many streams wait, with this one.
    fn among(&self) -> usize {
        self.waiting.load(Ordering::Relaxed).max(1)
    }

    fn gave(&self, bytes: usize) {
        self.given.fetch_add(bytes, Ordering::Relaxed);
        self.waits_for_reader(true);
    }

    fn has_drained(&self) {
        self.drained.fetch_add(1, Ordering::Relaxed);
        self.waits_for_reader(false);
    }

    fn waits_for_reader(&self, waits: bool) {
        match (self.is_waited_for.swap(waits, Ordering::Relaxed), waits) {
            (false, true) => self.waiting.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.waiting.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.waits_for_reader(false);
    }
}

impl PacedBody {
    pub(super) fn new(body: ResponseBody, pace: Arc<Pace>) -> Self {
        // The head waits for the reader, too.
        pace.waits_for_reader(true);
        Self {
            body,
            rest: Bytes::new(),
            is_split: false,
            pace,
        }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            let next = Pin::new(&mut self.body).poll_frame(cx);
            if next.is_pending() {
                self.pace.has_drained();
            }
            match ready!(next).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(_not_data))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let is_small = self.rest.len() <= PIECE;
        let piece = match is_small && !self.is_split {
            true => std::mem::take(&mut self.rest),
            // A copy, so that the memory of the whole is released with its last piece, and not when the reader has taken that.
            false => {
                let length = self.rest.len().min(PIECE);
                Bytes::copy_from_slice(&self.rest.split_to(length))
            }
        };
        self.is_split = !self.rest.is_empty();
        if !self.is_split {
            self.rest = Bytes::new();
        }
        self.pace.gave(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::listener::stall::tests::PausedClock;
    use axum::body::Body as AxumBody;
    use std::{future::poll_fn, time::Duration};

    /// Reads so many streams at once, of each a piece every so many seconds; how many were read to their end.
    async fn read(streams: usize, every: u64) -> usize {
        let waiting = Arc::default();
        let one = || {
            let pace = Arc::new(Pace::new(Arc::clone(&waiting)));
            let body = AxumBody::from(vec![0; 64 * PIECE]);
            let mut body = PacedBody::new(body.into(), Arc::clone(&pace));
            async move {
                let reading = async {
                    while poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.is_some() {
                        PausedClock.sleep(Duration::from_secs(every)).await;
                    }
                };
                tokio::select! {
                    () = reading => true,
                    () = pace.is_too_slow(&PausedClock) => false,
                }
            }
        };
        let read = futures_util::future::join_all((0..streams).map(|_| one())).await;
        assert_eq!(waiting.load(Ordering::Relaxed), 0, "all are gone");
        read.into_iter().filter(|whole| *whole).count()
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_many_streams_share_what_one_must_read() {
        // A piece every second is less than half of what one stream must take.
        assert_eq!(read(1, 1).await, 0);
        assert_eq!(read(3, 1).await, 3);
        // 2.1 pieces each in a window, and a hundred of all.
        assert_eq!(read(50, 14).await, 50);
        assert_eq!(read(50, 60).await, 0, "a piece in two windows");
    }
}
