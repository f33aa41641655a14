//! The requests of a stream that wait for answers, and what may be an answer.
#![expect(clippy::disallowed_methods, reason = "real pipes are not simulated")]

use crate::transport::stream::{
    recipient::{OfNotification, Recipient, Unclear, recipient},
    unframed::PartialMessage,
};
use crate::{RequestError, error::excerpt};
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, hash_map::Entry},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// How long the true answer is waited for behind what may be one: servers print what they are about to send.
const SUSPICION: Duration = Duration::from_secs(2);
/// How long it is waited for behind a response that is only mentioned in a line.
const MENTIONED: Duration = Duration::from_secs(5);
/// The same in a handshake, for whose answers a client waits only a few seconds.
const MENTIONED_IN_HANDSHAKE: Duration = Duration::from_secs(1);
/// How many answers a handshake has at most.
const HANDSHAKE_ANSWERS: u64 = 2;
/// How long at most, while the server writes; also behind an error without an id that comes soon after a notification, which it may be about.
const LONGEST_SUSPICION: Duration = Duration::from_secs(10);
/// How long it is waited for while the request goes on: progress of it came behind what may be its answer.
const GOES_ON: Duration = Duration::from_secs(90);
/// How long after a notification an error without an id may be about it: servers may not answer one, and some do.
const OF_NOTIFICATION: Duration = Duration::from_secs(5);
/// How long it is waited for while an answer over several lines goes on, and behind a probe.
const LONG_SUSPICION: Duration = Duration::from_secs(30);
/// After so many responses behind words that were answers, the next ones are not waited for.
const ENOUGH_MENTIONS: usize = 2;
/// The longest message over several lines, in bytes.
const MAX_JOINED: usize = 64 << 20;

pub(crate) type Messages = mpsc::Sender<Delivery>;

/// Who waits for the messages of a request.
pub(crate) struct OpenReader {
    pub(crate) messages: Messages,
    /// It is answered when its client does not want to watch any more.
    pub(crate) watches: bool,
    /// How many notifications were sent before it.
    pub(crate) notified: u64,
}

/// An answer could have been that of each of these requests. What is answered before the probe, or soon after it, is not in doubt.
pub(crate) struct Doubt {
    requests: BTreeSet<u64>,
    /// The id of a request that the server is sent to be answered behind what it has begun.
    probe: u64,
    why: String,
}

/// What may be an answer.
pub(crate) struct SuspectedAnswer {
    answer: Result<Vec<u8>, RequestError>,
    /// It is only mentioned in a line.
    is_mentioned: bool,
    /// When it is taken for the answer.
    until: Instant,
    /// The same while the server goes on writing.
    last: Instant,
}

impl SuspectedAnswer {
    pub(crate) fn new(answer: Result<Vec<u8>, RequestError>, is_mentioned: bool) -> Self {
        let now = Instant::now();
        Self {
            answer,
            is_mentioned,
            until: now + if is_mentioned { MENTIONED } else { SUSPICION },
            last: now + LONGEST_SUSPICION,
        }
    }

    fn held_for(self, time: Duration) -> Self {
        Self {
            until: Instant::now() + time,
            ..self
        }
    }
}

/// The notifications that were sent, and those of them that will not be answered any more: most servers take one message after the other.
#[derive(Default)]
pub(crate) struct NotificationCounts {
    pub(crate) sent: u64,
    over: u64,
    /// How many the server has refused as unknown methods.
    unknown: u64,
    last: Option<Instant>,
}

impl NotificationCounts {
    pub(crate) fn note_sent(&mut self) {
        self.sent += 1;
        self.last = Some(Instant::now());
    }

    /// Whether one was sent just now.
    fn is_recent(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < OF_NOTIFICATION)
    }
}

/// A message for the reader of a request.
pub(crate) struct Delivery {
    pub(crate) message: Result<Vec<u8>, RequestError>,
    /// What must have been handled before it.
    pub(crate) behind: Option<Behind>,
}

