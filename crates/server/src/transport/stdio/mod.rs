//! MCP over a stream of bytes, one message a line: standard input and output, or a socket that stands for them.
//!
//! Both eras are served, message by message; a legacy `initialize` makes the connection a session, and messages to that session
//! are sent here. Nothing is fatal: a line that is no message is answered with an error, one that is too long is skipped to its end.

mod lines;
#[cfg(unix)]
mod socket;

#[cfg(unix)]
pub use socket::{OwnerSocket, connect};

use crate::{
    admission::{
        caller::PeerScope,
        limits::{Busy, Exhausted, Reservation},
    },
    response::{Answer, stream::Text},
    transport::{duplex::Duplex, front::Front},
};
use bytes::{Bytes, BytesMut};
use lines::{Line, Lines};
use longhaul_wire::{Message, RpcError};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

/// The longest line: 16 MiB.
pub const MAX_LINE: usize = 16 << 20;
/// How long answers may still take after the end of the input.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Messages are written together up to so many bytes.
const BATCH: usize = 64 * 1024;

/// Serves one connection until its client closes it, or the front drains. Requests that are open then have 5 s to be answered; after
/// that plain calls are cancelled, but for those with an idempotency key. Tasks are not touched in any case.
///
/// ```no_run
/// # async fn example(front: std::sync::Arc<longhaul_server::Front>) -> std::io::Result<()> {
/// longhaul_server::stdio::serve(front, tokio::io::stdin(), tokio::io::stdout()).await
/// # }
/// ```
///
/// # Errors
/// If reading or writing fails. A client that no longer reads has left, which is no error.
pub async fn serve(
    front: Arc<Front>,
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin,
) -> io::Result<()> {
    let (duplex, outgoing) = Duplex::open(&front, PeerScope::OneUser);
    let ended = {
        let writing = write(outgoing, writer, duplex.closed());
        let reading = async {
            let read = read(&duplex, &front, reader).await;
            let answered = async {
                match read {
                    Ok(ReadEnd::Drained) => duplex.done().await,
                    _ => duplex.idle().await,
                }
            };
            let _ = front.engine.ports().within(TIMEOUT, answered).await;
            duplex.close();
            read
        };
        tokio::pin!(writing);
        tokio::select! {
            read = reading => {
                // Earlier messages may still wait for a slow reader.
                let written = front.engine.ports().within(TIMEOUT, writing).await;
                read.map(drop).and(written.unwrap_or(Ok(())))
            }
            written = &mut writing => written,
        }
    };
    duplex.close();
    ended.or_else(|error| if has_left(&error) { Ok(()) } else { Err(error) })
}

/// The other side reads no more.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Why nothing more is read.
enum ReadEnd {
    /// The client has closed its side, or disconnected.
    Client,
    /// The front drains.
    Drained,
}

async fn read(duplex: &Arc<Duplex>, front: &Front, reader: impl AsyncRead + Unpin) -> io::Result<ReadEnd> {
    let mut lines = Lines::new(reader, MAX_LINE);
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            () = front.shutdown.drained() => return Ok(ReadEnd::Drained),
        };
        let Some(line) = line else { return Ok(ReadEnd::Client) };
        let refused = match front.admission.meter.message(&front.admission.principal) {
            Ok(()) => None,
            Err(busy) => tokio::select! {
                refused = answer_over_rate(front, &line, busy) => refused,
                () = front.shutdown.drained() => return Ok(ReadEnd::Drained),
            },
        };
        let taken = match (refused, line) {
            (Some(refused), _) => duplex.deliver(refused).await,
            (None, Line::Message(bytes)) => match enter(front, &bytes) {
                Ok(reservation) => duplex.take(bytes, reservation).await,
                Err(refused) => duplex.deliver(refused).await,
            },
            (None, Line::TooLong) => duplex.deliver(Answer::error(None, &too_long())).await,
        };
        if taken.is_err() {
            return Ok(ReadEnd::Client);
        }
    }
}

/// The answer to a line over the rate limit: a request is refused. Anything else has no response and must not be lost: it is
/// taken as soon as the rate allows, and until then nothing more is read.
async fn answer_over_rate(front: &Front, line: &Line, mut busy: Busy) -> Option<Answer> {
    if let Line::Message(bytes) = line
        && let Ok(Message::Request(request)) = Message::parse(bytes)
    {
        return Some(Answer::error(Some(request.id), &busy.into()));
    }
    loop {
        front.engine.ports().clock.sleep(busy.wait()).await;
        busy = front.admission.meter.message(&front.admission.principal).err()?;
    }
}

/// Reserves memory for a large request. A message without a response is accepted without memory, since it must not be lost.
fn enter(front: &Front, bytes: &Bytes) -> Result<Option<Reservation>, Answer> {
    let mut reservation = front.admission.memory.body();
    if reservation.grow(bytes.len()) == Err(Exhausted)
        && let Ok(Message::Request(request)) = Message::parse(bytes)
    {
        return Err(Answer::error(Some(request.id), &Busy::Bodies.into()));
    }
    Ok(reservation.keep())
}

fn too_long() -> RpcError {
    RpcError::invalid_request(format!("The line is longer than {MAX_LINE} bytes"))
}

/// Writes outgoing messages, one a line, until the connection is closed.
async fn write(
    mut outgoing: mpsc::Receiver<Text>,
    mut writer: impl AsyncWrite + Unpin,
    closed: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut batch = BytesMut::new();
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
        let Some(message) = message else { break };
        let mut reservations = Vec::new();
        let mut push = |batch: &mut BytesMut, message: Text| {
            push_line(batch, message.text);
            reservations.extend(message.reservation);
        };
        push(&mut batch, message);
        while batch.len() < BATCH
            && let Ok(message) = outgoing.try_recv()
        {
            push(&mut batch, message);
        }
        writer.write_all(&batch).await?;
        writer.flush().await?;
        drop(reservations);
        batch.clear();
        if batch.capacity() > 2 * BATCH {
            batch = BytesMut::new();
        }
    }
    writer.shutdown().await
}

/// A line break between the values of JSON is white space; within them there is none.
fn push_line(batch: &mut BytesMut, message: String) {
    let mut line = message.into_bytes();
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    batch.extend_from_slice(&line);
    batch.extend_from_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T-40
    #[test]
    fn a_message_is_one_line_also_if_its_result_was_written_on_several() {
        let mut batch = BytesMut::new();
        push_line(&mut batch, "{\r\n \"a\":\"\\n\"\n}".to_owned());
        assert_eq!(&batch[..], b"{   \"a\":\"\\n\" }\n");
    }
}
