//! Bodies of requests that are answered before they were read.

use crate::transport::http::body::drop_some;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use longhaul_runtime::Ports;
use parking_lot::Mutex;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// As much as a message may have by default.
const MOST: usize = 4 << 20;

/// The body of a request, lent to what answers it. What it leaves unread comes back to [`Lender`].
pub(super) struct LentBody {
    body: Option<Incoming>,
    rest: Arc<Mutex<Option<Incoming>>>,
}

/// Has what is left of a body.
pub(super) struct Lender(Arc<Mutex<Option<Incoming>>>);

impl LentBody {
    pub(super) fn new(body: Incoming) -> (Self, Lender) {
        let rest = Arc::default();
        let lent = Self {
            body: Some(body),
            rest: Arc::clone(&rest),
        };
        (lent, Lender(rest))
    }
}

impl Lender {
    /// Reads and drops what was left. An HTTP/2 server may answer at once and tell the client to stop sending (RFC 9113, section 8.1), but curl and httpx do not read
    /// that answer.
    pub(super) async fn drop_rest(self, ports: &Ports) {
        let rest = self.0.lock().take();
        if let Some(rest) = rest {
            drop_some(rest, MOST, ports).await;
        }
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        *self.rest.lock() = self.body.take().filter(|body| !body.is_end_stream());
    }
}

impl Body for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
