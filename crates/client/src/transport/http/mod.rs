//! The HTTP transport: one POST per message, and the messages in its response.

pub(crate) mod authorized;
pub(crate) mod exchange;
pub(crate) mod retry_after;
pub(crate) mod sse;
pub(crate) mod sse_pair;
pub(crate) mod tls;
pub(crate) mod unreachable;

use crate::{
    Options, RequestError, RpcFailure,
    address::{Address, masked_address},
    error::{excerpt, is_transient_status, rpc_failure::read_failure},
    transport::{
        Outgoing, Reply, Transport, challenge,
        http::{
            authorized::{AuthorizedClient, SendError},
            retry_after::retry_after,
            sse::{EventStream, Resume},
            sse_pair::SsePair,
            unreachable::unreachable,
        },
        stream_losses::StreamLosses,
    },
};
use futures_util::StreamExt;
use http::{HeaderMap, header};
use longhaul_core::{BYTE_ORDER_MARK, BoxFuture, Clock, Millis};
use longhaul_wire::{Generation, Message, Version};
use parking_lot::Mutex;
use reqwest::{
    Client, ClientBuilder, Response, StatusCode, Url,
    redirect::{Action, Attempt, Policy},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A server that accepts no connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server of 2024-11-05 says within this time where to post.
const LONGEST_OPENING: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How bodies are compressed (IANA, "HTTP Content Coding Registry").
const COMPRESSIONS: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];
/// The bytes of an error body that are read: enough for a JSON-RPC error. The rest is ignored.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The bytes of an error body that are shown.
const MAX_SHOWN_BODY: usize = 300;

pub(crate) const SESSION_ID: &str = "mcp-session-id";
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// The transport of [`Connection::open`](crate::Connection::open): an HTTP client for one address. It is public for transports that do something around it.
pub struct Http {
    /// Or why there is none.
    client: Result<AuthorizedClient, String>,
    /// What requests go through, for error messages.
    proxy: Option<String>,
    address: Address,
    /// The address as a text.
    text: String,
    /// The same without the secrets in it, for error messages.
    shown: String,
    /// Where the server has redirected to, if it has.
    redirected: Mutex<Option<Url>>,
    /// The session with a server of 2024-11-05.
    pair: Mutex<Option<Arc<SsePair>>>,
    request_timeout: Duration,
    max_response: usize,
    clock: Arc<dyn Clock>,
    losses: StreamLosses,
}

impl Http {
    /// A transport to this address, with the headers, tokens and time limits of the options. Nothing is sent.
    pub fn new(address: Address, options: &Options) -> Self {
        Self::watched(address, options, StreamLosses::default())
    }

    /// The same, which tells what becomes of its streams.
    pub(crate) fn watched(address: Address, options: &Options, losses: StreamLosses) -> Self {
        let (client, proxy) = match build_client(&address, options) {
            Ok((client, proxy)) => (
                Ok(AuthorizedClient::new(
                    client,
                    options.headers.clone(),
                    options.tokens.clone(),
                )),
                proxy,
            ),
            Err(reason) => (Err(reason), None),
        };
        Self {
            client,
            proxy,
            shown: masked_address(&address.to_string()),
            text: address.to_string(),
            address,
            redirected: Mutex::default(),
            pair: Mutex::default(),
            request_timeout: options.request_timeout,
            max_response: options.max_response,
            clock: Arc::clone(&options.clock),
            losses,
        }
    }

    fn client(&self) -> Result<&AuthorizedClient, RequestError> {
        self.client
            .as_ref()
            .map_err(|reason| RequestError::Setup(reason.clone()))
    }

    /// Where the server is.
    fn url(&self) -> Url {
        let redirected = self.redirected.lock();
        redirected.as_ref().unwrap_or(self.address.url()).clone()
    }

