//! Playing a scene to a server, and keeping what a client would.

use super::{
    expected::{self, Received, Seen},
    grammar::{DamagedRequest, Family, Id, Known, Request, Scene, Sender, Sent},
    json::Rarely,
    world::World,
};
use serde_json::Value;
use std::collections::HashMap;

/// Plays a scene.
pub(super) fn play(world: &World, scene: &Scene, family: Family) {
    let mut play = Play {
        world,
        family,
        known: Known::default(),
        given: HashMap::new(),
    };
    if family == Family::Legacy {
        play.step(&handshake());
    }
    for step in &scene.steps {
        play.step(step);
    }
}

struct Play<'a> {
    world: &'a World,
    family: Family,
    known: Known,
    /// The arguments of each task and the answers to its question: its result must contain one of these.
    given: HashMap<String, Vec<String>>,
}

fn handshake() -> DamagedRequest {
    DamagedRequest {
        request: Request::Initialize(0),
        id: Id::Number(0),
        sender: Sender {
            declares_tasks: true,
            declares_legacy_tasks: false,
            can_be_asked: true,
            takes_stream: true,
            progress_token: None,
            sessionless: true,
        },
        damage: Vec::new(),
        headers: Rarely(None),
        bytes: Rarely(None),
        spread: false,
    }
}

impl Play<'_> {
    fn step(&mut self, step: &DamagedRequest) {
        let Sent { headers, body } = step.write(self.family, &self.known);
        let seen = Seen::of(&body);
        let before = self.world.started();
        let reply = self.world.post(&headers, body.clone());
        let started = self.world.started() - before;
        let Received { response, questions } = expected::check(&seen, &reply);
        assert!(started <= 1, "one call, {started} runs");
        if started > 0 {
            assert_eq!(seen.method(), "tools/call");
            // Whether an answer that came along fits is known only when the question has been asked.
            if let Some((text, response)) = response.as_ref().filter(|_| !seen.is_another_round()) {
                // The tool's own error, of a client that cannot be asked.
                let is_refused = expected::is_refusal(response) && !text.contains("the client refused: ");
                assert!(!is_refused, "refused and started all the same: {text}");
            }
        }
        for (id, text) in questions {
            let is_kept = seen.arguments().is_none_or(|given| text.contains(given));
            assert!(is_kept, "the question lost what was given: {text}");
            self.known.asked.push(id);
        }
        if let Some(session) = reply.session {
            self.known.session = Some(session);
        }
        if let Some((text, response)) = response {
            self.known.learn(&response);
            self.is_kept(&seen, &text, &response);
        }
    }

    /// A tool's arguments and results arrive unchanged (invariant 8).
    fn is_kept(&mut self, seen: &Seen<'_>, text: &str, response: &Value) {
        let Some(result) = response.get("result") else { return };
        match seen.method() {
            "tools/call" => {
                let given = seen.arguments().unwrap_or("{}");
                let task = result["task"]["taskId"].as_str().or(result["taskId"].as_str());
                match task {
                    Some(task) => {
                        self.given.insert(task.to_owned(), vec![given.to_owned()]);
                        self.known.tasks.push(task.to_owned());
                    }
                    None if result["isError"] == true => {}
                    // A later round continues with the arguments of the first.
                    None if result["resultType"] == "input_required" && seen.is_another_round() => {}
                    None => {
                        // A question of the call's is answered with what came along.
                        let mut kept = vec![given.to_owned()];
                        kept.extend(seen.answers());
                        assert!(kept.iter().any(|kept| text.contains(kept)), "{given} is lost: {text}");
                    }
                }
            }
            "tasks/update" => {
                let given = self.given.get_mut(&seen.task().unwrap());
                given.unwrap().extend(seen.answers());
            }
            "tasks/get" | "tasks/result" => {
                let task = seen.task().unwrap();
                let given = self.given.get(&task);
                let given = given.unwrap_or_else(|| panic!("{task} was never made: {text}"));
                let is_kept = given.iter().any(|given| text.contains(given));
                assert!(is_kept || !shows_given(result), "{given:?} is lost: {text}");
            }
            _ => {}
        }
    }
}

/// Whether the result of a task, or its question, is in `result`.
fn shows_given(result: &Value) -> bool {
    let asked = result["inputRequests"].as_object();
    let outcome = result
        .pointer("/result/structuredContent")
        .or(result.get("structuredContent"));
    outcome.is_some() || asked.is_some_and(|asked| !asked.is_empty())
}
