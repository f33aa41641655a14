//! Sorts the messages of one stream by the requests that they belong to.

use super::{
    Reply,
    batch::{is_meant_as_batch, messages},
    lines::Ends,
    recipient::{PROBE, Recipient, Unclear, of_unreadable, recipient},
    unframed::{Unfinished, Within, messages_in},
    unreadable::{Outline, last_id, number_of},
};
use crate::{RequestError, error::excerpt};
use futures_util::{StreamExt, stream};
use longhaul_wire::{Batch, Message};
use parking_lot::Mutex;
use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// How long the true answer is waited for behind what may be one: servers print what they are about to send.
const SUSPICION: Duration = Duration::from_secs(2);
/// How long any answer without an id may be that to a notification.
const NOTIFICATION: Duration = Duration::from_secs(10);

/// The messages that wait to be read, for each request. More notifications are dropped: they are hints.
const MAX_WAITING: usize = 1_024;

/// The longest message over several lines, in bytes.
const MAX_JOINED: usize = 1 << 20;

type Messages = mpsc::Sender<Delivery>;

/// Who waits for the messages of a request.
struct OpenReader {
    messages: Messages,
    /// It is answered when its client does not want to watch any more.
    watches: bool,
}

/// An answer could have been that of each of these requests. What is answered before the probe is not in doubt.
struct Doubt {
    requests: Vec<u64>,
    why: String,
}

/// What may be an answer.
struct Suspected {
    answer: Result<Vec<u8>, RequestError>,
    until: Instant,
}

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
    open: HashMap<u64, OpenReader>,
    /// The smallest and the largest id of a request so far.
    ids: Option<(u64, u64)>,
    /// What may be a message over several lines.
    unfinished: Option<Unfinished>,
    /// What may be the answers to requests, and when it is taken for them if no other comes.
    suspected: HashMap<u64, Suspected>,
    /// The notifications that were sent and not answered, and when the last one was.
    notified: (u32, Option<Instant>),
    /// Set while it is not known whose an answer was that could not be read.
    doubt: Option<Doubt>,
    /// Gets what belongs to no request.
    others: Option<Others>,
    /// Why the stream has ended, if it has.
    ended: Option<StreamEnd>,
    /// How many messages were dropped because they were not read in time.
    dropped: u64,
    /// A line that is no message was named since the last request was opened.
    has_named_noise: bool,
}