    /// Remembers a redirect, so that not every request makes two; and forgets it when nothing is there any more.
    fn note_location(&self, response: &Response) {
        let mut redirected = self.redirected.lock();
        match response.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => *redirected = None,
            status if !status.is_redirection() && response.url() != self.address.url() => {
                *redirected = Some(response.url().clone());
            }
            _ => {}
        }
    }

    fn pair(&self) -> Option<Arc<SsePair>> {
        self.pair.lock().clone()
    }

    /// Sends a message to a server of 2024-11-05. The reply comes on its stream.
    async fn send_to_pair(&self, pair: &SsePair, message: Outgoing) -> Result<Reply, RequestError> {
        let reply = pair.reply(&message)?;
        let client = self.client()?;
        let request = client
            .client()
            .post(pair.endpoint.clone())
            .headers(message.headers)
            .header(header::CONTENT_TYPE, "application/json")
            .timeout(self.request_timeout)
            .body(message.body);
        let response = client.send(request).await.map_err(|error| self.not_sent(error))?;
        if !response.status().is_success() {
            return Err(self.read_error(response).await);
        }
        Ok(reply.within(message.timeout, &self.shown))
    }

    async fn open_pair(&self) -> Result<Option<SsePair>, RequestError> {
        let client = self.client()?;
        let request = client
            .client()
            .get(self.url())
            .header(header::ACCEPT, "text/event-stream");
        let response = client.send(request).await.map_err(|error| self.not_sent(error))?;
        match (response.status().as_u16(), content_type(&response)) {
            (200, "text/event-stream") => SsePair::open(response, self.max_response, &self.shown).await,
            (status, _) if is_transient_status(status) => Err(self.read_error(response).await),
            _ => Ok(None),
        }
    }

    async fn reply(
        &self,
        mut response: Response,
        is_request: bool,
        resume: Option<Resume>,
    ) -> Result<Reply, RequestError> {
        let status = response.status().as_u16();
        if let Some(target) = redirect_target(&response) {
            let why = format!("it redirects to {target}, which is not followed");
            return Err(http_error(status, why.as_bytes(), None));
        }
        if let Some(encoding) = compression(response.headers()) {
            return Err(RequestError::Invalid(format!(
                "its body is encoded as {encoding:?}, which it was not asked for"
            )));
        }
        let session = response.headers().get(SESSION_ID).cloned();
        let reply = match content_type(&response) {
            "text/event-stream" if status == 200 => self.events(response, resume),
            "application/json" if !is_transient_status(status) && !matches!(status, 401 | 403) => {
                let body = self.read_whole(&mut response).await?;
                if !response.status().is_success() && Message::parse(&body).is_err() {
                    return Err(http_error(status, &body, None));
                }
                Reply::message(body)
            }
            _ if matches!(status, 200..=299) && is_request => {
                let content_type = response.headers().get(header::CONTENT_TYPE);
                let content_type = content_type.map_or("".into(), |value| String::from_utf8_lossy(value.as_bytes()));
                return Err(RequestError::Invalid(format!(
                    "HTTP status {status} without a response; its content type is {:?}",
                    excerpt(&content_type)
                )));
            }
            _ if matches!(status, 200..=299) => Reply::empty(),
            _ => return Err(self.read_error(response).await),
        };
        Ok(reply.with_head(status, session))
    }

    fn events(&self, response: Response, resume: Option<Resume>) -> Reply {
        let stream = EventStream::new(response, resume, self.max_response, self.shown.clone());
        let messages = futures_util::stream::unfold(stream, |mut stream| async move {
            Some((stream.next().await.transpose()?, stream))
        });
        Reply::new(messages.boxed())
    }

    /// How a stream of a legacy session is opened again where it broke off, until the time of its request is over.
    #[expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]
    fn resume(
        &self,
        client: &AuthorizedClient,
        headers: &HeaderMap,
        timeout: Option<Duration>,
        is_request: bool,
    ) -> Option<Resume> {
        is_legacy(headers).then(|| Resume {
            client: client.clone(),
            url: self.url(),
            headers: headers.clone(),
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            clock: Arc::clone(&self.clock),
            watched: match is_request {
                true => self.losses.stream(),
                false => self.losses.push_stream(),
            },
            is_request,
        })
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
        if body.starts_with(BYTE_ORDER_MARK) {
            body.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(body)
    }

    /// Reads the error for a reply that holds no JSON-RPC message.
    async fn read_error(&self, mut response: Response) -> RequestError {
        let status = response.status().as_u16();
        if status == 401 {
            let challenge = response.headers().get(header::WWW_AUTHENTICATE);
            return RequestError::Unauthorized {
                address: self.shown.clone(),
                reason: challenge::reason(challenge.and_then(|challenge| challenge.to_str().ok())),
            };
        }
        let retry_after = retry_after(response.headers(), self.clock.now());
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
        http_error(status, &body, retry_after)
    }

    fn not_sent(&self, error: SendError) -> RequestError {
        match error {
            SendError::Http(error) => self.unreachable(&error),
            SendError::Token(error) => RequestError::Token {
                address: self.shown.clone(),
                error,
            },
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> RequestError {
        unreachable(&self.shown, self.proxy.as_deref(), error)
    }
}

/// The error for a status whose body is no JSON-RPC message.
fn http_error(status: u16, body: &[u8], retry_after: Option<Millis>) -> RequestError {
    let body = String::from_utf8_lossy(body);
    let shown = &body[..body.floor_char_boundary(MAX_SHOWN_BODY)];
    RequestError::Http {
        status,
        body: shown.trim().replace(char::is_control, " "),
        retry_after,
    }
}

/// What every client for this server has.
fn builder(server: &Url) -> Result<ClientBuilder, String> {
    Ok(Client::builder()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .tls_backend_preconfigured(tls::config(server)?))
}

/// Builds the client, and says which proxy it uses.
fn build_client(address: &Address, options: &Options) -> Result<(Client, Option<String>), String> {
    let builder = builder(address.url())?.redirect(Policy::custom(follow));
    let (builder, proxy) = options.proxy.apply(builder, address.url())?;
    let client = builder.build().map_err(|error| error.to_string())?;
    Ok((client, proxy))
}

/// Follows a redirect once: the Python SDK redirects `/mcp` to `/mcp/`. Not to another origin, which would get the arguments of calls, and not one
/// that changes the method.
fn follow(attempt: Attempt<'_>) -> Action {
    let keeps_method = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT].contains(&attempt.status());
    match attempt.previous() {
        [from] if keeps_method && from.origin() == attempt.url().origin() => attempt.follow(),
        _ => attempt.stop(),
    }
}

/// Where a redirect that was not followed leads. Without what may be secret in a URL: the user, the password, the query and the fragment.
fn redirect_target(response: &Response) -> Option<String> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    let mut target = response.url().join(location).ok()?;
    // A URL without a host has neither.
    let _ = target.set_username("");
    let _ = target.set_password(None);
    target.set_query(None);
    target.set_fragment(None);
    Some(excerpt(target.as_str()).into_owned())
}

