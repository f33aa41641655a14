//! Sorts the messages of one stream by the requests that they belong to.

use super::Reply;
use crate::RequestError;
use futures_util::{StreamExt, stream};
use longhaul_wire::{Message, Method, jsonrpc::Notification};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::mpsc;

/// The messages that wait to be read, for each request. More notifications are dropped: they are hints.
const MAX_WAITING: usize = 1_024;

type Messages = mpsc::Sender<Result<Vec<u8>, RequestError>>;

/// The open requests of one stream.
pub(super) struct Demultiplexer {
    address: String,
    state: Mutex<State>,
}

struct State {
    open: HashMap<u64, Messages>,
    /// Gets what belongs to no request.
    others: Option<Messages>,
    /// Why the stream has ended, if it has.
    ended: Option<String>,
    /// How many messages were dropped because they were not read in time.
    dropped: u64,
}

impl Demultiplexer {
    pub(super) fn new(address: String) -> Arc<Self> {
        Arc::new(Self {
            address,
            state: Mutex::new(State {
                open: HashMap::new(),
                others: None,
                ended: None,
                dropped: 0,
            }),
        })
    }

    /// The messages that belong to request `id`. Call it before the request is sent.
    ///
    /// # Errors
    /// [`RequestError::Unreachable`] if the stream has ended.
    pub(super) fn open(self: &Arc<Self>, id: u64) -> Result<Reply, RequestError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        if let Some(reason) = &state.ended {
            return Err(self.unreachable(reason));
        }
        state.open.insert(id, sender);
        let open = OpenRequest {
            id,
            demultiplexer: Arc::clone(self),
        };
        Ok(Reply::new(
            stream::unfold((receiver, open), |(mut receiver, open)| async move {
                Some((receiver.recv().await?, (receiver, open)))
            })
            .boxed(),
        ))
    }

    /// The messages that belong to no request. Replaces the stream of an earlier call, which ends.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn listen(&self) -> Result<Reply, RequestError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        if let Some(reason) = &state.ended {
            return Err(self.unreachable(reason));
        }
        state.others = Some(sender);
        Ok(Reply::new(
            stream::unfold(receiver, |mut receiver| async move {
                Some((receiver.recv().await?, receiver))
            })
            .boxed(),
        ))
    }

    /// Whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Hands a message on.
    pub(super) fn deliver(&self, message: Vec<u8>) {
        let mut state = self.state.lock();
        match recipient(&message) {
            Recipient::Response(id) => match state.open.remove(&id) {
                // A place is kept free for it.
                Some(sender) => drop(sender.try_send(Ok(message))),
                None => tracing::debug!(id, "ignored a response to an unknown request"),
            },
            Recipient::Request(id) => {
                let request = id.and_then(|id| state.open.get(&id));
                match request.or(state.others.as_ref()) {
                    Some(reader) if push(reader, message) => {}
                    Some(_) => {
                        state.dropped += 1;
                        // Many messages, few lines of the log.
                        if state.dropped.is_power_of_two() {
                            let (address, dropped) = (&self.address, state.dropped);
                            tracing::warn!(address, dropped, "dropped messages that were not read in time");
                        }
                    }
                    None => tracing::debug!("ignored a message that belongs to no request"),
                }
            }
        }
    }

    /// Ends the stream: all requests fail.
    pub(super) fn end(&self, reason: &str) {
        let mut state = self.state.lock();
        state.ended.get_or_insert_with(|| reason.to_owned());
        state.others = None;
        for (_, sender) in state.open.drain() {
            let _ = sender.try_send(Err(self.unreachable(reason)));
        }
    }

    fn unreachable(&self, reason: &str) -> RequestError {
        RequestError::Unreachable {
            address: self.address.clone(),
            reason: reason.to_owned(),
            connected: true,
        }
    }
}

/// Keeps a place free for the response. `false` if there is no other one.
fn push(sender: &Messages, message: Vec<u8>) -> bool {
    sender.capacity() > 1 && sender.try_send(Ok(message)).is_ok()
}

/// Forgets its request when it is dropped.
struct OpenRequest {
    id: u64,
    demultiplexer: Arc<Demultiplexer>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.demultiplexer.state.lock().open.remove(&self.id);
    }
}

enum Recipient {
    /// The response to this request.
    Response(u64),
    /// Another message; it belongs to this request, if to any.
    Request(Option<u64>),
}

fn recipient(message: &[u8]) -> Recipient {
    match Message::parse(message) {
        Ok(Message::Response(response)) => match response.id.and_then(|id| id.as_json().parse().ok()) {
            Some(id) => Recipient::Response(id),
            None => Recipient::Request(None),
        },
        Ok(Message::Notification(notification)) => Recipient::Request(request_of(&notification)),
        // An unreadable message goes to the one who reports it.
        Ok(Message::Request(_)) | Err(_) => Recipient::Request(None),
    }
}

/// The request that a notification belongs to: by its progress token, which is the request's id, or by its subscription.
fn request_of(notification: &Notification<'_>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "progressToken", borrow)]
        progress_token: Option<&'a RawValue>,
        #[serde(rename = "_meta", borrow)]
        meta: Option<Meta<'a>>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
        subscription: Option<&'a RawValue>,
    }
    let params: Params<'_> = serde_json::from_str(notification.raw_params()?.get()).ok()?;
    let id = if notification.method == Method::Progress.as_str() {
        params.progress_token?
    } else {
        params.meta?.subscription?
    };
    id.get().parse().ok()
}
