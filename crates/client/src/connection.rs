//! A server, and requests to it.

use crate::{
    Address, InvalidAddress, RequestError, RpcFailure, SystemClock, TaskHandle,
    era::{self, ClientInfo, Era, excerpt},
    http::{Http, Post, Reply},
    ports::Dice,
    probe,
};
use http::{HeaderMap, HeaderValue};
use longhaul_core::{Clock, Json, Millis};
use longhaul_wire::{Message, Method, json as wire_json, jsonrpc::Notification};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// How a connection behaves. Start from [`Options::named`] and change what you need.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    pub(crate) client: ClientInfo,
    /// Longest time for one short request (everything but `tools/call`), from the first byte out to the last byte in.
    /// 30 seconds.
    pub request_timeout: Duration,
    /// Longest time for `tools/call`, which may run to its end before it is answered. None.
    pub call_timeout: Option<Duration>,
    /// Largest answer, in bytes. 64 MiB.
    pub max_response: usize,
    /// What waits between polls.
    pub clock: Arc<dyn Clock>,
    /// Fixes the jitter between polls, for tests that want the same waits each time.
    pub jitter_seed: Option<u64>,
}

impl Options {
    /// The defaults, for a client that calls itself `name` in `version`.
    pub fn named(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            client: ClientInfo {
                name: name.into(),
                version: version.into(),
            },
            request_timeout: Duration::from_secs(30),
            call_timeout: None,
            max_response: 64 << 20,
            clock: Arc::new(SystemClock),
            jitter_seed: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// A server at an address. Cheap to clone; all clones share what is known of the server.
///
/// Nothing is held open between requests but idle sockets, so a server may go and come back in between.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

struct Shared {
    http: Http,
    options: Options,
    /// `None` until the first request, and again when the server no longer behaves as it was known to.
    era: Mutex<Option<Arc<Era>>>,
    next_id: AtomicU64,
    dice: Dice,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) outcome: Result<Json, RpcFailure>,
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
}

/// A request of ours before it is dressed for an era.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) params: Map<String, Value>,
    /// Headers of the modern era that follow from the request's meaning.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Option<Duration>,
}

/// What else may arrive on the stream of a request.
pub(crate) type OnNotification<'a> = &'a mut (dyn FnMut(Notification<'_>) + Send);

impl Connection {
    /// Knows the address and asks nothing yet: the server's era is found out with the first request. For a server that may
    /// be down at the moment.
    ///
    /// # Errors
    /// [`InvalidAddress`] when `url` is no `http://` URL.
    pub fn lazy(url: &str, options: Options) -> Result<Self, InvalidAddress> {
        let address: Address = url.parse()?;
        Ok(Self(Arc::new(Shared {
            http: Http::new(address, options.max_response),
            era: Mutex::new(None),
            next_id: AtomicU64::new(1),
            dice: Dice::new(options.jitter_seed),
            options,
        })))
    }

    /// Reaches the server and finds out its era.
    ///
    /// # Errors
    /// [`OpenError`] when `url` is no `http://` URL, or no MCP server answers there.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let connection = Self::lazy(url, options)?;
        connection.era().await?;
        Ok(connection)
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        self.0.http.address()
    }

    /// A task of that server by its id, however the id was come by. Nothing is asked yet.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), id.into(), None)
    }

    /// Ends a legacy session, if there is one; its tasks live on. A modern server has nothing to end.
    pub async fn close(self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let era = self.0.era.lock().await.take();
        if let Some(legacy) = era
            .as_deref()
            .and_then(Era::legacy)
            .filter(|legacy| legacy.session.is_some())
        {
            self.0.http.delete(legacy.headers(), PATIENCE).await;
        }
    }

    /// The era, probed if it is not known.
    pub(crate) async fn era(&self) -> Result<Arc<Era>, RequestError> {
        let mut known = self.0.era.lock().await;
        if let Some(era) = &*known {
            return Ok(era.clone());
        }
        let era = Arc::new(probe::probe(&self.0.http, &self.0.options, &mut || self.next_id()).await?);
        tracing::debug!(?era, "connected");
        *known = Some(era.clone());
        Ok(era)
    }

    /// Sends a short request and returns its result.
    pub(crate) async fn request(&self, method: Method, params: Map<String, Value>) -> Result<Json, RequestError> {
        let request = Request {
            method,
            params,
            headers: HeaderMap::new(),
            timeout: Some(self.0.options.request_timeout),
        };
        let dress = |_: &Era| Request {
            headers: request.headers.clone(),
            params: request.params.clone(),
            ..request
        };
        self.exchange(dress, &mut |_| {}).await.map(|(result, _)| result)
    }

    /// Sends what `dress` makes of the server's era and returns the result with that era. A server that has lost our session,
    /// or was replaced by one of the other era, did not process the request (C-35); it is probed again and asked once more.
    pub(crate) async fn exchange(
        &self,
        dress: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let era = self.era().await?;
        let first = self.attempt(&era, dress(&era), on_notification).await;
        if !lost_touch(&era, &first) {
            return finish(first, era);
        }
        tracing::debug!("the server no longer knows us; starting over");
        self.forget(&era).await;
        let era = self.era().await?;
        let second = self.attempt(&era, dress(&era), on_notification).await;
        finish(second, era)
    }

    async fn attempt(
        &self,
        era: &Era,
        mut request: Request,
        on_notification: OnNotification<'_>,
    ) -> Result<Answer, RequestError> {
        let id = self.next_id();
        era.complete(&mut request.params, &self.0.options.client);
        let mut headers = era.headers(request.method, &request.params);
        if era.legacy().is_none() {
            headers.extend(request.headers);
        }
        let body = era::message(request.method, Some(id), request.params);
        let mut reply = self
            .0
            .http
            .send(Post {
                body,
                headers,
                timeout: request.timeout,
            })
            .await?;
        self.listen(era, &mut reply, id, on_notification).await
    }

    /// Reads a reply up to the answer; what a legacy server asks meanwhile is declined.
    async fn listen(
        &self,
        era: &Era,
        reply: &mut Reply,
        id: u64,
        on_notification: OnNotification<'_>,
    ) -> Result<Answer, RequestError> {
        loop {
            match read_message(reply, id, on_notification).await? {
                Incoming::Answer(answer) => return Ok(answer),
                Incoming::Question(response) => {
                    if let Some(legacy) = era.legacy() {
                        let timeout = Some(self.0.options.request_timeout);
                        self.0
                            .http
                            .send(Post {
                                body: response,
                                headers: legacy.headers(),
                                timeout,
                            })
                            .await?;
                    }
                }
            }
        }
    }

    /// Forgets the era, unless somebody else found out a newer one already.
    async fn forget(&self, stale: &Arc<Era>) {
        let mut known = self.0.era.lock().await;
        if known.as_ref().is_some_and(|era| Arc::ptr_eq(era, stale)) {
            *known = None;
        }
    }

    /// A number that no other request of this connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Waits by the connection's clock.
    pub(crate) async fn sleep(&self, wait: Millis) {
        self.0.options.clock.sleep(Duration::from_millis(wait)).await;
    }

    /// A number from 0 to 1.
    pub(crate) fn chance(&self) -> f64 {
        self.0.dice.roll()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.address())
    }
}

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The server did not answer, or not as an MCP server.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Whether the answer says that the server is not, or no longer, the one we probed.
fn lost_touch(era: &Era, answer: &Result<Answer, RequestError>) -> bool {
    let (status, code) = match answer {
        Ok(answer) => (answer.status, answer.outcome.as_ref().err().map(|failure| failure.code)),
        Err(RequestError::Http { status, .. }) => (*status, None),
        Err(_) => return false,
    };
    match era {
        // T-13: our session is unknown or over.
        Era::Legacy(legacy) => status == 404 && legacy.session.is_some(),
        // What a legacy server says to a request without a session.
        Era::Modern => matches!(status, 400 | 404 | 405) && !code.is_some_and(is_modern_answer),
    }
}

