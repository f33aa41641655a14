//! Transports: how messages reach a server and come back.

pub(crate) mod batch;
pub(crate) mod challenge;
pub(crate) mod child;
pub(crate) mod http;
pub(crate) mod jitter;
pub(crate) mod observed;
pub(crate) mod polling;
pub mod stderr;
pub(crate) mod stream;
pub(crate) mod stream_losses;

pub use child::{ChildOptions, ChildProcess, ChildSupervisor};
pub use http::tls::install_tls_provider;
pub use http::{
    Http,
    exchange::{HttpAnswer, HttpExchange},
};
pub(crate) use http::{PROTOCOL_VERSION, SESSION_ID};
pub(crate) use observed::ObservedTransport;
pub use stream::StreamTransport;

use crate::{RequestError, error::excerpt};
use ::http::{HeaderMap, HeaderValue};
use futures_util::{StreamExt, stream::BoxStream};
use longhaul_core::BoxFuture;
use longhaul_wire::Batch;
use std::{collections::VecDeque, time::Duration};

/// Carries JSON-RPC messages to one server. [`Connection`](crate::Connection) does the rest: it detects the era, numbers requests, and serves the
/// requests of the server.
///
/// The crate has one for HTTP ([`Connection::open`](crate::Connection::open)), one for a child process ([`ChildProcess`]) and one for a pair of
/// byte streams ([`StreamTransport`]). Implement it for another one and pass it to [`Connection::over`](crate::Connection::over).
///
/// A transport over HTTP also says with which status and in which session a server has answered, by [`Reply::with_head`]: without it a legacy server's session
/// is never used, and never found to have ended. This one sends through an HTTP client of the application, to servers that answer with JSON:
///
/// ```
/// use futures_util::FutureExt;
/// use longhaul_client::{BoxFuture, HeaderMap, Outgoing, Reply, RequestError, Transport};
///
/// /// The application's client: the status, the headers and the body of the answer to a POST.
/// trait HttpClient: Send + Sync + 'static {
///     fn post(&self, url: &str, headers: HeaderMap, body: String) -> BoxFuture<'_, std::io::Result<(u16, HeaderMap, Vec<u8>)>>;
/// }
///
/// struct OwnHttp<C> {
///     client: C,
///     url: String,
/// }
///
/// impl<C: HttpClient> Transport for OwnHttp<C> {
///     fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
///         async move {
///             // These have the session and the revision already.
///             let mut headers = message.headers;
///             headers.insert("content-type", "application/json".parse().unwrap());
///             headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
///             let sent = self.client.post(&self.url, headers, message.body).await;
///             let (status, headers, body) = sent.map_err(|error| RequestError::Unreachable {
///                 address: self.url.clone(),
///                 reason: error.to_string(),
///                 stderr: None,
///                 connected: true,
///             })?;
///             let is_json = headers.get("content-type").is_some_and(|kind| kind == "application/json");
///             let reply = match status {
///                 _ if is_json => Reply::message(body),
///                 200..=299 => Reply::empty(),
///                 _ => {
///                     let body = String::from_utf8_lossy(&body).into_owned();
///                     return Err(RequestError::Http { status, body, retry_after: None });
///                 }
///             };
///             Ok(reply.with_head(status, headers.get("mcp-session-id").cloned()))
///         }
///         .boxed()
///     }
///
///     fn listen(&self, _headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
///         // It opens no push stream.
///         std::future::ready(Ok(None)).boxed()
///     }
///
///     fn close(&self, _headers: HeaderMap) -> BoxFuture<'_, ()> {
///         // One that can would send a DELETE with these headers, which ends the session.
///         std::future::ready(()).boxed()
///     }
///
///     fn is_session(&self) -> bool {
///         false
///     }
///
///     fn address(&self) -> &str {
///         &self.url
///     }
/// }
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Sends a message. The reply of a request ends with its response.
    ///
    /// # Errors
    /// [`RequestError::Unreachable`] if the server cannot be reached; [`RequestError::TimedOut`] if the time of the message is over, and the server still
    /// there. The message may or may not have been sent.
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>>;

    /// Opens the stream of messages that belong to no request of ours. `None` if there is none.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>>;

    /// Changes to an older way of carrying messages, if the server has one. Called when the server has refused every handshake, and when the session has
    /// ended. Returns whether the handshake is worth another try; the default is that it is not.
    ///
    /// # Errors
    /// Any [`RequestError`].
    fn fall_back(&self) -> BoxFuture<'_, Result<bool, RequestError>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Ends the session or the connection. Failures are not reported.
    fn close(&self, headers: HeaderMap) -> BoxFuture<'_, ()>;

    /// Whether the transport is itself the session, as a pipe is: if it breaks, there is a new one, and the handshake is made again.
    fn is_session(&self) -> bool;

    /// Whether the session that this transport is has ended, so that the next request needs a new handshake. The default is that it has not.
    fn has_ended(&self) -> bool {
        false
    }

    /// The server's address or command, for people. If the transport is no session, another one with this address is taken to reach the same server.
    fn address(&self) -> &str;
}

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The JSON-RPC message, without line breaks.
    pub body: String,
    /// The id of a request; `None` for a notification or a response.
    pub id: Option<u64>,
    /// The HTTP headers of MCP. Other transports ignore them.
    pub headers: HeaderMap,
    /// The time up to the last byte of the reply; `None` for a call that may run for days.
    pub timeout: Option<Duration>,
}

