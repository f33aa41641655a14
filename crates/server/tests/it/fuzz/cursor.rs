//! Damaged cursors.

use super::{DAMAGED_SEALS, json::ByteDamage, world::World};
use crate::request::Post;
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
        let sessions = [(); 2].map(|()| world.send(&Post::initialize("2025-11-25")).session.unwrap());
        let cursors = sessions.each_ref().map(|session| {
            for _ in 0..TASKS {
                let mut call = Post::legacy_call(Some(session), "always", "echo");
                call.body["params"]["task"] = json!({});
                assert!(answer(&world, &call)["result"].is_object());
            }
            let list = answer(&world, &list(session, json!({})));
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
                let bytes = ByteDamage::bend(damage, self.cursors[usize::from(*of)].as_str());
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Cursor::Any(text) => text.clone(),
        };
        let list = list(&self.sessions[sender], json!({"cursor": cursor}));
        let answer = answer(&self.world, &list);
        if cursor == self.cursors[sender] {
            assert_eq!(answer["result"]["tasks"].as_array().unwrap().len(), 1);
        } else {
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
}

fn list(session: &str, params: Value) -> Post {
    Post::legacy(Some(session), "tasks/list", params)
}

fn answer(world: &World, post: &Post) -> Value {
    let reply = world.send(&post.clone().json_only());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.messages[0].1.clone()
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