/// The codes a modern server may send with status 400 or 404 (T-28).
fn is_modern_answer(code: i32) -> bool {
    probe::MODERN_CODES.contains(&code) || matches!(code, -32700 | -32603..=-32600)
}

fn finish(answer: Result<Answer, RequestError>, era: Arc<Era>) -> Result<(Json, Arc<Era>), RequestError> {
    Ok((answer?.outcome.map_err(RequestError::Rpc)?, era))
}

enum Incoming {
    Answer(Answer),
    /// A request of the server's, already turned into the response that declines it.
    Question(String),
}

/// Reads a reply up to the answer to request `id`, ignoring whatever a server asks meanwhile.
pub(crate) async fn read_answer(
    reply: &mut Reply,
    id: u64,
    on_notification: OnNotification<'_>,
) -> Result<Answer, RequestError> {
    loop {
        if let Incoming::Answer(answer) = read_message(reply, id, on_notification).await? {
            return Ok(answer);
        }
    }
}

async fn read_message(
    reply: &mut Reply,
    id: u64,
    on_notification: OnNotification<'_>,
) -> Result<Incoming, RequestError> {
    while let Some(bytes) = reply.next().await? {
        let message = Message::parse(&bytes).map_err(|refusal| {
            let shown = String::from_utf8_lossy(&bytes);
            RequestError::Invalid(format!(
                "{} (HTTP status {}): {}",
                refusal.error,
                reply.status,
                excerpt(&shown)
            ))
        })?;
        match message {
            Message::Response(response) if response.id.is_none_or(|given| given.as_json() == id.to_string()) => {
                let outcome = match response.outcome {
                    Ok(result) => Ok(Json::from(result)),
                    Err(error) => Err(read_failure(error)?),
                };
                return Ok(Incoming::Answer(Answer {
                    outcome,
                    status: reply.status,
                    session: reply.session.clone(),
                }));
            }
            Message::Response(_) => tracing::debug!("an answer to nobody's request was dropped"),
            Message::Notification(notification) => on_notification(notification),
            Message::Request(request) => {
                let id = request.id.as_json();
                return Ok(Incoming::Question(decline(id, &request.method)));
            }
        }
    }
    match reply.status {
        // A connection that closes without an answer looks the same whether the server died or meant it.
        200 => Err(RequestError::Unreachable {
            address: "the server".to_owned(),
            reason: "it hung up before it answered".to_owned(),
        }),
        status => Err(RequestError::Http {
            status,
            body: "no answer".to_owned(),
            retry_after: None,
        }),
    }
}

/// The response to a server's request: ping is answered, everything else was never offered.
fn decline(id: &str, method: &str) -> String {
    if method == Method::Ping.as_str() {
        return format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    }
    let mut message = String::new();
    wire_json::push_string(&mut message, &format!("This client does not offer {method}"));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":{message}}}}}"#)
}

/// Reads a JSON-RPC error object.
pub(crate) fn read_failure(raw: &RawValue) -> Result<RpcFailure, RequestError> {
    #[derive(Deserialize)]
    struct Failure<'a> {
        code: i64,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let failure: Failure<'_> =
        serde_json::from_str(raw.get()).map_err(|error| RequestError::Invalid(format!("its error object: {error}")))?;
    Ok(RpcFailure {
        // A code beyond 32 bits means nothing to anybody; an internal error is what is left of it.
        code: i32::try_from(failure.code).unwrap_or(-32603),
        message: failure.message.into(),
        data: failure.data.map(Json::from),
    })
}
