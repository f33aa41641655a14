//! Damaged event ids, sent back to streams that are kept, dropped, or another session's.

use super::{
    DAMAGED_SEALS,
    json::{ByteDamage, Rarely},
    world::{Reply, World, Worlds},
};
use crate::{request::Post, server::task_of};
use bolero::{TypeGenerator, generator::produce};
use http::HeaderValue;
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Clone, TypeGenerator)]
struct Case {
    #[generator(produce::<Vec<_>>().with().len(1..5usize))]
    requests: Vec<ResumeRequest>,
}

/// One GET.
#[derive(Debug, Clone, TypeGenerator)]
struct ResumeRequest {
    is_late: Rarely<()>,
    stream: u8,
    is_stranger: bool,
    id: Id,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Id {
    Event {
        nth: u8,
        #[generator(produce::<Vec<_>>().with().len(0..3usize))]
        damage: Vec<ByteDamage>,
    },
    /// The event of this number, which may not exist.
    Nth(u64),
    /// The same, counted back from the greatest number.
    FromTheEnd(u8),
    Any(Vec<u8>),
}

/// More than a stream is kept after its end, or after its last reader, and then after its end.
const TOO_LONG: Duration = Duration::from_secs(11 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Answers a call, and afterwards with an error.
    Call,
    /// Answers a `tasks/result`, and can be asked for again.
    Wait,
    Push,
}

/// A stream as its client knows it.
struct Stream {
    kind: Kind,
    name: String,
    /// The number of the first event.
    first: u64,
    /// The text of each, as it was read.
    events: Vec<String>,
    is_kept: bool,
}

impl Stream {
    fn read(kind: Kind, reply: &Reply) -> Self {
        let mut stream = Self {
            kind,
            name: String::new(),
            first: 0,
            events: events(reply),
            is_kept: true,
        };
        let (name, first) = parse(id_of(&stream.events[0])).unwrap();
        (stream.name, stream.first) = (name.to_owned(), first);
        stream
    }

    /// What is read after the event `nth`; `None` if that is outside of the stream.
    fn after(&self, nth: u64) -> Option<&[String]> {
        let read = nth.checked_add(1)?.checked_sub(self.first)?;
        self.events.get(usize::try_from(read).ok()?..)
    }
}

/// The events of a reply that have ids: others are no part of the stream.
fn events(reply: &Reply) -> Vec<String> {
    let text = String::from_utf8(reply.body.clone()).unwrap();
    let events = text.split_inclusive("\n\n").filter(|event| event.contains("id: "));
    events.map(str::to_owned).collect()
}

fn id_of(event: &str) -> &str {
    event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

fn parse(id: &str) -> Option<(&str, u64)> {
    let (name, nth) = id.rsplit_once('.')?;
    Some((name, nth.parse().ok()?))
}

/// A session with a stream of each kind, and one that has none.
struct Client<'w> {
    world: &'w World,
    session: String,
    stranger: String,
    streams: [Stream; 3],
}

impl<'w> Client<'w> {
    fn new(world: &'w World) -> Self {
        let begin = || world.send(&Post::initialize("2025-11-25")).session.unwrap();
        let (session, stranger) = (begin(), begin());
        let call = Post::legacy_call(Some(&session), "never", "tell").progress_token(json!("p"));
        let called = Stream::read(Kind::Call, &world.send(&call));
        let created = world.send(&Post::legacy_task(Some(&session), "always", "tell"));
        let task = task_of(&created.messages[0].1["result"]);
        let wait = Post::on_task(&session, "tasks/result", &task).id(json!("wait"));
        let waited = Stream::read(Kind::Wait, &world.send(&wait));
        let pushed = Stream::read(Kind::Push, &world.get(&headers(&session, None)));
        Self {
            world,
            session,
            stranger,
            streams: [called, waited, pushed],
        }
    }

