//! States of rounds that were given out, bent, swapped and brought back too late.

use super::{
    DAMAGED_SEALS,
    json::{ByteDamage, Rarely},
    offers::CURIOUS,
    world::{World, Worlds},
};
use crate::request::{Post, everything};
use bolero::{TypeGenerator, generator::produce};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, Clone, TypeGenerator)]
struct Case {
    /// Which request the state was given to, and which one brings it back.
    of: u8,
    by: u8,
    state: Carried,
    answer: String,
    is_late: Rarely<()>,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Carried {
    Bent(#[generator(produce::<Vec<_>>().with().len(0..3usize))] Vec<ByteDamage>),
    /// With the tail of another one, which is good where this one may not be.
    Joined(u16),
    Any(String),
}

/// More than a client may take for a round.
const TOO_LONG: Duration = Duration::from_secs(16 * 60);
const REQUESTS: u8 = 5;

/// Alike and not the same: by arguments, tool and method.
fn request(nth: u8) -> Post {
    let (method, name, arguments) = match nth % REQUESTS {
        0 => ("tools/call", "never", json!({"act": "ask", "extra": 1})),
        1 => ("tools/call", "never", json!({"act": "ask", "extra": 2})),
        2 => ("tools/call", "optional", json!({"act": "ask", "extra": 1})),
        3 => ("prompts/get", CURIOUS, json!({"what": "1"})),
        _ => ("prompts/get", CURIOUS, json!({"what": "2"})),
    };
    let params = json!({"name": name, "arguments": arguments});
    Post::modern_with(method, params, everything())
}

/// The name of what is asked, and the state to come back with.
fn begin(world: &World, post: &Post) -> (String, String) {
    let round = result(world, post);
    assert_eq!(round["resultType"], "input_required", "{round}");
    let asked = round["inputRequests"].as_object().unwrap();
    let name = asked.keys().next().unwrap().clone();
    (name, round["requestState"].as_str().unwrap().to_owned())
}

fn result(world: &World, post: &Post) -> Value {
    let reply = world.send(post);
    let (_, answer) = reply.messages.last().unwrap();
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

/// The same request with a state and an answer.
fn retry(post: &Post, name: &str, state: &str, answer: &Value) -> Post {
    post.retry(&json!({"requestState": state}), json!({name: answer}))
}

impl Carried {
    fn write(&self, own: &str, other: &str) -> String {
        match self {
            Self::Bent(damage) => String::from_utf8_lossy(&ByteDamage::bend(damage, own)).into_owned(),
            Self::Joined(at) => {
                let at = usize::from(*at) % own.len();
                [&own[..at], other.get(at..).unwrap_or_default()].concat()
            }
            Self::Any(text) => text.clone(),
        }
    }
}

impl Case {
    /// A state is good for its own request, and for a while; whatever else was tried, its client can still come back.
    fn check(&self, world: &World) {
        let (given_to, brought_by) = (request(self.of), request(self.by));
        let (name, own) = begin(world, &given_to);
        let (other_name, other) = begin(world, &brought_by);
        let answer = json!({"action": "accept", "content": {"name": self.answer}});
        if self.is_late.0.is_some() {
            world.pass(TOO_LONG);
        }
        let text = self.state.write(&own, &other);
        let is_same = self.of % REQUESTS == self.by % REQUESTS;
        let is_good = self.is_late.0.is_none() && (text == other || (is_same && text == own));
        let before = world.started();
        let reply = world.send(&retry(&brought_by, &other_name, &text, &answer));
        let (_, received) = reply.messages.last().unwrap();
        assert_eq!(world.started(), before, "a retry begins nothing");
        if is_good {
            assert!(says(&received["result"], &answer), "{received}");
        } else {
            let refused = (reply.status, &received["error"]["code"]);
            assert_eq!(refused, (200, &json!(-32602)), "{received}");
        }
        if self.is_late.0.is_none() && !(is_good && text == own) {
            let result = result(world, &retry(&given_to, &name, &own, &answer));
            assert!(says(&result, &answer), "{result}");
        }
    }
}

/// Whether the work was given this answer.
fn says(result: &Value, answer: &Value) -> bool {
    let echoed = result["messages"][0]["content"]["text"].as_str();
    let echoed: Option<Value> = echoed.and_then(|text| serde_json::from_str(text).ok());
    result["structuredContent"]["given"] == *answer || echoed.as_ref() == Some(answer)
}

#[test]
fn state() {
    let worlds = std::panic::AssertUnwindSafe(Worlds::default());
    bolero::check!(name = "state")
        .with_iterations(DAMAGED_SEALS)
        .with_type::<Case>()
        .for_each(move |case| worlds.with(|world| case.check(world)));
}
