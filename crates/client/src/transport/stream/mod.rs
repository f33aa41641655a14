//! Messages over a pair of byte streams, a line each.
#![expect(clippy::disallowed_methods, reason = "real pipes and processes are not simulated")]

pub(crate) mod demultiplexer;
pub(crate) mod lines;
pub(crate) mod open_requests;
pub(crate) mod recipient;
pub(crate) mod unframed;
pub(crate) mod unreadable;

use crate::{
    RequestError,
    address::masked_address,
    error::excerpt,
    transport::{
        Outgoing, Reply, Transport,
        batch::{is_meant_as_batch, messages},
        stream::{
            demultiplexer::{Demultiplexer, head},
            lines::{Line, Lines},
            open_requests::StreamEnd,
            unframed::{Within, is_complete, messages_in},
        },
    },
};
use http::HeaderMap;
use longhaul_core::{BYTE_ORDER_MARK, BoxFuture};
use longhaul_wire::Message;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The messages that wait to be written. A sender waits for a free place.
const MAX_UNSENT: usize = 16;

/// A [`Transport`] over a reader and a writer, such as a pipe or a Unix socket: JSON-RPC messages, one per line.
///
/// It ends when the reader ends, and cannot be used again. Dropping it closes the writer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use longhaul_client::{Connection, Options, StreamTransport};
/// let (client_end, _server_end) = tokio::io::duplex(64 * 1024);
/// let (reader, writer) = tokio::io::split(client_end);
/// let options = Options::named("example", "1.0");
/// let transport = StreamTransport::new("a test", reader, writer, options.max_response);
/// let connection = Connection::over(transport, options);
/// # drop(connection); }
/// ```
pub struct StreamTransport {
    address: String,
    demultiplexer: Arc<Demultiplexer>,
    unsent: mpsc::Sender<String>,
    _reading: DropGuard,
}

impl StreamTransport {
    /// A transport over these streams. `address` is what error messages call the server. A message of more than `max_message` bytes is
    /// dropped, and its request fails.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new<R, W>(address: impl Into<String>, reader: R, writer: W, max_message: usize) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let ended = async { StreamEnd::from("it closed the connection") };
        Self::with_end(address.into(), reader, writer, max_message, ended)
    }

    /// As [`new`](Self::new); `ended` finds out why the reader has ended.
    pub(crate) fn with_end<R, W>(
        address: String,
        reader: R,
        writer: W,
        max_message: usize,
        ended: impl Future<Output = StreamEnd> + Send + 'static,
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let demultiplexer = Demultiplexer::new(masked_address(&address));
        let (unsent, lines) = mpsc::channel(MAX_UNSENT);
        let dropped = CancellationToken::new();
        tokio::spawn(write(lines, writer));
        let probes = unsent.clone().downgrade();
        let reading = {
            let demultiplexer = Arc::clone(&demultiplexer);
            async move {
                let mut remark = None;
                let mut end = match read(reader, &demultiplexer, max_message, &mut remark, &probes).await {
                    Some(reason) => StreamEnd::from(reason),
                    None => ended.await,
                };
                end.reason.push_str(&remark.unwrap_or_default());
                demultiplexer.end(end);
            }
        };
        tokio::spawn(dropped.clone().run_until_cancelled_owned(reading));
        Self {
            address,
            demultiplexer,
            unsent,
            _reading: dropped.drop_guard(),
        }
    }
}

