//! Damaged cursors.

use super::{DAMAGED_SEALS, json::ByteDamage, world::World};
use bolero::{TypeGenerator, generator::produce};
use serde_json::{Value, json};
use std::cell::OnceCell;

#[derive(Debug, Clone, TypeGenerator)]
struct Case {
    sender: bool,
    cursor: Cursor,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Cursor {
    Bent {
        of: bool,
        #[generator(produce::<Vec<_>>().with().len(0..4usize))]
        damage: Vec<ByteDamage>,
    },
    Any(String),
}

/// Two sessions with more tasks than a page holds.
struct Lists {
    world: World,
    sessions: [String; 2],
    cursors: [String; 2],
}

/// More than a page.
const TASKS: usize = 51;

impl Lists {
    fn fill() -> Self {
        let world = World::new();
        let sessions = [(); 2].map(|()| begin(&world));
        let cursors = [0, 1].map(|nth| {
            let session = Some(sessions[nth].as_str());
            for _ in 0..TASKS {
                let call = json!({"name": "always", "arguments": {"act": "echo"}, "task": {}});
                assert!(post(&world, session, "tools/call", &call)["result"].is_object());
            }
            let list = post(&world, session, "tasks/list", &json!({}));
            list["result"]["nextCursor"].as_str().unwrap().to_owned()
        });
        Self {
            world,
            sessions,
            cursors,
        }
    }

    /// A cursor continues the list it came from and no other.
    fn check(&self, case: &Case) {
        let sender = usize::from(case.sender);
        let cursor = match &case.cursor {
            Cursor::Bent { of, damage } => {
                let mut bytes = self.cursors[usize::from(*of)].clone().into_bytes();
                damage.iter().for_each(|damage| damage.apply(&mut bytes));
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Cursor::Any(text) => text.clone(),
        };
        let session = Some(self.sessions[sender].as_str());
        let answer = post(&self.world, session, "tasks/list", &json!({"cursor": cursor}));
        if cursor == self.cursors[sender] {
            assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 1);
        } else {
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
}

fn begin(world: &World) -> String {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}});
    let (session, _) = exchange(world, None, "initialize", &params);
    session.unwrap()
}

fn post(world: &World, session: Option<&str>, method: &str, params: &Value) -> Value {
    exchange(world, session, method, params).1
}

fn exchange(world: &World, session: Option<&str>, method: &str, params: &Value) -> (Option<String>, Value) {
    let mut headers = vec![
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("accept".to_owned(), b"application/json".to_vec()),
    ];
    headers.extend(session.map(|session| ("mcp-session-id".to_owned(), session.as_bytes().to_vec())));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let reply = world.post(&headers, body.to_string().into_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    (reply.session, serde_json::from_slice(&reply.body).unwrap())
}

#[test]
fn cursor() {
    let lists = OnceCell::new();
    let lists = std::panic::AssertUnwindSafe(&lists);
    bolero::check!(name = "cursor")
        .with_iterations(DAMAGED_SEALS)
        .with_type::<Case>()
        .for_each(move |case| lists.get_or_init(Lists::fill).check(case));
}
