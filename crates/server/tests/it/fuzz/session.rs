//! Damaged session ids.

use super::{DAMAGED_SEALS, json::ByteDamage, world::World};
use crate::request::Post;
use bolero::{TypeGenerator, generator::produce};
use std::cell::OnceCell;

#[derive(Debug, Clone, TypeGenerator)]
enum Forged {
    /// An id of ours, damaged.
    Bent {
        which: u8,
        #[generator(produce::<Vec<_>>().with().len(0..4usize))]
        damage: Vec<ByteDamage>,
    },
    /// The head of one and the tail of another.
    Joined {
        head: u8,
        tail: u8,
        at: u8,
    },
    Any(Vec<u8>),
}

const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

struct Office {
    world: World,
    issued: Vec<String>,
}

impl Office {
    fn open() -> Self {
        let world = World::new();
        let issued = VERSIONS.map(|version| world.send(&Post::initialize(version)).session.unwrap());
        let issued = issued.to_vec();
        Self { world, issued }
    }

    fn issued(&self, which: u8) -> &[u8] {
        self.issued[usize::from(which) % self.issued.len()].as_bytes()
    }

    fn forge(&self, forged: &Forged) -> Vec<u8> {
        match forged {
            Forged::Bent { which, damage } => ByteDamage::bend(damage, self.issued(*which)),
            Forged::Joined { head, tail, at } => {
                let (head, tail) = (self.issued(*head), self.issued(*tail));
                let at = usize::from(*at) % head.len();
                [&head[..at], tail.get(at..).unwrap_or_default()].concat()
            }
            Forged::Any(bytes) => bytes.clone(),
        }
    }

    /// Only what was issued is a session.
    fn check(&self, forged: &Forged) {
        let id = self.forge(forged);
        if http::HeaderValue::from_bytes(&id).is_err() {
            return;
        }
        let ping = Post::ping(None).json_only();
        let mut headers = ping.headers();
        headers.push(("mcp-session-id".to_owned(), id.clone()));
        let reply = self.world.post(&headers, ping.body.to_string().into_bytes());
        let is_ours = self.issued.iter().any(|issued| issued.as_bytes() == id.trim_ascii());
        assert_eq!(reply.status, if is_ours { 200 } else { 404 }, "{reply:?}");
    }
}

#[test]
fn session() {
    let office = OnceCell::new();
    let office = std::panic::AssertUnwindSafe(&office);
    bolero::check!(name = "session")
        .with_iterations(DAMAGED_SEALS)
        .with_type::<Forged>()
        .for_each(move |forged| office.get_or_init(Office::open).check(forged));
}