impl Demultiplexer {
    pub(super) fn new(address: String) -> Arc<Self> {
        Arc::new(Self {
            address,
            state: Mutex::new(State {
                open: HashMap::new(),
                ids: None,
                unfinished: None,
                suspected: HashMap::new(),
                notified: (0, None),
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
    pub(super) fn open(self: &Arc<Self>, id: u64, watches: bool) -> Result<Reply, RequestError> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let mut state = self.state.lock();
        if let Some(end) = &state.ended {
            return Err(self.unreachable(end));
        }
        state.has_named_noise = false;
        let (first, last) = state.ids.unwrap_or((id, id));
        state.ids = Some((first.min(id), last.max(id)));
        state.open.insert(
            id,
            OpenReader {
                messages: sender,
                watches,
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

    /// Hands messages on: one, or a batch. Returns a request to be sent if it is not known whom one answers.
    pub(super) fn deliver(&self, received: Vec<u8>) -> Option<String> {
        if !Batch::is_batch(&received) {
            return self.deliver_one(received);
        }
        let probes = messages(received).into_iter().map(|message| self.deliver_one(message));
        probes.fold(None, Option::or)
    }

    fn deliver_one(&self, message: Vec<u8>) -> Option<String> {
        let joined = self.state.lock().join(&message);
        let recipient = match joined {
            Joined::Whole(text) => return self.deliver_one(text),
            Joined::Unfinished => return None,
            Joined::No => match recipient(&message) {
                Ok(recipient) => recipient,
                Err(_) if message.contains(&b'\r') => {
                    let parts = message.split(|byte| *byte == b'\r').map(<[u8]>::trim_ascii_end);
                    let parts = parts.filter(|part| !part.is_empty());
                    let probes = parts.map(|part| self.deliver_one(part.to_vec()));
                    return probes.fold(None, Option::or);
                }
                Err(rejection) if is_meant_as_batch(&message) => of_unreadable(&message, &rejection),
                Err(rejection) => {
                    let mut state = self.state.lock();
                    match messages_in(&message) {
                        Within::Nothing => {
                            state.unfinished = Unfinished::begun_by(&message).or(state.unfinished.take());
                            drop(state);
                            match of_unreadable(&message, &rejection) {
                                Recipient::Noise => of_end(&message),
                                found => found,
                            }
                        }
                        Within::Messages(found, rest) => {
                            drop(state);
                            let all = found.into_iter().chain((!rest.is_empty()).then_some(rest));
                            let probes = all.map(|message| self.deliver_one(message.to_vec()));
                            return probes.fold(None, Option::or);
                        }
                        Within::Mentioned(responses) => {
                            let named = responses
                                .into_iter()
                                .filter_map(|response| match recipient_of(response) {
                                    Some(id) if state.open.contains_key(&id) => Some((id, response.to_vec())),
                                    _ => None,
                                });
                            let named: Vec<_> = named.collect();
                            if named.is_empty() {
                                state.name_noise(&self.address, &message);
                            }
                            for (id, response) in named {
                                state.suspect(id, Ok(response));
                            }
                            return None;
                        }
                        Within::Unreadable(response) => {
                            drop(state);
                            match of_unreadable(response, &rejection) {
                                Recipient::Unclear(unclear) => Recipient::Unclear(Unclear {
                                    needs_id: true,
                                    ..unclear
                                }),
                                _ => Recipient::Noise,
                            }
                        }
                    }
                }
            },
        };
        let mut state = self.state.lock();
        if let Recipient::Unclear(unclear) = recipient {
            let answer = match Message::parse(&message) {
                // Without an id: what it says is the answer.
                Ok(Message::Response(response)) if response.id.is_none() => Ok(message),
                _ => Err(RequestError::Invalid(unclear.why.clone())),
            };
            return state.unclear(&self.address, unclear, answer);
        }
        let State {
            open,
            others,
            ids,
            suspected,
            ..
        } = &mut *state;
        match recipient {
            Recipient::Response(id) => match open.remove(&id).inspect(|_| drop(suspected.remove(&id))) {
                // A place is kept free for it.
                Some(OpenReader { messages, .. }) => drop(messages.try_send(Delivery {
                    message: Ok(message),
                    behind: others.as_ref().and_then(Others::unhandled),
                })),
                // Of a request that is not waited for any more.
                None if ids.is_some_and(|(first, last)| (first..=last).contains(&id)) => {
                    tracing::debug!(id, "ignored a response to an unknown request");
                }
                None => state.name_noise(&self.address, &message),
            },
            Recipient::Request(id) => {
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
            Recipient::Probe => state.end_doubt(),
            Recipient::Noise => state.name_noise(&self.address, &message),
            Recipient::Unclear(_) => {}
        }
        None
    }

    /// Whether a line would end what may be a message over several lines.
    pub(super) fn is_ended_by(&self, line: &[u8]) -> bool {
        let state = self.state.lock();
        state
            .unfinished
            .as_ref()
            .is_some_and(|unfinished| unfinished.is_ended_by(line))
    }

    /// A message was longer than `limit` bytes, and only its ends are known. If it was an answer, its request fails, and no other. Returns a request to be sent
    /// if it is not known whose it was.
    pub(super) fn too_large(&self, ends: &Ends, limit: usize) -> Option<String> {
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
            needs_id: false,
            fits_notification: false,
            why,
        };
        let answer = Err(RequestError::TooLarge { limit });
        state.unclear(&self.address, unclear, answer)
    }

    /// A notification is sent, which servers may not answer.
    pub(super) fn notify(&self) {
        let mut state = self.state.lock();
        state.notified = (state.notified.0 + 1, Some(Instant::now()));
    }

    /// When what may be an answer is taken for one.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.suspected.values().map(|suspected| suspected.until).min()
    }

    /// Takes what may be an answer for one, if no other has come in time.
    pub(super) fn settle(&self) {
        self.state.lock().settle(Instant::now());
    }

    /// Whether it is not known whose an answer was.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.state.lock().doubt.is_some()
    }

    /// Does not wait for the answer to the probe any longer.
    pub(super) fn end_doubt(&self) {
        self.state.lock().end_doubt();
    }

    /// Ends the stream: all requests fail.
    pub(super) fn end(&self, end: StreamEnd) {
        let mut state = self.state.lock();
        state.ended.get_or_insert_with(|| end.clone());
        // No other comes any more.
        state.settle(Instant::now() + SUSPICION);
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

/// The request that a response names, also by an id of another type.
fn recipient_of(response: &[u8]) -> Option<u64> {
    match recipient(response).ok()? {
        Recipient::Response(id) => Some(id),
        Recipient::Unclear(Unclear { id, .. }) => id,
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
            fits_notification: false,
            why: "its answer is not one line of JSON".to_owned(),
        }),
        None => Recipient::Noise,
    }
}

/// What is wrong with an answer, without what it says.
fn kind(why: &str) -> &str {
    why.split_once(':').map_or(why, |(kind, _)| kind)
}

/// Whether a line that is no message is a part of one.
enum Joined {
    /// The last part: this is the text.
    Whole(Vec<u8>),
    /// There may be more.
    Unfinished,
    No,
}

impl State {
    /// Joins a line with those before it, if they may be one message.
    fn join(&mut self, line: &[u8]) -> Joined {
        let Some(unfinished) = self.unfinished.as_mut().filter(|unfinished| unfinished.takes(line)) else {
            return Joined::No;
        };
        // Of an object that is not indented, a line that is a message is none of its lines.
        if line.starts_with(b"{") && Message::parse(line).is_ok() {
            return Joined::No;
        }
        match unfinished.add(line) {
            Some(text) => {
                self.unfinished = None;
                Joined::Whole(text)
            }
            None if unfinished.len() > MAX_JOINED => {
                self.unfinished = None;
                Joined::No
            }
            None => Joined::Unfinished,
        }
    }

    /// A line that is no message may be what a request waits for. One is named for each request.
    fn name_noise(&mut self, address: &str, line: &[u8]) {
        let is_waited_for = self.open.values().any(|reader| !reader.watches);
        if is_waited_for && !std::mem::replace(&mut self.has_named_noise, true) {
            let line = String::from_utf8_lossy(line);
            // No log has results.
            let line = match line.contains(['{', '}']) {
                true => Cow::Borrowed("(not shown: it may be a part of an answer)"),
                false => line,
            };
            tracing::warn!(
                server = &*excerpt(address),
                line = &*excerpt(&line),
                "a server has written a line that is no message of MCP, or answers nobody, while a request was open"
            );
        }
    }

    /// What may be the answer to an open request: that is waited for, for a moment.
    fn suspect(&mut self, id: u64, answer: Result<Vec<u8>, RequestError>) {
        if answer.is_err() && self.suspected.get(&id).is_some_and(|earlier| earlier.answer.is_ok()) {
            return;
        }
        let until = Instant::now() + SUSPICION;
        self.suspected.insert(id, Suspected { answer, until });
    }

    fn settle(&mut self, now: Instant) {
        for (id, suspected) in self
            .suspected
            .extract_if(|_, suspected| suspected.until <= now)
            .collect::<Vec<_>>()
        {
            self.answer(id, suspected.answer);
        }
    }

    /// Whether it is how a server answers a notification that it was sent.
    fn answers_notification(&mut self, fits: bool) -> bool {
        let (count, last) = self.notified;
        let is_new = last.is_some_and(|last| last.elapsed() < NOTIFICATION);
        let answers = count > 0 && (fits || is_new);
        self.notified.0 -= u32::from(answers);
        answers
    }

    /// An answer of which it is not certain whose it is, or whether it is one. If only one request can be meant, that gets it, unless a better one follows; else a
    /// probe is sent, and what is open when that is answered fails.
    fn unclear(&mut self, address: &str, unclear: Unclear, answer: Result<Vec<u8>, RequestError>) -> Option<String> {
        let named = unclear.id.filter(|id| self.open.contains_key(id));
        let Unclear {
            needs_id,
            fits_notification,
            why,
            ..
        } = unclear;
        if named.is_none() && (needs_id || unclear.id.is_none() && self.answers_notification(fits_notification)) {
            self.name_noise(address, why.as_bytes());
            return None;
        }
        let mut waiting = self
            .open
            .iter()
            .filter(|(_, reader)| !reader.watches)
            .map(|(id, _)| *id);
        let only = match (named, waiting.next(), waiting.next()) {
            (Some(id), ..) | (None, Some(id), None) => id,
            (None, None, _) => {
                tracing::warn!(why = kind(&why), "ignored an answer while no request was open");
                return None;
            }
            (None, Some(one), Some(other)) => {
                let mut requests: Vec<u64> = vec![one, other];
                requests.extend(waiting);
                tracing::warn!(
                    why = kind(&why),
                    open = requests.len(),
                    "it is not known whose an answer is; the server is asked whether it is there"
                );
                let is_probed = self.doubt.is_some();
                let doubt = self.doubt.get_or_insert(Doubt {
                    requests: Vec::new(),
                    why,
                });
                doubt.requests.extend(requests);
                return (!is_probed).then(|| format!(r#"{{"id":{PROBE},"jsonrpc":"2.0","method":"ping"}}"#));
            }
        };
        self.suspect(only, answer);
        None
    }

    fn answer(&mut self, id: u64, message: Result<Vec<u8>, RequestError>) {
        self.suspected.remove(&id);
        if let Some(reader) = self.open.remove(&id) {
            let behind = self.others.as_ref().and_then(Others::unhandled);
            let _ = reader.messages.try_send(Delivery { message, behind });
        }
    }

    fn end_doubt(&mut self) {
        let Some(Doubt { requests, why }) = self.doubt.take() else {
            return;
        };
        let open = requests.len();
        for id in requests {
            let why = format!("{why} (one of {open} requests that were open; it is not known which)");
            self.answer(id, Err(RequestError::Invalid(why)));
        }
    }
}