    fn get(&mut self, request: &ResumeRequest) {
        let stream = &self.streams[usize::from(request.stream) % self.streams.len()];
        let id = request.id.write(stream);
        if HeaderValue::from_bytes(&id).is_err() {
            return;
        }
        if request.is_late.0.is_some() {
            self.world.pass(TOO_LONG);
            self.streams.iter_mut().for_each(|stream| stream.is_kept = false);
        }
        let session = match request.is_stranger {
            true => &self.stranger,
            false => &self.session,
        };
        let reply = self.world.get(&headers(session, Some(&id)));
        let found = std::str::from_utf8(&id).ok().and_then(parse).and_then(|(name, nth)| {
            let stream = self.streams.iter_mut().find(|stream| stream.name == name)?;
            Some((stream, nth))
        });
        match found.filter(|_| !request.is_stranger) {
            Some((stream, nth)) if stream.is_kept => match stream.after(nth) {
                Some(rest) => assert_eq!((reply.status, events(&reply)), (200, rest.to_vec()), "{reply:?}"),
                None => is_refused(&reply),
            },
            Some((stream, nth)) if stream.kind != Kind::Push && reply.status == 200 => {
                *stream = Stream::read(stream.kind, &reply);
                assert_eq!((stream.first, stream.events.len()), (nth + 1, 1), "the count goes on");
                let message = &reply.messages[0].1;
                if stream.kind == Kind::Wait {
                    assert_eq!(message["id"], "wait");
                } else {
                    assert_eq!(message["id"], 1);
                    assert_eq!(message["error"]["data"]["reason"], "interrupted");
                }
            }
            Some((stream, nth)) if stream.kind != Kind::Push => {
                assert!(nth >= u64::from(u32::MAX), "a sound id: {reply:?}");
                is_refused(&reply);
            }
            // A push stream that is not this session's, or not kept, is opened anew.
            _ if id.starts_with(b"push-")
                && (std::str::from_utf8(&id).ok().and_then(parse))
                    .is_some_and(|(_, nth)| nth < u64::from(u32::MAX)) =>
            {
                assert!([200, 429].contains(&reply.status), "{reply:?}");
                let mut known = self.streams.iter().flat_map(|stream| &stream.events);
                let told = events(&reply);
                // Nothing of another stream.
                assert!(known.all(|known| !told.contains(known)), "{reply:?}");
            }
            _ => is_refused(&reply),
        }
    }
}

/// Not as if the session had ended.
fn is_refused(reply: &Reply) {
    let (_, message) = &reply.messages[0];
    let refused = (reply.status, &message["error"]["code"]);
    assert_eq!(refused, (400, &json!(-32600)), "{reply:?}");
}

fn headers(session: &str, last_event: Option<&[u8]>) -> Vec<(String, Vec<u8>)> {
    let fixed = [("mcp-session-id", session.as_bytes()), ("accept", b"text/event-stream")];
    let all = fixed.into_iter().chain(last_event.map(|id| ("last-event-id", id)));
    all.map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}

impl Id {
    fn write(&self, stream: &Stream) -> Vec<u8> {
        match self {
            Self::Event { nth, damage } => {
                let event = &stream.events[usize::from(*nth) % stream.events.len()];
                ByteDamage::bend(damage, id_of(event))
            }
            Self::Nth(nth) => format!("{}.{nth}", stream.name).into_bytes(),
            Self::FromTheEnd(before) => format!("{}.{}", stream.name, u64::MAX - u64::from(*before)).into_bytes(),
            Self::Any(bytes) => bytes.clone(),
        }
    }
}

impl Case {
    /// A GET goes on exactly after the event it names, in its own session, and opens nothing else.
    fn check(&self, world: &World) {
        let mut client = Client::new(world);
        self.requests.iter().for_each(|request| client.get(request));
    }
}

#[test]
fn resume() {
    let worlds = std::panic::AssertUnwindSafe(Worlds::default());
    bolero::check!(name = "resume")
        .with_iterations(DAMAGED_SEALS)
        .with_type::<Case>()
        .for_each(move |case| worlds.with(|world| case.check(world)));
}
