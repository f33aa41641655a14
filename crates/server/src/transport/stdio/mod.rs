//! MCP over a stream of bytes, one message a line: standard input and output, or a socket that stands for them.
//!
//! Nothing is fatal: a line that is no message is answered with an error, one that is too long is skipped to its end.

mod lines;
#[cfg(unix)]
mod socket;

#[cfg(unix)]
pub use socket::{OwnerSocket, connect};

pub use crate::admission::handoff::HANDOFF_NOTIFICATION;

use crate::{
    admission::identity::Identity,
    transport::{
        connection::{self, Received, Transport},
        protocol_server::ProtocolServer,
    },
};
use bytes::BytesMut;
use lines::{Line, Lines};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::Mutex,
};

/// The longest line: 16 MiB.
pub const MAX_LINE: usize = 16 << 20;
/// A larger buffer is not kept for the next messages.
const KEPT_BUFFER: usize = 128 * 1024;

/// Serves one connection of this user, as [`serve`](crate::serve) does.
///
/// ```no_run
/// # async fn example(protocol: std::sync::Arc<longhaul_server::ProtocolServer>) -> std::io::Result<()> {
/// longhaul_server::stdio::serve(protocol, tokio::io::stdin(), tokio::io::stdout()).await
/// # }
/// ```
///
/// # Errors
/// If reading or writing fails. A client that no longer reads has left, which is no error.
pub async fn serve(
    protocol: Arc<ProtocolServer>,
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin,
) -> io::Result<()> {
    let transport = LineTransport {
        lines: Mutex::new(Lines::new(reader, MAX_LINE)),
        output: Mutex::new(Output {
            writer,
            buffer: BytesMut::new(),
        }),
    };
    connection::serve(protocol, transport).await
}

/// Messages as lines.
struct LineTransport<R, W> {
    lines: Mutex<Lines<R>>,
    output: Mutex<Output<W>>,
}

struct Output<W> {
    writer: W,
    buffer: BytesMut,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin> Transport for LineTransport<R, W> {
    async fn receive(&self) -> io::Result<Received> {
        Ok(match self.lines.lock().await.next().await? {
            Some(Line::Message(bytes)) => Received::Message(bytes),
            Some(Line::TooLong) => Received::TooLong(MAX_LINE),
            None => Received::Closed,
        })
    }

    async fn send(&self, messages: Vec<String>) -> io::Result<()> {
        let Output { writer, buffer } = &mut *self.output.lock().await;
        for message in messages {
            push_line(buffer, message);
        }
        writer.write_all(buffer).await?;
        writer.flush().await?;
        buffer.clear();
        if buffer.capacity() > KEPT_BUFFER {
            *buffer = BytesMut::new();
        }
        Ok(())
    }

    async fn close(&self) -> io::Result<()> {
        self.output.lock().await.writer.shutdown().await
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        Some(Arc::new(Identity::same_user()))
    }
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

    #[test]
    fn a_message_is_one_line_also_if_its_result_was_written_on_several() {
        let mut batch = BytesMut::new();
        push_line(&mut batch, "{\r\n \"a\":\"\\n\"\n}".to_owned());
        assert_eq!(&batch[..], b"{   \"a\":\"\\n\" }\n");
    }
}
