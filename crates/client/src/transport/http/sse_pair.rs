//! The transport of 2024-11-05: a stream of events from the server, whose first event says where to post.

use crate::{
    RequestError,
    transport::{
        Outgoing, Reply,
        http::sse::{self, Events},
        stream::demultiplexer::Demultiplexer,
    },
};
use reqwest::{Response, Url};
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An open stream. It is the session: when it ends, so do all requests.
pub(crate) struct SsePair {
    pub(crate) endpoint: Url,
    messages: Arc<Demultiplexer>,
    _reading: DropGuard,
}

impl SsePair {
    /// Waits for the first event of a stream. `None` if it does not say where to post, so that this is another kind of stream.
    ///
    /// # Errors
    /// [`RequestError::HandshakeFailed`] if messages would have to be posted to another origin.
    pub(crate) async fn open(
        response: Response,
        max_message: usize,
        address: &str,
    ) -> Result<Option<Self>, RequestError> {
        let opened_at = response.url().clone();
        let mut events = Events::new(response, max_message, address);
        let first = events
            .next()
            .await?
            .filter(|first| first.event.as_deref() == Some("endpoint"));
        let Some(data) = first.and_then(|first| first.data) else {
            return Ok(None);
        };
        let endpoint = opened_at
            .join(&data)
            .map_err(|error| RequestError::HandshakeFailed(format!("its endpoint is not a URL: {error}")))?;
        if endpoint.origin() != opened_at.origin() {
            return Err(RequestError::HandshakeFailed(format!(
                "it wants messages at another origin, {}",
                endpoint.origin().ascii_serialization()
            )));
        }
        Ok(Some(Self::start(endpoint, events, address)))
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn start(endpoint: Url, mut events: Events, address: &str) -> Self {
        let messages = Demultiplexer::new(address.to_owned());
        let dropped = CancellationToken::new();
        let reading = {
            let messages = Arc::clone(&messages);
            async move {
                let reason = loop {
                    match events.next().await {
                        Ok(Some(event)) => {
                            if let Some(data) = sse::message(event)
                                && messages.deliver(data.into_bytes()).is_some()
                            {
                                // No probe is sent here.
                                messages.end_doubt();
                            }
                            messages.settle_all();
                        }
                        Ok(None) => break "it closed the stream".to_owned(),
                        Err(RequestError::Unreachable { reason, .. }) => break reason,
                        Err(error) => break error.to_string(),
                    }
                };
                messages.end(reason.into());
            }
        };
        tokio::spawn(dropped.clone().run_until_cancelled_owned(reading));
        Self {
            endpoint,
            messages,
            _reading: dropped.drop_guard(),
        }
    }

    /// The messages that belong to a request that is sent; none for a message without an id.
    ///
    /// # Errors
    /// [`RequestError::Unreachable`] if the stream has ended.
    pub(crate) fn reply(&self, message: &Outgoing) -> Result<Reply, RequestError> {
        match message.id {
            Some(id) => self.messages.open(id, false),
            None => {
                self.messages.note_sent(&message.body);
                Ok(Reply::empty())
            }
        }
    }

    /// The messages that belong to no request.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub(crate) fn listen(&self) -> Result<Reply, RequestError> {
        self.messages.listen()
    }

    /// Ends all requests.
    pub(crate) fn close(&self) {
        self.messages.end("the connection was closed".into());
    }
}