impl Transport for StreamTransport {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            let reply = match message.id {
                Some(id) => self.demultiplexer.open(id, watches(&message.body))?,
                None => {
                    self.demultiplexer.note_sent(&message.body);
                    Reply::empty()
                }
            };
            // If the writer has ended, the reader ends, too, and says why.
            let _ = self.unsent.send(message.body).await;
            Ok(reply.within(message.timeout, &masked_address(&self.address)))
        })
    }

    fn listen(&self, _: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        let reply = self.demultiplexer.listen().map(Some);
        Box::pin(std::future::ready(reply))
    }

    fn close(&self, _: HeaderMap) -> BoxFuture<'_, ()> {
        self.demultiplexer.end("the connection was closed".into());
        Box::pin(std::future::ready(()))
    }

    fn is_session(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.demultiplexer.has_ended()
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// Whether the request is answered only when its client does not want to watch something any more.
fn watches(request: &str) -> bool {
    head(request).contains(r#""method":"subscriptions/listen""#)
}

/// Writes each message as a line, and closes the writer when the transport is dropped.
async fn write(mut lines: mpsc::Receiver<String>, mut writer: impl AsyncWrite + Unpin) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// How long a server may take to send its first message, once it has written a line that is none: it may load something first. What installs a server first (`npx`,
/// `uvx`) writes to standard error and may take minutes, so one that writes nothing has no such limit.
const AFTER_FOREIGN_LINE: Duration = Duration::from_secs(30);

/// How long a probe may take that is sent when it is not known which request was answered. A server that does one thing at a time answers it after its calls.
const LONGEST_PROBE: Duration = Duration::from_secs(600);

/// Reads messages up to the end. Returns why it stopped earlier, if it did. `remark` is what is known of the server then: that its first line is no message, until
/// there is a message, or that it ended within one.
async fn read(
    reader: impl AsyncRead + Unpin,
    to: &Demultiplexer,
    max_message: usize,
    remark: &mut Option<String>,
    probes: &mpsc::WeakSender<String>,
) -> Option<String> {
    let (mut has_spoken, mut late) = (false, std::pin::pin!(tokio::time::sleep(Duration::MAX)));
    let mut unanswered = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    let mut lines = Lines::of_at_most(reader, max_message);
    loop {
        let settles_at = to.settles_at();
        let line = tokio::select! {
            biased;
            // First, since there may always be another line.
            () = &mut late, if remark.is_some() => {
                return Some(format!("it sent no message within {} s", AFTER_FOREIGN_LINE.as_secs()));
            }
            () = &mut unanswered, if to.is_in_doubt() => {
                to.end_doubt();
                continue;
            }
            line = lines.next(|text| is_complete(text) || is_message(text) || to.is_ended_by(text)) => line.ok().flatten()?,
            () = reached(settles_at) => {
                to.settle(lines.is_within_line());
                continue;
            }
        };
        let probe = match line {
            // The server ended while it wrote this.
            Line::Rest(rest) if is_cut(&rest) => {
                tracing::debug!(bytes = rest.len(), "the last message of a server was cut");
                remark.get_or_insert_with(|| "; it ended while it wrote a message".to_owned());
                return None;
            }
            Line::Whole(line) | Line::Rest(line) => {
                // Its indentation tells whether it is within an object.
                let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line).trim_ascii_end();
                if line.is_empty() {
                    continue;
                }
                if !has_spoken {
                    has_spoken = is_message(line) || has_message(line);
                    match (has_spoken, &remark) {
                        (true, _) => *remark = None,
                        (false, Some(_)) => {}
                        (false, None) => {
                            let line = excerpt(&String::from_utf8_lossy(line)).into_owned();
                            *remark = Some(format!("; it speaks no MCP: the first line of its output is {line:?}"));
                            late.as_mut().reset(tokio::time::Instant::now() + AFTER_FOREIGN_LINE);
                        }
                    }
                }
                to.deliver(line.to_vec())
            }
            Line::TooLong(ends) => to.too_large(&ends, max_message),
        };
        if let Some(probe) = probe
            && let Some(probes) = probes.upgrade()
        {
            unanswered.as_mut().reset(tokio::time::Instant::now() + LONGEST_PROBE);
            // Not here: a server may wait until what it writes is read.
            tokio::spawn(async move { probes.send(probe).await });
        }
    }
}

/// Waits until then; for ever without a time.
async fn reached(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Whether a line is a message, or a batch with one.
fn is_message(line: &[u8]) -> bool {
    messages(line.trim_ascii().to_vec())
        .iter()
        .any(|message| Message::parse(message).is_ok())
}

/// Whether this is the beginning of a message.
fn is_cut(rest: &[u8]) -> bool {
    let begins = rest.trim_ascii_start().starts_with(b"{") || is_meant_as_batch(rest);
    begins && !is_message(rest) && !has_message(rest)
}

/// Whether there is a message in a line that is none.
fn has_message(line: &[u8]) -> bool {
    matches!(messages_in(line), Within::Messages(..) | Within::Mentioned(_))
}
