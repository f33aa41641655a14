//! Sorts the messages of one stream by the requests that they belong to.

use crate::{
    RequestError,
    transport::{
        Reply,
        batch::{is_meant_as_batch, messages},
        stream::{
            lines::Ends,
            open_requests::{
                Delivery, JoinedMessage, Messages, NotificationCounts, OpenReader, OpenRequests, Others, StreamEnd,
                SuspectedAnswer,
            },
            recipient::{OfNotification, Recipient, Unclear, of_unreadable, recipient},
            unframed::{PartialMessage, Within, messages_in},
            unreadable::{Outline, last_id, number_of},
        },
    },
};
use futures_util::{StreamExt, stream};
use longhaul_wire::{Batch, Message, Rejection};
use parking_lot::Mutex;
use std::{collections::HashMap, ops::ControlFlow, sync::Arc};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// The messages that wait to be read, for each request. More notifications are dropped: they are hints.
const MAX_WAITING: usize = 1_024;

/// The open requests of one stream.
pub(crate) struct Demultiplexer {
    address: String,
    state: Mutex<OpenRequests>,
}

impl Demultiplexer {
    pub(crate) fn new(address: String) -> Arc<Self> {
        Arc::new(Self {
            address,
            state: Mutex::new(OpenRequests {
                open: HashMap::new(),
                ids: None,
                unfinished: None,
                suspected: HashMap::new(),
                mentions_taken: 0,
                answered: 0,
                answers_in_lines: false,
                notified: NotificationCounts::default(),
                doubt: None,
                others: None,
                ended: None,
                dropped: 0,
                has_named_noise: false,
            }),
        })
    }

    /// The messages that belong to request `id`, which `watches` something or is answered when it is done. Call it before the request is sent.
    ///
    /// # Errors
    /// [`RequestError::Unreachable`] if the stream has ended.
    pub(crate) fn open(self: &Arc<Self>, id: u64, watches: bool) -> Result<Reply, RequestError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        if let Some(end) = &state.ended {
            return Err(self.unreachable(end));
        }
        state.has_named_noise = false;
        let (first, last) = state.ids.unwrap_or((id, id));
        state.ids = Some((first.min(id), last.max(id)));
        let notified = state.notified.sent;
        state.open.insert(
            id,
            OpenReader {
                messages: sender,
                watches,
                notified,
            },
        );
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
    pub(crate) fn listen(&self) -> Result<Reply, RequestError> {
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
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().ended.is_some()
    }

    /// Hands messages on: one, or a batch. Returns a request to be sent if it is not known whom one answers.
    pub(crate) fn deliver(&self, received: Vec<u8>) -> Option<String> {
        if !Batch::is_batch(&received) {
            return self.deliver_one(received);
        }
        let probes = messages(received).into_iter().map(|message| self.deliver_one(message));
        probes.fold(None, Option::or)
    }

    fn deliver_one(&self, message: Vec<u8>) -> Option<String> {
        let joined = self.state.lock().join(&message);
        match joined {
            JoinedMessage::Whole(text) => self.deliver_message(text, true),
            JoinedMessage::Unfinished => None,
            JoinedMessage::No => self.deliver_message(message, false),
        }
    }

