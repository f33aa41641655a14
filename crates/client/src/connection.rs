//! The connection to a server.

use crate::{
    Address, InvalidAddress, Options, RequestError,
    era::{self, Era},
    http::{Http, Post, Reply},
    jitter::Jitter,
    probe,
    response::{Incoming, OnNotification, RpcResponse, read_message},
};
use http::HeaderMap;
use longhaul_core::{Json, Millis};
use longhaul_wire::Method;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// A connection to a server. Cheap to clone; all clones share the era and the session.
///
/// Between requests only idle sockets are kept open, so the server may restart at any time.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

struct Shared {
    http: Http,
    options: Options,
    /// `None` until the first request, and again when the server has changed its era or lost the session.
    era: Mutex<Option<Arc<Era>>>,
    next_id: AtomicU64,
    jitter: Jitter,
}

/// A request without what its era adds.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) params: Map<String, Value>,
    /// Headers that only a modern server gets.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Option<Duration>,
}

impl Connection {
    /// Creates a connection without sending anything: the era is detected with the first request. Use it for a server that may be
    /// down at the moment.
    ///
    /// # Errors
    /// [`InvalidAddress`] when `url` is not an `http://` URL.
    pub fn lazy(url: &str, options: Options) -> Result<Self, InvalidAddress> {
        let address: Address = url.parse()?;
        Ok(Self(Arc::new(Shared {
            http: Http::new(address, options.max_response),
            era: Mutex::new(None),
            next_id: AtomicU64::new(1),
            jitter: Jitter::new(options.jitter_seed),
            options,
        })))
    }

    /// Connects to the server and detects its era.
    ///
    /// # Errors
    /// [`OpenError`] when `url` is not an `http://` URL, or no MCP server answers there.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let connection = Self::lazy(url, options)?;
        connection.era().await?;
        Ok(connection)
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        self.0.http.address()
    }

    /// Ends the legacy session, if there is one. Its tasks keep running.
    pub async fn close(self) {
        const TIMEOUT: Duration = Duration::from_secs(2);
        let era = self.0.era.lock().await.take();
        if let Some(legacy) = era
            .as_deref()
            .and_then(Era::legacy)
            .filter(|legacy| legacy.session.is_some())
        {
            self.0.http.delete(legacy.headers(), TIMEOUT).await;
        }
    }

    /// The era. Probes the server if it is not known.
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
        let build = |_: &Era| Request {
            headers: request.headers.clone(),
            params: request.params.clone(),
            ..request
        };
        self.exchange(build, &mut |_| {}).await.map(|(result, _)| result)
    }

    /// Sends the request that `build` returns for the server's era, and returns the result with that era. A server that has lost the
    /// session, or was replaced by one of the other era, has not processed the request (C-35), so it is probed and asked once more.
    pub(crate) async fn exchange(
        &self,
        build: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let era = self.era().await?;
        let first = self.attempt(&era, build(&era), on_notification).await;
        if !must_probe_again(&era, &first) {
            return finish(first, era);
        }
        tracing::debug!("the server has lost the session or changed its era; probing it again");
        self.forget(&era).await;
        let era = self.era().await?;
        let second = self.attempt(&era, build(&era), on_notification).await;
        finish(second, era)
    }

    async fn attempt(
        &self,
        era: &Era,
        mut request: Request,
        on_notification: OnNotification<'_>,
    ) -> Result<RpcResponse, RequestError> {
        let id = self.next_id();
        era.add_meta(&mut request.params, &self.0.options.client);
        let mut headers = era.headers(request.method, &request.params);
        if era.legacy().is_none() {
            headers.extend(request.headers);
        }
        let body = era::build_message(request.method, Some(id), request.params);
        let mut reply = self
            .0
            .http
            .send(Post {
                body,
                headers,
                timeout: request.timeout,
            })
            .await?;
        self.read_response(era, &mut reply, id, on_notification).await
    }

    /// Reads a reply up to the response. Requests of a legacy server on the stream are declined.
    async fn read_response(
        &self,
        era: &Era,
        reply: &mut Reply,
        id: u64,
        on_notification: OnNotification<'_>,
    ) -> Result<RpcResponse, RequestError> {
        loop {
            match read_message(reply, id, on_notification).await? {
                Incoming::Response(response) => return Ok(response),
                Incoming::Declined(response) => {
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

    /// Forgets the era, unless another request has probed it again already.
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

    /// Sleeps by the connection's clock.
    pub(crate) async fn sleep(&self, wait: Millis) {
        self.0.options.clock.sleep(Duration::from_millis(wait)).await;
    }

    /// A random number from 0 to 1.
    pub(crate) fn jitter(&self) -> f64 {
        self.0.jitter.next()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.address())
    }
}

/// A connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The server did not answer, or is not an MCP server.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Whether the response shows that the server has lost the session or changed its era.
fn must_probe_again(era: &Era, response: &Result<RpcResponse, RequestError>) -> bool {
    let (status, code) = match response {
        Ok(response) => (
            response.status,
            response.outcome.as_ref().err().map(|failure| failure.code),
        ),
        Err(RequestError::Http { status, .. }) => (*status, None),
        Err(_) => return false,
    };
    match era {
        // The session is unknown or has ended (T-13).
        Era::Legacy(legacy) => status == 404 && legacy.session.is_some(),
        // A legacy server answers a request without a session in this way.
        Era::Modern => matches!(status, 400 | 404 | 405) && !code.is_some_and(is_modern_code),
    }
}

/// The codes a modern server may send with status 400 or 404 (T-28).
fn is_modern_code(code: i32) -> bool {
    probe::MODERN_CODES.contains(&code) || matches!(code, -32700 | -32603..=-32600)
}

fn finish(response: Result<RpcResponse, RequestError>, era: Arc<Era>) -> Result<(Json, Arc<Era>), RequestError> {
    Ok((response?.outcome.map_err(RequestError::Rpc)?, era))
}