/// What came before on the same stream and belongs to no request. Its reader is another one, and a log message of a call must not be handled behind the
/// call's response.
pub(crate) struct Behind {
    handled: watch::Receiver<u64>,
    count: u64,
}

impl Behind {
    pub(crate) async fn until_handled(mut self) {
        // An error: nobody reads it any more.
        let _ = self.handled.wait_for(|handled| *handled >= self.count).await;
    }
}

/// The reader of what belongs to no request.
pub(crate) struct Others {
    pub(crate) reader: Messages,
    /// How many messages it was sent.
    pub(crate) sent: u64,
    /// How many of them it has handled.
    pub(crate) handled: watch::Receiver<u64>,
}

impl Others {
    /// What it was sent and has not handled, if anything.
    pub(crate) fn unhandled(&self) -> Option<Behind> {
        let is_behind = *self.handled.borrow() < self.sent;
        is_behind.then(|| Behind {
            handled: self.handled.clone(),
            count: self.sent,
        })
    }
}

/// The requests of one stream, and what it has sent that is not handed on yet.
pub(crate) struct OpenRequests {
    pub(crate) open: HashMap<u64, OpenReader>,
    /// The smallest and the largest id of a request so far.
    pub(crate) ids: Option<(u64, u64)>,
    /// What may be a message over several lines.
    pub(crate) unfinished: Option<PartialMessage>,
    /// What may be the answers to requests, and when it is taken for them if no other comes.
    pub(crate) suspected: HashMap<u64, SuspectedAnswer>,
    /// How many responses behind words were taken for answers, since one came without words: the server may write words before all of them.
    pub(crate) mentions_taken: usize,
    /// How many requests were answered.
    pub(crate) answered: u64,
    /// An answer was one line.
    pub(crate) answers_in_lines: bool,
    pub(crate) notified: NotificationCounts,
    /// Set while it is not known whose an answer was that could not be read.
    pub(crate) doubt: Option<Doubt>,
    /// Gets what belongs to no request.
    pub(crate) others: Option<Others>,
    /// Why the stream has ended, if it has.
    pub(crate) ended: Option<StreamEnd>,
    /// How many messages were dropped because they were not read in time.
    pub(crate) dropped: u64,
    /// A line that is no message was named since the last request was opened.
    pub(crate) has_named_noise: bool,
}

/// Whether a line that is no message is a part of one.
pub(crate) enum JoinedMessage {
    /// The last part: this is the text.
    Whole(Vec<u8>),
    /// There may be more.
    Unfinished,
    No,
}

impl OpenRequests {
    /// Joins a line with those before it, if they may be one message.
    pub(crate) fn join(&mut self, line: &[u8]) -> JoinedMessage {
        let Some(unfinished) = self.unfinished.as_mut().filter(|unfinished| unfinished.takes(line)) else {
            return JoinedMessage::No;
        };
        // An answer to an open request is none of its lines, nor is a message that is not indented.
        let begins = line.starts_with(b"{");
        match recipient(line) {
            Ok(Recipient::Response(id)) if self.open.contains_key(&id) => {
                if begins {
                    return JoinedMessage::No;
                }
                // Within an object that may be the answer itself: that counts if it becomes one.
                if unfinished.answers().is_none_or(|answers| answers == id) {
                    let mentioned = SuspectedAnswer::new(Ok(line.to_vec()), true);
                    self.suspected.entry(id).or_insert(mentioned);
                }
            }
            Ok(_) if begins => return JoinedMessage::No,
            _ => {}
        }
        match unfinished.add(line) {
            Some(text) => {
                // What is wrong with it is said better now.
                let answers = self.unfinished.take().and_then(|mut unfinished| unfinished.answers());
                if let Some(id) = answers.filter(|id| self.suspected.get(id).is_some_and(|known| known.answer.is_err()))
                {
                    self.suspected.remove(&id);
                }
                JoinedMessage::Whole(text)
            }
            None if unfinished.len() > MAX_JOINED => {
                self.unfinished = None;
                JoinedMessage::No
            }
            None => {
                self.suspect_unfinished();
                JoinedMessage::Unfinished
            }
        }
    }

