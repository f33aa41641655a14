//! Server-sent events, and opening a broken stream again where it broke off.

use crate::{
    RequestError,
    error::is_transient_status,
    transport::{
        http::{
            authorized::{AuthorizedClient, SendError},
            retry_after::retry_after,
            unreachable::unreachable,
        },
        polling,
        stream_losses::WatchedStream,
    },
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use http::{HeaderMap, HeaderValue, header};
use longhaul_core::{Clock, Millis};
use reqwest::{Response, Url};
use sse_stream::{Sse, SseByteStream};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// The wait before a stream is opened again, unless the server says another one.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// The wait, if the server says none at all: it doubles for each stream that brings no message, up to [`DEFAULT_RETRY`].
const MIN_RETRY: Duration = Duration::from_millis(100);
/// The longest wait that a server can ask for.
const MAX_RETRY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often in a row a stream may end without an event.
const MAX_SILENT: u32 = 8;
/// How often in a row the server may refuse a connection for the stream of a request: it has ended, and what it was asked with it.
const MAX_REFUSED: u32 = 3;

/// The messages of an event stream.
pub(crate) struct EventStream {
    /// `None` once they have ended.
    events: Option<Events>,
    resume: Option<Resume>,
    last_id: Option<HeaderValue>,
    retry: Duration,
    /// The server's `Retry-After`.
    retry_after: Option<Millis>,
    /// How often in a row it has ended without an event.
    silent: u32,
    /// How often in a row no connection could be opened for it.
    refused: u32,
    /// How often in a row it has ended without a message.
    empty: u32,
    max_message: usize,
    address: String,
}

/// How a stream of a legacy session is opened again.
pub(crate) struct Resume {
    pub(crate) client: AuthorizedClient,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the time of the request is over.
    pub(crate) deadline: Option<Instant>,
    pub(crate) watched: WatchedStream,
    /// Whether it is the stream of a request, and not the push stream.
    pub(crate) is_request: bool,
}

/// The events of one response.
pub(crate) struct Events {
    stream: SseByteStream<BoxStream<'static, Result<Bytes, RequestError>>>,
    /// Bytes since the last event, to limit the size of an event.
    pending: Arc<AtomicUsize>,
}

impl EventStream {
    pub(crate) fn new(response: Response, resume: Option<Resume>, max_message: usize, address: String) -> Self {
        Self {
            events: Some(Events::new(response, max_message, &address)),
            resume,
            last_id: None,
            retry: DEFAULT_RETRY,
            retry_after: None,
            silent: 0,
            refused: 0,
            empty: 0,
            max_message,
            address,
        }
    }

    /// The next message. A stream that ends, or breaks, is opened again if its events had ids; `None` if they had none.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        let deadline = self.resume.as_ref().and_then(|resume| resume.deadline);
        let Some(deadline) = deadline else {
            return self.next_message().await;
        };
        let late = RequestError::TimedOut {
            address: self.address.clone(),
        };
        timeout_at(deadline, self.next_message()).await.unwrap_or(Err(late))
    }

    async fn next_message(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        let mut broken = None;
        loop {
            match self.next_event().await {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(error @ RequestError::Unreachable { .. }) => {
                    // It is opened again. What cannot be ends the request, which says so.
                    if let (Some(resume), Some(_)) = (&self.resume, &self.last_id) {
                        resume.watched.lost(&error);
                    }
                    broken = Some(error);
                }
                Err(error) => return Err(error),
            }
            self.events = None;
            if !self.open_again().await {
                return broken.map_or(Ok(None), Err);
            }
        }
    }

    async fn next_event(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        let Some(events) = &mut self.events else {
            return Ok(None);
        };
        while let Some(mut event) = events.next().await? {
            self.silent = 0;
            if let Some(id) = event.id.take().and_then(|id| HeaderValue::try_from(id).ok()) {
                self.last_id = Some(id);
            }
            if let Some(retry) = event.retry {
                self.retry = Duration::from_millis(retry).min(MAX_RETRY);
            }
            // A server may begin a stream with an event that has an id and no data.
            if let Some(data) = message(event) {
                self.empty = 0;
                return Ok(Some(data.into_bytes()));
            }
        }
        Ok(None)
    }

    /// Opens the stream again behind the last event. False if that is not possible.
    async fn open_again(&mut self) -> bool {
        let (Some(resume), Some(last_id)) = (&self.resume, &self.last_id) else {
            return false;
        };
        self.silent += 1;
        self.empty = self.empty.saturating_add(1);
        let has_ended = resume.is_request && self.refused >= MAX_REFUSED;
        if self.silent > MAX_SILENT || has_ended {
            return false;
        }
        let wait = self.wait().max(self.retry);
        self.retry_after = None;
        resume.clock.sleep(wait).await;
        let request = resume
            .client
            .client()
            .get(resume.url.clone())
            .headers(resume.headers.clone())
            .header(header::ACCEPT, "text/event-stream")
            .header("last-event-id", last_id.clone());
        let sent = resume.client.send(request).await;
        self.refused = match &sent {
            Ok(_) => 0,
            Err(_) => self.refused + 1,
        };
        match sent {
            Ok(response) if response.status().is_success() => {
                resume.watched.opened();
                self.events = Some(Events::new(response, self.max_message, &self.address));
                true
            }
            // The server may be restarting, or too busy.
            Ok(response) if is_transient_status(response.status().as_u16()) => {
                let status = response.status().as_u16();
                resume
                    .watched
                    .lost(&format_args!("the server answers with HTTP status {status}"));
                self.retry_after = retry_after(response.headers(), resume.clock.now());
                true
            }
            Ok(_) => false,
            // The next read ends at once, and this is tried again.
            Err(error) => {
                resume.watched.lost(&describe(&self.address, error));
                true
            }
        }
    }

    /// The shortest wait before the stream is opened again, whatever the server says with its events.
    fn wait(&self) -> Duration {
        if self.silent > 1 {
            let wait = polling::next_retry(self.silent - 1, self.retry_after, fastrand::f64());
            return Duration::from_millis(wait);
        }
        let doublings = self.empty.saturating_sub(1).min(16);
        (MIN_RETRY * (1 << doublings)).min(DEFAULT_RETRY)
    }
}

