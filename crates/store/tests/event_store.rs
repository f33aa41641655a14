//! Event stores: each is compared with the model, and the file outlives its process.

#![allow(clippy::unwrap_used)]

use longhaul_core::{EventLimits, EventStore, EventStream, KeptEvent, SessionKey, UnixMillis};
use longhaul_store::{MemoryEventStore, OpenEventStoreError, SqliteEventStore};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

const LIMITS: EventLimits = EventLimits {
    events_of_stream: 5,
    bytes: 60,
    age: 100,
};

fn stream(session: u8, name: u8) -> EventStream {
    EventStream {
        session: SessionKey::named(format!("session {session}")),
        name: format!("stream {name}").into(),
    }
}

fn event(nth: u64, message: &str) -> KeptEvent {
    KeptEvent {
        nth,
        message: message.into(),
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Append { session: u8, name: u8, length: usize },
    Again { session: u8, name: u8 },
    End(u8),
    Wait(i64),
    Reopen,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let append =
        (0u8..3, 0u8..2, 0usize..20).prop_map(|(session, name, length)| Operation::Append { session, name, length });
    let again = (0u8..3, 0u8..2).prop_map(|(session, name)| Operation::Again { session, name });
    let one = prop_oneof![
        12 => append,
        2 => again,
        1 => (0u8..3).prop_map(Operation::End),
        3 => (0i64..60).prop_map(Operation::Wait),
        1 => Just(Operation::Reopen),
    ];
    prop::collection::vec(one, 1..60)
}

/// Runs the operations on the file and on the model, and compares every stream after each.
async fn compare(operations: Vec<Operation>) {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteEventStore::open(folder.path(), LIMITS).unwrap();
    let (model, mut file) = (MemoryEventStore::new(LIMITS), open());
    let mut now = UnixMillis(1_000);
    let mut next = std::collections::HashMap::new();
    for operation in operations {
        match operation {
            Operation::Append { session, name, length } => {
                let stream = stream(session, name);
                let nth: &mut u64 = next.entry((session, name)).or_default();
                // A message of more bytes than characters.
                let event = event(*nth, &"é".repeat(length / 2));
                *nth += 1;
                model.append(&stream, event.clone(), now).await.unwrap();
                file.append(&stream, event, now).await.unwrap();
            }
            Operation::Again { session, name } => {
                let nth = next
                    .get(&(session, name))
                    .map_or(0, |next: &u64| next.saturating_sub(1));
                let (stream, event) = (stream(session, name), event(nth, "again"));
                model.append(&stream, event.clone(), now).await.unwrap();
                file.append(&stream, event, now).await.unwrap();
            }
            Operation::End(session) => {
                let session = stream(session, 0).session;
                model.end_session(&session).await.unwrap();
                file.end_session(&session).await.unwrap();
            }
            Operation::Wait(time) => now.0 += time,
            Operation::Reopen => {
                drop(file);
                file = open();
            }
        }
        for (session, name) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            let stream = stream(session, name);
            let kept = model.read(&stream, now).await.unwrap();
            assert!(kept.len() as u64 <= LIMITS.events_of_stream);
            assert_eq!(file.read(&stream, now).await.unwrap(), kept, "{stream:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_file_keeps_what_the_model_keeps(operations in operations()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(operations));
    }
}

#[tokio::test]
async fn the_oldest_events_are_dropped_first() {
    let stores: [Box<dyn EventStore>; 2] = {
        let folder = tempfile::tempdir().unwrap();
        [
            Box::new(MemoryEventStore::new(LIMITS)),
            Box::new(SqliteEventStore::open(folder.path(), LIMITS).unwrap()),
        ]
    };
    for store in stores {
        let numbers = async |stream: &EventStream, now| -> Vec<u64> {
            let kept = store.read(stream, UnixMillis(now)).await.unwrap();
            kept.iter().map(|event| event.nth).collect()
        };
        let (one, other) = (stream(0, 0), stream(1, 0));
        for nth in 0..7 {
            store.append(&one, event(nth, "x"), UnixMillis(0)).await.unwrap();
        }
        assert_eq!(numbers(&one, 0).await, [2, 3, 4, 5, 6], "five of a stream");
        store
            .append(&other, event(1, &"y".repeat(57)), UnixMillis(50))
            .await
            .unwrap();
        assert_eq!(numbers(&one, 50).await, [4, 5, 6], "sixty bytes in all");
        assert_eq!(numbers(&one, 100).await, [0; 0], "a hundred milliseconds");
        assert_eq!(numbers(&other, 100).await, [1]);
        assert_eq!(numbers(&stream(0, 1), 0).await, [0; 0]);
    }
}

#[tokio::test]
async fn only_its_user_can_read_the_file_and_a_later_layout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteEventStore::open(folder.path(), LIMITS).unwrap();
    store
        .append(&stream(0, 0), event(0, "secret"), UnixMillis(0))
        .await
        .unwrap();
    store.read(&stream(0, 0), UnixMillis(0)).await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    drop(store);
    let path = folder.path().join("events.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 9).unwrap();
    drop(database);
    let refused = SqliteEventStore::open(folder.path(), LIMITS).err().unwrap();
    assert!(matches!(refused, OpenEventStoreError::Newer(9)), "{refused}");
    std::fs::write(
        &path,
        "no database, but long enough to look like a file of something else entirely",
    )
    .unwrap();
    let refused = SqliteEventStore::open(folder.path(), LIMITS).err().unwrap().to_string();
    assert!(
        refused.contains("events.db") && refused.contains("not a database"),
        "{refused}"
    );
}
