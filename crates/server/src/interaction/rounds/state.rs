//! The state that a client carries from one round to the next: signed, bound to its request and its sender, and valid for a limited time.

use crate::signer::{Signer, VerifiedBody};
use longhaul_core::{Json, Principal, UnixMillis, canonical_digest};
use longhaul_wire::{Method, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const DIGEST_BYTES: usize = 32;
const HEAD_BYTES: usize = DIGEST_BYTES + 8;

/// Where a series of rounds stands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RoundState {
    /// A plain call waits for its client's retry.
    Call {
        /// The task behind the call.
        task: String,
        /// The keys of the questions, by the names they were shown under.
        asked: BTreeMap<String, String>,
    },
    /// A handler is run again with the answers so far.
    Handler {
        /// By name.
        answers: BTreeMap<String, Box<RawValue>>,
        /// What this round asked.
        asked: BTreeSet<String>,
    },
}

/// The request that a state belongs to: a retry must be the same request of the same sender.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) principal: Principal,
    pub(crate) method: Method,
    /// The tool's or prompt's name, or the resource's URI.
    pub(crate) target: String,
    pub(crate) arguments: Option<Json>,
}

impl Binding {
    fn digest(&self) -> [u8; DIGEST_BYTES] {
        let mut digest = Sha256::new();
        for part in [self.principal.as_str(), self.method.as_str(), &self.target] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        // A client may write its arguments down in another order, or leave out that there are none.
        let none = Json::trusted("{}");
        digest.update(canonical_digest(self.arguments.as_ref().unwrap_or(&none)));
        digest.finalize().into()
    }
}

impl RoundState {
    /// The state as the client carries it.
    pub(crate) fn sign(&self, signer: &Signer, binding: &Binding, until: UnixMillis) -> String {
        let mut body = binding.digest().to_vec();
        body.extend(until.0.to_be_bytes());
        // A state is text, numbers and JSON that was read before: writing it cannot fail.
        body.extend(serde_json::to_vec(self).unwrap_or_default());
        signer.sign(&body)
    }

    /// The state that a retry brings.
    ///
    /// # Errors
    /// −32602 for one that is not ours, or no longer what it was; that has expired; or that belongs to another request or sender.
    pub(crate) fn open(text: &str, signer: &Signer, binding: &Binding, now: UnixMillis) -> Result<Self, RpcError> {
        // Also for a state of another sender, who is not told that it is one.
        let altered = || {
            RpcError::invalid_params(
                "params.requestState is not one that this server gave out for this request, or it is too old: retry with the same name, arguments and sender, or send the request anew, without it",
            )
        };
        let VerifiedBody(body) = signer.verify(text).ok_or_else(altered)?;
        let (head, state) = body.split_at_checked(HEAD_BYTES).ok_or_else(altered)?;
        let (digest, until) = head.split_at(DIGEST_BYTES);
        let until = UnixMillis(i64::from_be_bytes(until.try_into().map_err(|_| altered())?));
        if digest != binding.digest() {
            return Err(altered());
        }
        if until <= now {
            return Err(RpcError::invalid_params(
                "params.requestState has expired: send the request anew, without it",
            ));
        }
        serde_json::from_slice(state).map_err(|_| altered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000);
    const UNTIL: UnixMillis = UnixMillis(2_000);

    fn binding(principal: &str, target: &str, arguments: Option<&str>) -> Binding {
        Binding {
            principal: Principal::named(principal),
            method: Method::ToolsCall,
            target: target.to_owned(),
            arguments: arguments.map(Json::trusted),
        }
    }

    fn mine() -> Binding {
        binding("me", "tool", Some(r#"{"a":{"x":1,"y":[2]},"b":"c"}"#))
    }

    fn state() -> RoundState {
        RoundState::Call {
            task: "t-1".to_owned(),
            asked: BTreeMap::from([("name".to_owned(), "in-2".to_owned())]),
        }
    }

    fn open(text: &str, binding: &Binding) -> RoundState {
        RoundState::open(text, &Signer::of_secret(1), binding, NOW).unwrap()
    }

    fn why(text: &str, secret: u8, binding: &Binding, now: UnixMillis) -> String {
        let error = RoundState::open(text, &Signer::of_secret(secret), binding, now).unwrap_err();
        assert_eq!((error.code(), error.status()), (-32602, 200));
        error.message().to_owned()
    }

    #[test]
    fn a_state_is_valid_for_the_same_request_in_any_spelling() {
        let text = state().sign(&Signer::of_secret(1), &mine(), UNTIL);
        let same = binding("me", "tool", Some(r#" {"b" : "c", "a": {"y":[2],"x":1}}"#));
        for binding in [mine(), same] {
            let RoundState::Call { task, asked } = open(&text, &binding) else {
                panic!("another state")
            };
            assert_eq!(task, "t-1");
            assert_eq!(asked["name"], "in-2");
        }
        let bare = state().sign(&Signer::of_secret(1), &binding("me", "tool", None), UNTIL);
        open(&bare, &binding("me", "tool", Some("{}")));
    }

    #[test]
    fn answers_are_carried_byte_for_byte() {
        let answer = r#"{ "action":"accept", "content":{"n":1.50}}"#;
        let state = RoundState::Handler {
            answers: BTreeMap::from([("a\"b".to_owned(), RawValue::from_string(answer.to_owned()).unwrap())]),
            asked: BTreeSet::from(["next".to_owned()]),
        };
        let text = state.sign(&Signer::of_secret(1), &mine(), UNTIL);
        let RoundState::Handler { answers, asked } = open(&text, &mine()) else {
            panic!("another state")
        };
        assert_eq!(answers["a\"b"].get(), answer);
        assert!(asked.contains("next"));
    }

    #[test]
    fn u_12_hostile_states_are_refused_with_a_reason() {
        let is_foreign = |text: &str, secret, binding: &Binding| {
            let why = why(text, secret, binding, NOW);
            assert!(why.contains("not one that"), "{text}: {why}");
        };
        let text = state().sign(&Signer::of_secret(1), &mine(), UNTIL);
        is_foreign(&text, 2, &mine());
        assert!(why(&text, 1, &mine(), UNTIL).contains("expired"));
        for other in [
            binding("you", "tool", mine().arguments.as_ref().map(Json::as_str)),
            binding("me", "tool2", mine().arguments.as_ref().map(Json::as_str)),
            binding("me", "tool", Some(r#"{"a":{"x":1,"y":[2]},"b":"d"}"#)),
            binding("me", "tool", None),
        ] {
            is_foreign(&text, 1, &other);
        }
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut altered = text.clone().into_bytes();
                altered[at] ^= 1 << bit;
                is_foreign(&String::from_utf8(altered).unwrap(), 1, &mine());
            }
            is_foreign(&text[..at], 1, &mine());
        }
        for longer in ["A", "-TAMPERED", "==", " "] {
            is_foreign(&format!("{text}{longer}"), 1, &mine());
        }
    }
}