/// The message in an event. Events of other types than `message` are for others, such as pings of something in between.
pub(crate) fn message(event: Sse) -> Option<String> {
    let is_message = event
        .event
        .as_deref()
        .is_none_or(|name| name.is_empty() || name == "message");
    event.data.filter(|data| is_message && !data.is_empty())
}

impl Events {
    pub(crate) fn new(response: Response, max_message: usize, address: &str) -> Self {
        let pending = Arc::new(AtomicUsize::new(0));
        let (seen, address) = (Arc::clone(&pending), address.to_owned());
        let chunks = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| broken(&address, &error))?;
            if seen.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len() > max_message {
                return Err(RequestError::TooLarge { limit: max_message });
            }
            Ok(chunk)
        });
        Self {
            stream: SseByteStream::new(chunks.boxed()),
            pending,
        }
    }

    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Sse>, RequestError> {
        let event = self.stream.next().await.transpose().map_err(stream_error)?;
        self.pending.store(0, Ordering::Relaxed);
        Ok(event)
    }
}

/// Why a stream could not be opened again.
fn describe(address: &str, error: SendError) -> String {
    match error {
        SendError::Http(error) => unreachable(address, None, &error).to_string(),
        SendError::Token(error) => error.to_string(),
    }
}

/// The error for a stream that has ended in the middle. What reads it only says how it is cut off.
fn broken(address: &str, error: &reqwest::Error) -> RequestError {
    match unreachable(address, None, error) {
        RequestError::Unreachable { address, .. } => RequestError::Unreachable {
            address,
            reason: "it closed the connection before it answered".to_owned(),
            stderr: None,
            connected: true,
        },
        other => other,
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