    /// What has begun as the answer to an open request is waited for as long as it goes on.
    fn suspect_unfinished(&mut self) {
        let Some(unfinished) = &mut self.unfinished else {
            return;
        };
        let Some(id) = unfinished.answers().filter(|id| self.open.contains_key(id)) else {
            return;
        };
        let until = Instant::now() + LONG_SUSPICION;
        match self.suspected.entry(id) {
            Entry::Occupied(mut known) => known.get_mut().until = until.max(known.get().until),
            Entry::Vacant(entry) => {
                let why = "its answer, which is not one line of JSON, has no end".to_owned();
                entry.insert(SuspectedAnswer::new(Err(RequestError::Invalid(why)), false).held_for(LONG_SUSPICION));
            }
        }
    }

    /// A line that is no message may be what a request waits for. One is named for each request.
    pub(crate) fn name_noise(&mut self, address: &str, line: &[u8]) {
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

    /// What may be the answer to an open request: a better one is waited for, for a moment.
    pub(crate) fn suspect(&mut self, id: u64, new: SuspectedAnswer) {
        if new.is_mentioned && self.mentions_taken >= ENOUGH_MENTIONS {
            return self.answer(id, new.answer);
        }
        let new = match new.is_mentioned && self.answered < HANDSHAKE_ANSWERS {
            true => new.held_for(MENTIONED_IN_HANDSHAKE),
            false => new,
        };
        // What is said again is not waited for again.
        match self.suspected.entry(id) {
            Entry::Occupied(mut earlier) if new.answer.is_ok() => {
                let (until, last) = (earlier.get().until, earlier.get().last);
                earlier.insert(SuspectedAnswer { until, last, ..new });
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => drop(entry.insert(new)),
        }
    }

    /// A request goes on, so what may be its answer is probably none: a server may also send its progress late.
    pub(crate) fn goes_on(&mut self, id: u64) {
        if let Some(suspected) = self.suspected.get_mut(&id) {
            suspected.until = Instant::now() + GOES_ON;
        }
    }

    /// When what may be an answer is taken for one.
    pub(crate) fn settles_at(&self) -> Option<Instant> {
        self.suspected.values().map(|suspected| suspected.until).min()
    }

    /// Takes what may be an answer for one, if a better one has not come in time. It is waited for longer while the server `writes`.
    pub(crate) fn settle(&mut self, writes: bool) {
        let now = Instant::now();
        let is_over = |suspected: &mut SuspectedAnswer| {
            if writes && suspected.until <= now && now < suspected.last {
                suspected.until = suspected.last.min(now + SUSPICION);
            }
            suspected.until <= now
        };
        let over: Vec<_> = self.suspected.extract_if(|_, suspected| is_over(suspected)).collect();
        for (id, suspected) in over {
            self.mentions_taken += usize::from(suspected.is_mentioned);
            self.answer(id, suspected.answer);
        }
    }

    /// Takes all that may be an answer for one, since no other comes.
    pub(crate) fn settle_all(&mut self) {
        for (id, suspected) in std::mem::take(&mut self.suspected) {
            self.answer(id, suspected.answer);
        }
    }

    /// Whether it is the answer to a notification that was sent.
    fn answers_notification(&mut self, of_notification: OfNotification) -> bool {
        let NotificationCounts {
            sent, over, unknown, ..
        } = self.notified;
        let is_one = match of_notification {
            OfNotification::No => false,
            OfNotification::Possibly => over < sent,
            // However late: requests have ids, so it is none of a request that was sent later.
            OfNotification::Probably => unknown < sent,
        };
        self.notified.over = sent.min(over + u64::from(is_one));
        self.notified.unknown += u64::from(is_one && of_notification == OfNotification::Probably);
        is_one
    }

    /// An answer of which it is not certain whose it is, or whether it is one. If only one request can be meant, that gets it, unless a better one follows; else a
    /// probe is sent, and what is open soon after that is answered fails.
    pub(crate) fn unclear(
        &mut self,
        address: &str,
        unclear: Unclear,
        message: &[u8],
        answer: Result<Vec<u8>, RequestError>,
    ) -> Option<String> {
        let named = unclear.id.filter(|id| self.open.contains_key(id));
        let Unclear {
            id: unclear_id,
            needs_id,
            of_notification,
            why,
        } = unclear;
        if named.is_none() && (needs_id || unclear_id.is_none() && self.answers_notification(of_notification)) {
            self.name_noise(address, message);
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
                let requests: BTreeSet<u64> = waiting.chain([one, other]).collect();
                tracing::warn!(
                    why = kind(&why),
                    open = requests.len(),
                    "it is not known whose an answer is; the server is asked whether it is there"
                );
                if let Some(doubt) = &mut self.doubt {
                    doubt.requests.extend(requests);
                    return None;
                }
                // A number, as all ids are: some servers know no others.
                let ids = self.ids.get_or_insert_default();
                ids.0 = ids.0.saturating_sub(1);
                let probe = ids.0;
                self.doubt = Some(Doubt { requests, probe, why });
                return Some(format!(r#"{{"id":{probe},"jsonrpc":"2.0","method":"ping"}}"#));
            }
        };
        // Servers with threads answer a notification late.
        let may_be_late = unclear_id.is_none() && answer.is_ok() && self.notified.is_recent();
        let suspected = match may_be_late {
            true => SuspectedAnswer::new(answer, false).held_for(LONGEST_SUSPICION),
            false => SuspectedAnswer::new(answer, false),
        };
        self.suspect(only, suspected);
        None
    }

    pub(crate) fn answer(&mut self, id: u64, message: Result<Vec<u8>, RequestError>) {
        self.suspected.remove(&id);
        if let Some(reader) = self.open.remove(&id) {
            self.answered += 1;
            // A server takes one message after the other, so those before it were not answered.
            self.notified.over = self.notified.over.max(reader.notified);
            let behind = self.others.as_ref().and_then(Others::unhandled);
            // A place is kept free for it.
            let _ = reader.messages.try_send(Delivery { message, behind });
            self.is_not_meant(id);
        }
    }

    /// A request was answered. If only one of those in doubt is left, that is the one.
    fn is_not_meant(&mut self, id: u64) {
        let is_last = |doubt: &mut Doubt| doubt.requests.remove(&id) && doubt.requests.len() == 1;
        if let Some(Doubt { requests, why, .. }) = self.doubt.take_if(is_last) {
            for only in requests {
                self.suspect(
                    only,
                    SuspectedAnswer::new(Err(RequestError::Invalid(why.clone())), false),
                );
            }
        }
    }

    /// Whether this is the id of the probe, and it is waited for.
    pub(crate) fn is_probe(&self, id: u64) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.probe == id)
    }

    /// The probe was answered, or does not come: what is in doubt fails, unless a better answer is on its way.
    pub(crate) fn end_doubt(&mut self) {
        let Some(Doubt { requests, why, .. }) = self.doubt.take() else {
            return;
        };
        let open = requests.len();
        for id in requests {
            let why = format!("{why} (one of {open} requests that were open; it is not known which)");
            let suspected = SuspectedAnswer::new(Err(RequestError::Invalid(why)), false);
            self.suspect(id, suspected.held_for(LONG_SUSPICION));
        }
    }

    /// Whether this is the id of a request of this stream.
    pub(crate) fn has_sent(&self, id: u64) -> bool {
        self.ids.is_some_and(|(first, last)| (first..=last).contains(&id))
    }
}

/// What is wrong with an answer, without what it says.
fn kind(why: &str) -> &str {
    why.split_once(':').map_or(why, |(kind, _)| kind)
}

/// Why a stream has ended.
#[derive(Debug, Clone)]
pub(crate) struct StreamEnd {
    pub(crate) reason: String,
    /// The last that its child process has written to its standard error.
    pub(crate) stderr: Option<String>,
}

impl<T: Into<String>> From<T> for StreamEnd {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.into(),
            stderr: None,
        }
    }
}
