//! Bodies of HTTP/2, whose readers are watched one by one: all streams of a connection share its socket, so that cannot tell who reads too slowly.

use super::{
    response::ResponseBody,
    stall::{LEAST, WINDOW},
};
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

/// How the reader of one stream keeps up.
#[derive(Default)]
pub(super) struct Pace {
    /// Bytes handed over.
    given: AtomicUsize,
    /// Times that there was nothing more to hand over.
    drained: AtomicUsize,
    /// Whether there is more, which the reader has not asked for.
    is_waited_for: AtomicBool,
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
    /// Completes when the reader has kept the stream waiting for a whole window, and has taken too little in it.
    pub(super) async fn is_too_slow(&self, clock: &dyn Clock) {
        loop {
            let before = self.read();
            clock.sleep(WINDOW).await;
            let now = self.read();
            let waits = before.2 && now.2 && before.1 == now.1;
            if waits && now.0 - before.0 < LEAST {
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

    fn gave(&self, bytes: usize) {
        self.given.fetch_add(bytes, Ordering::Relaxed);
        self.is_waited_for.store(true, Ordering::Relaxed);
    }

    fn has_drained(&self) {
        self.drained.fetch_add(1, Ordering::Relaxed);
        self.is_waited_for.store(false, Ordering::Relaxed);
    }
}

impl PacedBody {
    pub(super) fn new(body: ResponseBody, pace: Arc<Pace>) -> Self {
        // The head waits for the reader, too.
        pace.is_waited_for.store(true, Ordering::Relaxed);
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