    /// Hands on what may be a message, whose lines were joined or which is one line.
    fn deliver_message(&self, message: Vec<u8>, was_joined: bool) -> Option<String> {
        let recipient = match recipient(&message) {
            Ok(recipient) => recipient,
            Err(rejection) => match self.look_into(&message, &rejection) {
                ControlFlow::Continue(recipient) => recipient,
                ControlFlow::Break(probe) => return probe,
            },
        };
        let mut state = self.state.lock();
        let recipient = match recipient {
            // Servers print what they are asked.
            Recipient::Asked(Some(id)) if state.has_sent(id) => Recipient::Noise,
            Recipient::Asked(_) => Recipient::Request(None),
            recipient => recipient,
        };
        if let Recipient::Unclear(unclear) = recipient {
            let answer = match Message::parse(&message) {
                // Without an id: what it says is the answer.
                Ok(Message::Response(response)) if response.id.is_none() => Ok(message.clone()),
                _ => Err(RequestError::Invalid(unclear.why.clone())),
            };
            return state.unclear(&self.address, unclear, &message, answer);
        }
        if let Recipient::Request(Some(id)) = recipient {
            state.goes_on(id);
        }
        match recipient {
            // A server whose answers are a line each prints what it works with.
            Recipient::Response(id) if was_joined && state.answers_in_lines && state.open.contains_key(&id) => {
                state.suspect(id, SuspectedAnswer::new(Ok(message), true));
            }
            Recipient::Response(id) if state.has_sent(id) => {
                // A server that writes words before its answers does so each time.
                state.mentions_taken = 0;
                state.answers_in_lines |= !was_joined;
                match state.is_probe(id) {
                    true => state.end_doubt(),
                    false => state.answer(id, Ok(message)),
                }
            }
            Recipient::Response(_) => state.name_noise(&self.address, &message),
            Recipient::Request(id) => {
                let OpenRequests { open, others, .. } = &mut *state;
                let request = id.and_then(|id| open.get(&id)).map(|reader| &reader.messages);
                let was_sent = match (request, others) {
                    (Some(request), _) => push(request, message),
                    (None, Some(others)) => {
                        let was_sent = push(&others.reader, message);
                        others.sent += u64::from(was_sent);
                        was_sent
                    }
                    (None, None) => match (open.len(), Message::parse(&message)) {
                        // Of a server that asks before its session has begun.
                        (1, Ok(Message::Request(_))) => {
                            open.values().all(|reader| push(&reader.messages, message.clone()))
                        }
                        _ => {
                            tracing::debug!("ignored a message that belongs to no request");
                            return None;
                        }
                    },
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
            Recipient::Noise => state.name_noise(&self.address, &message),
            Recipient::Unclear(_) | Recipient::Asked(_) => {}
        }
        None
    }

    /// Whom a line is for that is no message. It breaks off once what is in the line was handed on, with a request to be sent.
    fn look_into(&self, line: &[u8], rejection: &Rejection<'_>) -> ControlFlow<Option<String>, Recipient> {
        if line.contains(&b'\r') {
            let parts = line.split(|byte| *byte == b'\r').map(<[u8]>::trim_ascii_end);
            return ControlFlow::Break(self.deliver_each(parts));
        }
        if is_meant_as_batch(line) {
            return ControlFlow::Continue(of_unreadable(line, rejection));
        }
        ControlFlow::Continue(match messages_in(line) {
            Within::Nothing => {
                let mut state = self.state.lock();
                state.unfinished = PartialMessage::begun_by(line).or(state.unfinished.take());
                match of_unreadable(line, rejection) {
                    Recipient::Noise => of_end(line),
                    found => found,
                }
            }
            Within::Messages(found, rest) => {
                return ControlFlow::Break(self.deliver_each(found.into_iter().chain([rest])));
            }
            Within::Mentioned(responses) => {
                let mut state = self.state.lock();
                let named = responses.into_iter().filter_map(answer_of);
                let named: Vec<_> = named.filter(|(id, _)| state.open.contains_key(id)).collect();
                if named.is_empty() {
                    return ControlFlow::Continue(Recipient::Noise);
                }
                for (id, answer) in named {
                    state.suspect(id, SuspectedAnswer::new(answer, true));
                }
                return ControlFlow::Break(None);
            }
            Within::Unreadable(response) => match of_unreadable(response, rejection) {
                Recipient::Unclear(unclear) => Recipient::Unclear(Unclear {
                    needs_id: true,
                    ..unclear
                }),
                _ => Recipient::Noise,
            },
        })
    }

    /// Hands on what is not empty.
    fn deliver_each<'a>(&self, messages: impl Iterator<Item = &'a [u8]>) -> Option<String> {
        let messages = messages.filter(|message| !message.is_empty());
        let probes = messages.map(|message| self.deliver_one(message.to_vec()));
        probes.fold(None, Option::or)
    }

    /// Whether a line would end what may be a message over several lines.
    pub(crate) fn is_ended_by(&self, line: &[u8]) -> bool {
        let state = self.state.lock();
        state
            .unfinished
            .as_ref()
            .is_some_and(|unfinished| unfinished.is_ended_by(line))
    }

    /// A message was longer than `limit` bytes, and only its ends are known. If it was an answer, its request fails, and no other. Returns a request to be sent
    /// if it is not known whose it was.
    pub(crate) fn too_large(&self, ends: &Ends, limit: usize) -> Option<String> {
        let mut outline = Outline::of(&ends.begin).unwrap_or_default();
        outline.note_last_id(&ends.end);
        let why = format!("it has sent a message of more than {limit} bytes");
        if outline.has_method() {
            tracing::warn!(server = self.address, "{why}, which was dropped");
            return None;
        }
        let id = outline.id.and_then(number_of);
        let mut state = self.state.lock();
        let unclear = Unclear {
            id,
            needs_id: id.is_some(),
            of_notification: OfNotification::No,
            why,
        };
        let answer = Err(RequestError::TooLarge { limit });
        state.unclear(&self.address, unclear, &ends.begin, answer)
    }

    /// A message without an id is sent. Servers may not answer a notification, and some do.
    pub(crate) fn note_sent(&self, message: &str) {
        if head(message).contains(r#""method":"notifications/"#) {
            self.state.lock().notified.note_sent();
        }
    }

    /// When what may be an answer is taken for one.
    pub(crate) fn settles_at(&self) -> Option<Instant> {
        self.state.lock().settles_at()
    }

    /// Takes what may be an answer for one, if no other has come in time. It is waited for longer while the server `writes`.
    pub(crate) fn settle(&self, writes: bool) {
        self.state.lock().settle(writes);
    }

    /// Takes all that may be an answer for one now.
    pub(crate) fn settle_all(&self) {
        self.state.lock().settle_all();
    }

    /// Whether it is not known whose an answer was.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state.lock().doubt.is_some()
    }

