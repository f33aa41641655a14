//! Transports that carry one client each: messages come in one after another, and what is sent goes out in order.

use crate::{
    admission::{
        identity::Identity,
        limits::{BudgetExhausted, Busy, Reservation},
        permissions::Permission,
    },
    response::{Answer, stream::Text},
    transport::{duplex::Duplex, protocol_server::ProtocolServer},
};
use bytes::Bytes;
use longhaul_core::Principal;
use longhaul_wire::{Message, RpcError};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long answers may still take after the end of the input.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Messages are sent together up to so many bytes.
const BATCH: usize = 64 * 1024;

/// Carries JSON-RPC messages to and from one client: a WebSocket, a pipe, a pair of channels. The server does the rest: both eras are
/// served, and a legacy `initialize` makes the connection a session. HTTP is no such transport, since its messages come one by one, from
/// anybody.
///
/// Both directions are used at the same time, so the methods take `&self`. What ends with an error, or is dropped, ends the connection; the tasks of
/// its client go on.
pub trait Transport: Send + Sync {
    /// Waits for the next message. Only one call of it is open at a time, and dropping its future must lose no message.
    ///
    /// # Errors
    /// Of the connection, which then ends. If the client has merely closed it, return [`Received::Closed`].
    fn receive(&self) -> impl Future<Output = io::Result<Received>> + Send;

    /// Sends these messages, of which there is at least one, in their order. Each is one JSON text, which may have line breaks between its values.
    /// Only one call of it is open at a time. While it waits, so does what is written for the client.
    ///
    /// # Errors
    /// Of the connection, which then ends. `BrokenPipe` and `ConnectionReset` mean that the client has left.
    fn send(&self, messages: Vec<String>) -> impl Future<Output = io::Result<()>> + Send;

    /// Nothing more is sent: the client may be told so.
    ///
    /// # Errors
    /// Of the connection.
    fn close(&self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Who the client is, if the transport knows. By default nobody has verified that: then it is [`Principal::local`], and `tasks/list` lists only what
    /// this connection has created. A server with [authenticators](crate::auth::Authenticator) does not serve such a connection.
    fn identity(&self) -> Option<Arc<Identity>> {
        None
    }
}

/// What a [`Transport`] has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message: JSON in UTF-8. Anything else is answered with an error.
    Message(Bytes),
    /// A message was skipped because it is longer than this many bytes. It is answered with an error.
    TooLong(usize),
    /// The client sends nothing more. Requests that are open are still answered.
    Closed,
}

/// Serves one client over a transport until it closes the connection, or the server drains. Requests that are open then have 5 s to be
/// answered; after that plain calls are cancelled, but for those with an idempotency key. Tasks are not touched in any case.
///
/// # Errors
/// If the transport fails, or does not know who its client is and the server serves only whom it knows. A client that no longer reads has left, which is no error.
pub async fn serve(protocol: Arc<ProtocolServer>, transport: impl Transport) -> io::Result<()> {
    let identity = transport
        .identity()
        .or_else(|| protocol.admission.access.everyone().cloned())
        .ok_or_else(unknown_client)?;
    let (duplex, outgoing) = Duplex::open(&protocol, identity.permissions().allows(Permission::ReadResources));
    let ended = {
        let sending = send(outgoing, &transport, duplex.closed());
        let receiving = async {
            let received = receive((&duplex, &identity), &protocol, &transport).await;
            let answered = async {
                match received {
                    Ok(End::Drained) => duplex.done().await,
                    _ => duplex.idle().await,
                }
            };
            let _ = protocol.engine.ports().within(TIMEOUT, answered).await;
            duplex.close();
            received
        };
        tokio::pin!(sending);
        tokio::select! {
            received = receiving => {
                // Earlier messages may still wait for a slow reader.
                let sent = protocol.engine.ports().within(TIMEOUT, sending).await;
                received.map(drop).and(sent.unwrap_or(Ok(())))
            }
            sent = &mut sending => sent,
        }
    };
    duplex.close();
    ended.or_else(|error| if has_left(&error) { Ok(()) } else { Err(error) })
}

