//! Sorts the messages of one stream by the requests that they belong to.

use super::Reply;
use crate::RequestError;
use futures_util::{StreamExt, stream};
use longhaul_wire::{Message, Method, jsonrpc::Notification};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{mpsc, watch};

/// The messages that wait to be read, for each request. More notifications are dropped: they are hints.
const MAX_WAITING: usize = 1_024;

type Messages = mpsc::Sender<Delivery>;

/// A message for the reader of a request.
struct Delivery {
    message: Result<Vec<u8>, RequestError>,
    /// What must have been handled before it.
    behind: Option<Behind>,
}

/// What came before on the same stream and belongs to no request. Its reader is another one, and a log message of a call must not be handled behind the
/// call's response.
struct Behind {
    handled: watch::Receiver<u64>,
    count: u64,
}

impl Behind {
    async fn until_handled(mut self) {
        // An error: nobody reads it any more.
        let _ = self.handled.wait_for(|handled| *handled >= self.count).await;
    }
}

/// The reader of what belongs to no request.
struct Others {
    reader: Messages,
    /// How many messages it was sent.
    sent: u64,
    /// How many of them it has handled.
    handled: watch::Receiver<u64>,
}

impl Others {
    /// What it was sent and has not handled, if anything.
    fn unhandled(&self) -> Option<Behind> {
        let is_behind = *self.handled.borrow() < self.sent;
        is_behind.then(|| Behind {
            handled: self.handled.clone(),
            count: self.sent,
        })
    }
}

/// The open requests of one stream.
pub(super) struct Demultiplexer {
    address: String,
    state: Mutex<State>,
}

/// Why a stream has ended.
#[derive(Debug, Clone)]
pub(super) struct StreamEnd {
    pub(super) reason: String,
    /// The last that its child process has written to its standard error.
    pub(super) stderr: Option<String>,
}

impl<T: Into<String>> From<T> for StreamEnd {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.into(),
            stderr: None,
        }
    }
}

struct State {
    open: HashMap<u64, Messages>,
    /// Gets what belongs to no request.
    others: Option<Others>,
    /// Why the stream has ended, if it has.
    ended: Option<StreamEnd>,
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

    /// What messages call the server.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The messages that belong to request `id`. Call it before the request is sent.
    ///
    /// # Errors
    /// [`RequestError::Unreachable`] if the stream has ended.
    pub(super) fn open(self: &Arc<Self>, id: u64) -> Result<Reply, RequestError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        if let Some(end) = &state.ended {
            return Err(self.unreachable(end));
        }
        state.open.insert(id, sender);
        let open = OpenRequest {
            id,
            demultiplexer: Arc::clone(self),
        };
        Ok(Reply::new(
            stream::unfold((receiver, open), |(mut receiver, open)| async move {
                let Delivery { message, behind } = receiver.recv().await?;
                if let Some(behind) = behind {
                    behind.until_handled().await;
                }
                Some((message, (receiver, open)))
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
        if let Some(end) = &state.ended {
            return Err(self.unreachable(end));
        }
        let (done, handled) = watch::channel(0);
        state.others = Some(Others {
            reader: sender,
            sent: 0,
            handled,
        });
        // Whoever wants the next message has handled the one before.
        let messages = stream::unfold((receiver, done, 0), |(mut receiver, done, read)| async move {
            done.send_replace(read);
            let Delivery { message, .. } = receiver.recv().await?;
            Some((message, (receiver, done, read + 1)))
        });
        Ok(Reply::new(messages.boxed()))
    }

    /// Whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Hands a message on.
    pub(super) fn deliver(&self, message: Vec<u8>) {
        let mut state = self.state.lock();
        let State { open, others, .. } = &mut *state;
        match recipient(&message) {
            Recipient::Response(id) => match open.remove(&id) {
                // A place is kept free for it.
                Some(reader) => drop(reader.try_send(Delivery {
                    message: Ok(message),
                    behind: others.as_ref().and_then(Others::unhandled),
                })),
                None => tracing::debug!(id, "ignored a response to an unknown request"),
            },
            Recipient::Request(id) => {
                let request = id.and_then(|id| open.get(&id));
                let was_sent = match (request, others) {
                    (Some(request), _) => push(request, message),
                    (None, Some(others)) => {
                        let was_sent = push(&others.reader, message);
                        others.sent += u64::from(was_sent);
                        was_sent
                    }
                    (None, None) => return tracing::debug!("ignored a message that belongs to no request"),
                };
                if !was_sent {
                    state.dropped += 1;
                    // Many messages, few lines of the log.
                    if state.dropped.is_power_of_two() {
                        let (address, dropped) = (&self.address, state.dropped);
                        tracing::warn!(
                            server = address,
                            dropped,
                            "dropped notifications and questions of a server: it sends them faster than they are taken. Results are not dropped"
                        );
                    }
                }
            }
        }
    }

    /// Ends the stream: all requests fail.
    pub(super) fn end(&self, end: StreamEnd) {
        let mut state = self.state.lock();
        state.ended.get_or_insert_with(|| end.clone());
        state.others = None;
        for (_, reader) in state.open.drain() {
            let _ = reader.try_send(Delivery {
                message: Err(self.unreachable(&end)),
                behind: None,
            });
        }
    }

    fn unreachable(&self, end: &StreamEnd) -> RequestError {
        RequestError::Unreachable {
            address: self.address.clone(),
            reason: end.reason.clone(),
            stderr: end.stderr.clone(),
            connected: true,
        }
    }
}

/// Keeps a place free for the response. `false` if there is no other one.
fn push(reader: &Messages, message: Vec<u8>) -> bool {
    let delivery = Delivery {
        message: Ok(message),
        behind: None,
    };
    reader.capacity() > 1 && reader.try_send(delivery).is_ok()
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
