//! Reading a body: not too large, not too slow, and not too many large ones at once.

use crate::front::Front;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use longhaul_wire::RpcError;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};
use tokio::sync::Semaphore;

/// How long a body may take to arrive. A message is small, and a client that trickles holds a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// A body up to this size is anyone's right.
const SMALL: usize = 64 * 1024;
/// Larger bodies being read at once; the next one waits. With thousands of connections their sizes would add up to all memory.
const LARGE_AT_ONCE: usize = 32;

/// Room for large bodies while they arrive.
pub(crate) struct BodyRoom(Semaphore);

impl Default for BodyRoom {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_AT_ONCE))
    }
}

/// Reads a body of at most the front's limit.
pub(super) async fn read(body: Body, front: &Front) -> Result<Bytes, RpcError> {
    // Two megabytes of a body that says it has ten are not worth reading.
    if http_body::Body::size_hint(&body).lower() > front.max_body as u64 {
        return Err(too_large(front.max_body));
    }
    let mut whole = pin!(collect(body, front.max_body, &front.body_room));
    if let Some(read) = at_once(whole.as_mut()).await {
        return read;
    }
    match front.engine.ports().within(PATIENCE, whole).await {
        Some(read) => read,
        None => Err(RpcError::parse("The body took too long to arrive").with_status(408)),
    }
}

/// The body of a request that is refused whatever is in it, if that is little. More of it is read and dropped, up to the front's limit: a client
/// whose connection is reset while it writes may never read why.
pub(super) async fn read_or_drop(mut body: Body, front: &Front) -> Bytes {
    let length = http_body::Body::size_hint(&body).upper();
    if length.is_some_and(|length| length <= SMALL as u64) {
        return read(body, front).await.unwrap_or_default();
    }
    let drop_all = async {
        let mut length = 0;
        while let Ok(Some(piece)) = next(&mut body).await
            && length <= front.max_body
        {
            length += piece.len();
        }
    };
    let _ = front.engine.ports().within(PATIENCE, drop_all).await;
    Bytes::new()
}

/// What `read` comes to if all of it has arrived: nearly always, and then no time has to be kept. HTTP hands a body over only
/// after it has been asked for, so the second look is the one that counts.
async fn at_once<T>(mut read: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut asked = false;
    poll_fn(|cx| match read.as_mut().poll(cx) {
        Poll::Ready(read) => Poll::Ready(Some(read)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// Puts the pieces together. Pieces that are one byte each cost no more than one that holds them all.
async fn collect(mut body: Body, limit: usize, room: &BodyRoom) -> Result<Bytes, RpcError> {
    let Some(first) = next(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let whole_at_once = http_body::Body::is_end_stream(&body);
    if first.len() > limit {
        return Err(too_large(limit));
    }
    if whole_at_once {
        return Ok(first);
    }
    let mut place = None;
    let mut whole = BytesMut::from(first);
    while let Some(piece) = next(&mut body).await? {
        let length = whole.len() + piece.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if length > SMALL && place.is_none() {
            // The semaphore is never closed, so a place is only ever waited for.
            place = room.0.acquire().await.ok();
        }
        whole.extend_from_slice(&piece);
    }
    drop(place);
    Ok(whole.freeze())
}

/// The next piece of data; trailers are nothing to us.
async fn next(body: &mut Body) -> Result<Option<Bytes>, RpcError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) => return Ok(Some(piece)),
                Err(_trailers) => {}
            },
            Some(Err(_)) => return Err(RpcError::parse("The body ended before it was complete")),
        }
    }
}

fn too_large(limit: usize) -> RpcError {
    RpcError::invalid_request(format!("The body is larger than {limit} bytes (see max_body)")).with_status(413)
}