/// Whether these are the headers of a legacy session. `initialize` has none.
fn is_legacy(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    version
        .and_then(Version::parse)
        .is_some_and(|version| version.generation() == Generation::Legacy)
}

/// The JSON-RPC error in a body, if there is one.
fn rpc_failure(body: &[u8]) -> Option<RpcFailure> {
    match Message::parse(body) {
        Ok(Message::Response(response)) => read_failure(response.outcome.err()?).ok(),
        _ => None,
    }
}

impl Transport for Http {
    /// Sends a message and reads the head of the response. A JSON body is read whole; a stream is read as it comes.
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            if let Some(pair) = self.pair() {
                return self.send_to_pair(&pair, message).await;
            }
            let client = self.client()?;
            let resume = message
                .id
                .and_then(|_| self.resume(client, &message.headers, message.timeout, true));
            let mut request = client
                .client()
                .post(self.url())
                .headers(message.headers)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, text/event-stream")
                .body(message.body);
            if let Some(timeout) = message.timeout {
                request = request.timeout(timeout);
            }
            let response = client.send(request).await.map_err(|error| self.not_sent(error))?;
            self.note_location(&response);
            self.reply(response, message.id.is_some(), resume).await
        })
    }

    /// Opens the push stream of a legacy session. A server may have none, or allow one only.
    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        Box::pin(async move {
            if let Some(pair) = self.pair() {
                return pair.listen().map(Some);
            }
            let client = self.client()?;
            let resume = self.resume(client, &headers, None, false);
            let request = client
                .client()
                .get(self.url())
                .headers(headers)
                .header(header::ACCEPT, "text/event-stream");
            let response = client.send(request).await.map_err(|error| self.not_sent(error))?;
            match (response.status().as_u16(), content_type(&response)) {
                (200, "text/event-stream") => Ok(Some(self.events(response, resume))),
                // Another process has the stream of this session, and may end.
                (status, _) if status == 409 || is_transient_status(status) => Err(self.read_error(response).await),
                _ => Ok(None),
            }
        })
    }

    /// Opens the stream of 2024-11-05, for a session with it. Once a server was found to have one, it is used until it is gone.
    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn fall_back(&self) -> BoxFuture<'_, Result<bool, RequestError>> {
        Box::pin(async move {
            let limit = self.request_timeout.min(LONGEST_OPENING);
            let opened = tokio::time::timeout(limit, self.open_pair())
                .await
                .unwrap_or(Ok(None))?;
            let has_opened = opened.is_some();
            *self.pair.lock() = opened.map(Arc::new);
            Ok(has_opened)
        })
    }

    /// Ends a legacy session. A server may refuse that, so a failure is only logged.
    fn close(&self, headers: HeaderMap) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(pair) = self.pair.lock().take() {
                pair.close();
                return;
            }
            let (Ok(client), true) = (&self.client, headers.contains_key(SESSION_ID)) else {
                return;
            };
            let request = client
                .client()
                .delete(self.url())
                .headers(headers)
                .timeout(CLOSE_TIMEOUT);
            if let Err(error) = client.send(request).await {
                tracing::debug!(error = %self.not_sent(error), "could not end the session");
            }
        })
    }

    fn is_session(&self) -> bool {
        self.pair.lock().is_some()
    }

    fn address(&self) -> &str {
        &self.text
    }
}

/// The compression of a body, which was not asked for. Some servers name there what is none.
fn compression(headers: &HeaderMap) -> Option<&'static str> {
    let written = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let named: Vec<String> = written
        .filter_map(|value| value.to_str().ok())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut tokens = named.iter().flat_map(|value| value.split(',')).map(str::trim);
    tokens.find_map(|token| COMPRESSIONS.into_iter().find(|known| *known == token))
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
