//! The HTTP transport: one POST per message, and the messages in its response.

use crate::{RequestError, RpcFailure, address::Address, error::is_transient_status, rpc_failure::read_failure};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use http::{HeaderMap, HeaderValue, header};
use longhaul_core::Millis;
use longhaul_wire::Message;
use reqwest::Response;
use sse_stream::SseByteStream;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A server that accepts no connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The bytes of an error body that are read: enough for a JSON-RPC error. The rest is ignored.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The bytes of an error body that are shown.
const MAX_SHOWN_BODY: usize = 300;

pub(crate) const SESSION_ID: &str = "mcp-session-id";

/// An HTTP client for one address.
#[derive(Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    address: Address,
    max_response: usize,
}

/// A message to be sent.
pub(crate) struct Post {
    pub(crate) body: String,
    /// The headers of MCP. Those that every POST has are added.
    pub(crate) headers: HeaderMap,
    /// Covers the request up to the last byte of its response; `None` for a call that may run for days.
    pub(crate) timeout: Option<Duration>,
}

/// The HTTP response: a status, and messages as they arrive.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
    body: Body,
}

enum Body {
    /// No message, or none left.
    Empty,
    /// A single JSON message.
    Json(Vec<u8>),
    /// Server-sent events, one message each.
    Events(Events),
}

struct Events {
    stream: SseByteStream<BoxStream<'static, Result<Bytes, RequestError>>>,
    /// Bytes since the last event, to limit the size of an event.
    pending: Arc<AtomicUsize>,
}

impl Http {
    pub(crate) fn new(address: Address, max_response: usize) -> Self {
        let client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect could send arguments to another host than the user named.
            .redirect(reqwest::redirect::Policy::none())
            // A proxy named by the environment would not reach a server on loopback, and would see the arguments of calls.
            .no_proxy()
            .build();
        // Building fails only for TLS and DNS settings, and none are used.
        Self {
            client: client.unwrap_or_default(),
            address,
            max_response,
        }
    }

    /// Sends `post` and reads the head of the response. A JSON body is read whole; a stream is read by [`Reply::next`].
    pub(crate) async fn send(&self, post: Post) -> Result<Reply, RequestError> {
        let mut request = self
            .client
            .post(self.address.url().clone())
            .headers(post.headers)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(post.body);
        if let Some(timeout) = post.timeout {
            request = request.timeout(timeout);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.reply(response).await
    }

    /// Ends a legacy session (T-14). A server may refuse that, so a failure is only logged.
    pub(crate) async fn delete(&self, headers: HeaderMap, timeout: Duration) {
        let request = self
            .client
            .delete(self.address.url().clone())
            .headers(headers)
            .timeout(timeout);
        if let Err(error) = request.send().await {
            tracing::debug!(%error, "could not end the session");
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    async fn reply(&self, mut response: Response) -> Result<Reply, RequestError> {
        let status = response.status().as_u16();
        let session = response.headers().get(SESSION_ID).cloned();
        let body = match content_type(&response) {
            "text/event-stream" if status == 200 => Body::Events(self.events(response)),
            "application/json" if !is_transient_status(status) && !matches!(status, 401 | 403) => {
                Body::Json(self.read_whole(&mut response).await?)
            }
            _ if matches!(status, 200..=299) => Body::Empty,
            _ => return Err(self.read_error(response).await),
        };
        Ok(Reply { status, session, body })
    }

    fn events(&self, response: Response) -> Events {
        let pending = Arc::new(AtomicUsize::new(0));
        let (seen, limit, address) = (pending.clone(), self.max_response, self.address.to_string());
        let chunks = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| unreachable_error(&address, &error))?;
            if seen.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len() > limit {
                return Err(RequestError::TooLarge { limit });
            }
            Ok(chunk)
        });
        Events {
            stream: SseByteStream::new(chunks.boxed()),
            pending,
        }
    }

    async fn read_whole(&self, response: &mut Response) -> Result<Vec<u8>, RequestError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > self.max_response {
                return Err(RequestError::TooLarge {
                    limit: self.max_response,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Reads the error for a reply that holds no JSON-RPC message.
    async fn read_error(&self, mut response: Response) -> RequestError {
        let status = response.status().as_u16();
        let retry_after = retry_after(&response);
        let is_text = ["text/plain", "application/json"].contains(&content_type(&response));
        let mut body = Vec::new();
        while is_text && body.len() < MAX_ERROR_BODY {
            let Ok(Some(chunk)) = response.chunk().await else { break };
            body.extend_from_slice(&chunk);
        }
        body.truncate(MAX_ERROR_BODY);
        if let Some(failure) = rpc_failure(&body).filter(|_| is_transient_status(status)) {
            return RequestError::Unavailable {
                status,
                failure,
                retry_after,
            };
        }
        let body = String::from_utf8_lossy(&body);
        let shown = &body[..body.floor_char_boundary(MAX_SHOWN_BODY)];
        RequestError::Http {
            status,
            body: shown.trim().replace(char::is_control, " "),
            retry_after,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> RequestError {
        unreachable_error(&self.address.to_string(), error)
    }
}

/// The JSON-RPC error in a body, if there is one.
fn rpc_failure(body: &[u8]) -> Option<RpcFailure> {
    match Message::parse(body) {
        Ok(Message::Response(response)) => read_failure(response.outcome.err()?).ok(),
        _ => None,
    }
}

impl Reply {
    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        match &mut self.body {
            Body::Empty => Ok(None),
            Body::Json(message) => {
                let message = std::mem::take(message);
                self.body = Body::Empty;
                Ok(Some(message))
            }
            Body::Events(events) => events.next().await,
        }
    }
}

impl Events {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        while let Some(event) = self.stream.next().await {
            let event = event.map_err(stream_error)?;
            self.pending.store(0, Ordering::Relaxed);
            // A server may begin a stream with an event that has an id and no data (T-06).
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                return Ok(Some(data.into_bytes()));
            }
        }
        Ok(None)
    }
}

fn stream_error(error: sse_stream::Error) -> RequestError {
    match error {
        sse_stream::Error::Body(error) => match error.downcast::<RequestError>() {
            Ok(error) => *error,
            Err(error) => RequestError::Invalid(error.to_string()),
        },
        other => RequestError::Invalid(other.to_string()),
    }
}

fn content_type(response: &Response) -> &'static str {
    let value = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["application/json", "text/event-stream", "text/plain"]
        .into_iter()
        .find(|known| *known == essence)
        .unwrap_or("")
}

/// Reads `Retry-After` in seconds. Its date form is not supported.
fn retry_after(response: &Response) -> Option<Millis> {
    let seconds: Millis = response
        .headers()
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    seconds.checked_mul(1000)
}

fn unreachable_error(address: &str, error: &reqwest::Error) -> RequestError {
    // The outer errors only say that sending failed; the innermost one says why.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let reason = if error.is_timeout() {
        "it timed out".to_owned()
    } else {
        cause.to_string()
    };
    RequestError::Unreachable {
        address: address.to_owned(),
        reason,
    }
}