    /// Does not wait for the answer to the probe any longer.
    pub(crate) fn end_doubt(&self) {
        self.state.lock().end_doubt();
    }

    /// Ends the stream: all requests fail.
    pub(crate) fn end(&self, end: StreamEnd) {
        let mut state = self.state.lock();
        state.ended.get_or_insert_with(|| end.clone());
        // No other comes any more.
        state.settle_all();
        state.others = None;
        for (_, reader) in state.open.drain() {
            let _ = reader.messages.try_send(Delivery {
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
        let mut state = self.demultiplexer.state.lock();
        state.open.remove(&self.id);
        state.suspected.remove(&self.id);
    }
}

/// The beginning of a message: its method is before what may be long.
pub(crate) fn head(message: &str) -> &str {
    message.get(..message.floor_char_boundary(120)).unwrap_or_default()
}

/// The request that a response names, and what is its answer then. An id of another type is an error.
fn answer_of(response: &[u8]) -> Option<(u64, Result<Vec<u8>, RequestError>)> {
    match recipient(response).ok()? {
        Recipient::Response(id) => Some((id, Ok(response.to_vec()))),
        Recipient::Unclear(Unclear { id, why, .. }) => Some((id?, Err(RequestError::Invalid(why)))),
        _ => None,
    }
}

/// Whose a line may be the end of that is no object: an answer with line breaks in its texts.
fn of_end(line: &[u8]) -> Recipient {
    let is_of_request = line.windows(8).any(|part| part == b"\"method\"");
    match last_id(line).and_then(number_of).filter(|_| !is_of_request) {
        Some(id) => Recipient::Unclear(Unclear {
            id: Some(id),
            needs_id: true,
            of_notification: OfNotification::No,
            why: "its answer is not one line of JSON".to_owned(),
        }),
        None => Recipient::Noise,
    }
}
