//! Reading bodies, within limits of size, time and the memory of all of them.

use crate::{
    admission::limits::{BodyReservation, BudgetExhausted, Busy, Reservation, SMALL},
    transport::protocol_server::ProtocolServer,
};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use longhaul_core::Principal;
use longhaul_runtime::Ports;
use longhaul_wire::RpcError;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

/// How long a body may take to arrive. Messages are small, and a slow client holds a connection.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a body whose Content-Length is over [`SMALL`] may wait for memory, before any of it is read.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(2);

/// How much is read of the body of a request whose sender is not known.
const DENIED_BYTES: usize = 256 * 1024;
/// How long what nobody needs is read.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// A body, and the memory reserved for it.
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    pub(super) reservation: Option<Reservation>,
}

/// Reads a body of at most `max_body` bytes.
pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    protocol: &ProtocolServer,
    principal: &Principal,
) -> Result<ReceivedBody, RpcError> {
    let read = receive(&mut body, protocol, principal).await;
    if matches!(&read, Err(BodyError::NoRoom)) {
        drop_rest(&mut body, protocol).await;
    }
    read.map_err(|unread| match unread {
        BodyError::NoRoom => protocol.admission.memory.refuse(Busy::Bodies),
        BodyError::Refused(error) => error,
    })
}

/// Why a body was not read to its end.
enum BodyError {
    NoRoom,
    Refused(RpcError),
}

impl From<RpcError> for BodyError {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<BudgetExhausted> for BodyError {
    fn from(_: BudgetExhausted) -> Self {
        Self::NoRoom
    }
}

async fn receive<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    protocol: &ProtocolServer,
    principal: &Principal,
) -> Result<ReceivedBody, BodyError> {
    let length = body.size_hint().lower();
    // A body that announces too much is not read at all.
    if length > protocol.admission.max_body as u64 {
        return Err(too_large(protocol.admission.max_body).into());
    }
    if length > SMALL as u64 {
        // At most the limit, which is a `usize`.
        let fits = protocol.admission.memory.fits(principal, length as usize);
        let fits = protocol.engine.ports().within(MEMORY_TIMEOUT, fits).await;
        fits.ok_or(BodyError::NoRoom)?;
    }
    let reservation = protocol.admission.memory.body(principal);
    let mut whole = pin!(collect(body, protocol.admission.max_body, reservation));
    if let Some(read) = at_once(whole.as_mut()).await {
        return read;
    }
    match protocol.engine.ports().within(TIMEOUT, whole).await {
        Some(read) => read,
        None => Err(RpcError::parse("The body took too long to arrive")
            .with_status(408)
            .into()),
    }
}

/// The body of a request that is refused whatever is in it, if that is little.
pub(super) async fn read_or_drop<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    protocol: &ProtocolServer,
    principal: &Principal,
) -> Bytes {
    let length = body.size_hint().upper();
    if length.is_some_and(|length| length <= SMALL as u64) {
        return read(body, protocol, principal)
            .await
            .map(|whole| whole.bytes)
            .unwrap_or_default();
    }
    drop_rest(&mut body, protocol).await;
    Bytes::new()
}

/// Reads and drops some of the body of a request whose sender is not known: enough for an honest client, which then reads why it is refused.
pub(super) async fn drop_denied<B: Body<Data = Bytes> + Unpin>(body: B, protocol: &ProtocolServer) {
    drop_some(body, DENIED_BYTES, protocol.engine.ports()).await;
}

/// Reads and drops so many bytes of a body, for a short time.
pub(super) async fn drop_some<B: Body<Data = Bytes> + Unpin>(mut body: B, most: usize, ports: &Ports) {
    if body.is_end_stream() {
        return;
    }
    let drop_some = async {
        let mut left = most;
        while let Ok(Some(piece)) = next(&mut body).await
            && piece.len() <= left
        {
            left -= piece.len();
        }
    };
    let _ = ports.within(DROP_TIMEOUT, drop_some).await;
}

/// Reads and drops what is left, up to `max_body`: a client whose connection is reset while it writes may never read why.
async fn drop_rest<B: Body<Data = Bytes> + Unpin>(body: &mut B, protocol: &ProtocolServer) {
    let drop_all = async {
        let mut length = 0;
        while let Ok(Some(piece)) = next(body).await
            && length <= protocol.admission.max_body
        {
            length += piece.len();
        }
    };
    let _ = protocol.engine.ports().within(TIMEOUT, drop_all).await;
}

/// The result of `read` if all of the body has arrived, which is nearly always so; then no timer is needed. HTTP hands a body over only
/// after it was polled once, so the second poll decides.
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

/// Puts the pieces together. Pieces that are one byte each cost no more than one that holds them all. Memory is reserved for each piece as it arrives (until
/// then it is in the connection's own buffer), and never waited for: a slow body holds no more than what has arrived.
async fn collect<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    limit: usize,
    mut reservation: BodyReservation<'_>,
) -> Result<ReceivedBody, BodyError> {
    let whole = |bytes: Bytes, reservation: BodyReservation<'_>| ReceivedBody {
        bytes,
        reservation: reservation.keep(),
    };
    let Some(first) = next(body).await? else {
        return Ok(whole(Bytes::new(), reservation));
    };
    let whole_at_once = body.is_end_stream();
    if first.len() > limit {
        return Err(too_large(limit).into());
    }
    reservation.grow(first.len())?;
    if whole_at_once {
        return Ok(whole(first, reservation));
    }
    let mut bytes = BytesMut::from(first);
    while let Some(piece) = next(body).await? {
        let length = bytes.len() + piece.len();
        if length > limit {
            return Err(too_large(limit).into());
        }
        reservation.grow(length)?;
        bytes.extend_from_slice(&piece);
    }
    Ok(whole(bytes.freeze(), reservation))
}

/// The next piece of data; trailers are ignored.
async fn next<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Result<Option<Bytes>, RpcError> {
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