fn unknown_client() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the server has authenticators, so a transport must say who its client is (Transport::identity)",
    )
}

/// The other side reads no more.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Why nothing more is received.
enum End {
    /// The client has closed its side, or disconnected.
    Client,
    /// The server drains.
    Drained,
}

async fn receive(
    (duplex, identity): (&Arc<Duplex>, &Arc<Identity>),
    protocol: &ProtocolServer,
    transport: &impl Transport,
) -> io::Result<End> {
    loop {
        let received = tokio::select! {
            received = transport.receive() => received?,
            () = protocol.shutdown.drained() => return Ok(End::Drained),
        };
        if received == Received::Closed {
            return Ok(End::Client);
        }
        let refused = match protocol.admission.meter.message(identity.principal()) {
            Ok(()) => None,
            Err(busy) => tokio::select! {
                refused = answer_over_rate(protocol, identity, &received, busy) => refused,
                () = protocol.shutdown.drained() => return Ok(End::Drained),
            },
        };
        let taken = match (refused, received) {
            (Some(refused), _) => duplex.deliver(refused).await,
            (None, Received::Message(bytes)) => match enter(protocol, identity.principal(), &bytes) {
                Ok(reservation) => duplex.take(identity, bytes, reservation).await,
                Err(refused) => duplex.deliver(refused).await,
            },
            (None, Received::TooLong(limit)) => duplex.deliver(Answer::error(None, &too_long(limit))).await,
            (None, Received::Closed) => return Ok(End::Client),
        };
        if taken.is_err() {
            return Ok(End::Client);
        }
    }
}

/// The answer to a message over the rate limit: a request is refused. Anything else has no response and must not be lost: it is
/// taken as soon as the rate allows, and until then nothing more is received.
async fn answer_over_rate(
    protocol: &ProtocolServer,
    identity: &Identity,
    received: &Received,
    mut busy: Busy,
) -> Option<Answer> {
    if let Received::Message(bytes) = received
        && let Ok(Message::Request(request)) = Message::parse(bytes)
    {
        return Some(Answer::error(Some(request.id), &busy.into()));
    }
    loop {
        protocol.engine.ports().clock.sleep(busy.wait()).await;
        busy = protocol.admission.meter.message(identity.principal()).err()?;
    }
}

/// Reserves memory for a large request. A message without a response is accepted without memory, since it must not be lost.
fn enter(protocol: &ProtocolServer, principal: &Principal, bytes: &Bytes) -> Result<Option<Reservation>, Answer> {
    let mut reservation = protocol.admission.memory.body(principal);
    if reservation.grow(bytes.len()) == Err(BudgetExhausted)
        && let Ok(Message::Request(request)) = Message::parse(bytes)
    {
        return Err(Answer::error(
            Some(request.id),
            &protocol.admission.memory.refuse(Busy::Bodies),
        ));
    }
    Ok(reservation.keep())
}

fn too_long(limit: usize) -> RpcError {
    RpcError::invalid_request(format!("The message is longer than {limit} bytes"))
}

/// Sends outgoing messages until the connection is closed.
async fn send(
    mut outgoing: mpsc::Receiver<Text>,
    transport: &impl Transport,
    closed: impl Future<Output = ()>,
) -> io::Result<()> {
    tokio::pin!(closed);
    loop {
        let message = tokio::select! {
            biased;
            message = outgoing.recv() => message,
            () = &mut closed, if !outgoing.is_closed() => {
                outgoing.close();
                continue;
            }
        };
        let Some(Text { text, reservation }) = message else {
            break;
        };
        let mut length = text.len();
        let (mut messages, mut reservations) = (vec![text], Vec::from_iter(reservation));
        while length < BATCH
            && let Ok(Text { text, reservation }) = outgoing.try_recv()
        {
            length += text.len();
            messages.push(text);
            reservations.extend(reservation);
        }
        transport.send(messages).await?;
        drop(reservations);
    }
    transport.close().await
}