/// What a server sent in return: messages as they arrive.
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
    /// Whether this is all that the server sent, so that the response is in it or does not come.
    pub(crate) is_whole: bool,
    messages: BoxStream<'static, Result<Vec<u8>, RequestError>>,
    /// The messages of a batch that were not read yet.
    unread: VecDeque<Vec<u8>>,
}

impl Reply {
    /// The messages that belong to a request, up to its response; or all messages, for [`Transport::listen`].
    pub fn new(messages: BoxStream<'static, Result<Vec<u8>, RequestError>>) -> Self {
        Self {
            status: 200,
            session: None,
            is_whole: false,
            messages,
            unread: VecDeque::new(),
        }
    }

    /// No message: that of a notification or a response.
    pub fn empty() -> Self {
        Self::new(futures_util::stream::empty().boxed())
    }

    /// One message, which is the whole body of an answer: if it is not the response to the request, there is none.
    pub fn message(message: Vec<u8>) -> Self {
        Self {
            is_whole: true,
            ..Self::new(futures_util::stream::once(std::future::ready(Ok(message))).boxed())
        }
    }

    /// The same messages, each shown to `observe` when it is read.
    #[must_use]
    pub fn inspect(self, observe: impl FnMut(&Result<Vec<u8>, RequestError>) + Send + 'static) -> Self {
        Self {
            messages: self.messages.inspect(observe).boxed(),
            ..self
        }
    }

    /// The same messages, until the time is over.
    #[expect(clippy::disallowed_methods, reason = "real pipes are not simulated")]
    pub(crate) fn within(self, limit: Option<Duration>, address: &str) -> Self {
        let Some(limit) = limit else { return self };
        let late = RequestError::TimedOut {
            address: address.to_owned(),
        };
        // Nothing is read behind the response, so the end is reached only without it.
        let messages = self.messages.take_until(tokio::time::sleep(limit));
        let messages = messages.chain(futures_util::stream::once(std::future::ready(Err(late))));
        Self {
            messages: messages.boxed(),
            ..self
        }
    }

    /// The same reply, with the HTTP status that it came with and the session that it names in `Mcp-Session-Id`. By them the connection knows in which session
    /// it is, whether that has ended, and which era the server is of. Without this the status is 200, and there is no session.
    ///
    /// A status that is no 2xx needs this only if the body is a JSON-RPC message; otherwise the reply is the error [`RequestError::Http`].
    #[must_use]
    pub fn with_head(self, status: u16, session: Option<HeaderValue>) -> Self {
        Self {
            status,
            session,
            ..self
        }
    }

    /// Whether the server has accepted a notification or a response.
    ///
    /// # Errors
    /// [`RequestError::Http`] with another status than 2xx.
    pub(crate) async fn ensure_accepted(mut self) -> Result<(), RequestError> {
        if matches!(self.status, 200..=299) {
            return Ok(());
        }
        let refusal = self.next().await?.unwrap_or_default();
        Err(RequestError::Http {
            status: self.status,
            body: excerpt(&String::from_utf8_lossy(&refusal)).into_owned(),
            retry_after: None,
        })
    }

    /// The next message; `None` at the end. Those of a batch come one by one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        if let Some(message) = self.unread.pop_front() {
            return Ok(Some(message));
        }
        match self.messages.next().await.transpose()? {
            Some(received) if Batch::is_batch(&received) => {
                self.unread.extend(batch::messages(received));
                Ok(self.unread.pop_front())
            }
            one => Ok(one),
        }
    }
}
