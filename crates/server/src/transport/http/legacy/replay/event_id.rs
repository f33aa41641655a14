//! Event ids: `<stream>.<nth>`.

use crate::{response::resumption::Resumption, session::Session, signer::Signer};
use longhaul_core::Entropy;

/// No stream has more events. A client may make up an event number of its own stream, from which the numbers then continue.
const MOST_EVENTS: u64 = u32::MAX as u64;
const NAME_BYTES: usize = 16;
/// What the names of streams begin with that carry what is done once they are gone, if an event store has their events, too.
const ANSWER: &str = "answer-";
/// What the names of push streams begin with.
const PUSH: &str = "push-";
/// Of those that tell of tasks alone. A stream of an earlier release may tell of resources, too.
const PUSH_OF_TASKS: &str = "push-tasks-";

/// Up to where a client has read a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId<'a> {
    /// The stream's name.
    pub(crate) stream: &'a str,
    /// The last event read, counted from 0.
    pub(crate) nth: u64,
}

impl<'a> EventId<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (stream, nth) = text.rsplit_once('.')?;
        let nth = nth.parse().ok().filter(|nth: &u64| *nth < MOST_EVENTS)?;
        Some(Self { stream, nth })
    }
}

/// An unguessable name for a stream of `session`: it carries what is done once the stream is gone, signed.
pub(super) fn name(
    signer: &Signer,
    entropy: &dyn Entropy,
    session: &Session,
    resumption: Option<&Resumption>,
) -> String {
    let Some((resumption, text)) = resumption.and_then(|resumption| Some((resumption, resumption.encode()?))) else {
        return random_name(entropy);
    };
    let body = [session.key.as_str(), "\n", &text].concat();
    match resumption {
        Resumption::Repeat(_) => signer.sign(body.as_bytes()),
        Resumption::Rejoin { .. } => format!("{ANSWER}{}", signer.sign(body.as_bytes())),
        // Nothing else in it differs from that of another stream, if a session uses the id of a request again.
        Resumption::Fail(_) => {
            let body = [body.as_str(), "\n", &random_name(entropy)].concat();
            format!("{ANSWER}{}", signer.sign(body.as_bytes()))
        }
    }
}

/// An unguessable name for a push stream, which says what it tells of: another process may find it again.
pub(super) fn push_name(entropy: &dyn Entropy, tells_of_resources: bool) -> String {
    let prefix = if tells_of_resources { PUSH } else { PUSH_OF_TASKS };
    format!("{prefix}{}", random_name(entropy))
}

/// Whether the push stream of this name tells of resources that are not those of tasks.
pub(crate) fn tells_of_resources(name: &str) -> bool {
    !name.starts_with(PUSH_OF_TASKS)
}

/// Whether a name is that of a push stream.
pub(crate) fn is_push(name: &str) -> bool {
    name.starts_with(PUSH)
}

/// Whether an event store keeps the events of the stream of this name. Those of a request that can be repeated are not needed.
pub(super) fn is_kept(name: &str) -> bool {
    if name.starts_with(ANSWER) {
        return true;
    }
    let digits = name.strip_prefix(PUSH_OF_TASKS).or_else(|| name.strip_prefix(PUSH));
    let digits = digits.unwrap_or(name);
    digits.len() == 2 * NAME_BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is done for a client that resumes the stream of this name, if `session` once had such a stream.
pub(super) fn resumption_of(signer: &Signer, session: &Session, name: &str) -> Option<Resumption> {
    let signed = name.strip_prefix(ANSWER).unwrap_or(name);
    let body = String::from_utf8(signer.verify(signed)?.0).ok()?;
    let mut lines = body.split('\n');
    let (key, text) = (lines.next()?, lines.next()?);
    Resumption::decode(text).filter(|_| key == session.key.as_str())
}

fn random_name(entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; NAME_BYTES];
    entropy.fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_event_ids_are_refused() {
        assert_eq!(EventId::parse("a.b.7"), Some(EventId { stream: "a.b", nth: 7 }));
        for wrong in ["", "a", "a.", "a.x", "a.-1", "a.18446744073709551614", "7"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }
}
