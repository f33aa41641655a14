use super::*;
use crate::{ReadOnlyStore, SqliteOptions, SqliteStore};
use longhaul_core::{HostId, Store, UnixMillis, store::StoreError};
use std::{path::Path, sync::Arc};

const FILES: [&str; 2] = ["longhaul.db", NAME];

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, SqliteOptions::default()).unwrap()
}

fn accepted(directory: &Path) -> SqliteStore {
    let options = SqliteOptions {
        accept_restored: true,
        ..SqliteOptions::default()
    };
    SqliteStore::open(directory, options).unwrap()
}

fn host() -> HostId {
    HostId("here".into())
}

async fn start(store: &dyn Store) -> Result<NodeId, StoreError> {
    Ok(store.open_node(&host().into(), UnixMillis(1)).await?.node)
}

/// The steps after which the process of a start is killed.
const STEPS: usize = 4;

async fn killed_after(store: &SqliteStore, steps: usize) {
    let latest = store
        .readers()
        .unwrap()
        .at_once(crate::sqlite::read::latest_node)
        .unwrap();
    if steps == 0 {
        return;
    }
    let node = store.node_file.note_opening(latest).unwrap();
    if steps == 1 {
        return;
    }
    let write = move |tx: &mut crate::sqlite::Tx<'_>| crate::sqlite::write::open_node(tx, node, &host(), UnixMillis(1));
    store.write::<NodeId, StoreError, _>(0, write).await.unwrap();
    if steps > 2 {
        store.node_file.note_opened(node, 0).unwrap();
    }
}

/// The files of a directory that is not in use.
fn copy(directory: &Path) -> Vec<(&'static str, Option<Vec<u8>>)> {
    FILES.map(|name| (name, fs::read(directory.join(name)).ok())).to_vec()
}

fn restore(directory: &Path, name: &str, bytes: Option<&Vec<u8>>) {
    match bytes {
        Some(bytes) => fs::write(directory.join(name), bytes).unwrap(),
        None => fs::remove_file(directory.join(name)).unwrap(),
    }
}

/// Two starts that are killed, one after the other, after each combination of steps: neither is taken for a restore, and numbers rise.
#[tokio::test]
async fn a_start_killed_between_two_steps_is_not_taken_for_a_restore() {
    for deaths in 0..STEPS.pow(2) {
        let directory = tempfile::tempdir().unwrap();
        for nth in 0..2 {
            let store = open(directory.path());
            assert_eq!(store.disagreement(), None, "{deaths}: before start {nth}");
            killed_after(&store, deaths / STEPS.pow(nth) % STEPS).await;
        }
        let store = open(directory.path());
        assert_eq!(store.disagreement(), None, "{deaths}");
        let before = store.latest_node().await.unwrap();
        assert!(start(&store).await.unwrap() > before);
    }
}

/// A file that is restored to a state before any start, or lost, is detected by each later start until an operator accepts it.
#[tokio::test]
async fn a_restored_or_lost_file_is_detected_until_it_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(open(path));
    let mut copies = vec![copy(path)];
    for _ in 0..3 {
        assert_eq!(start(&open(path)).await, Ok(NodeId(copies.len() as i64)));
        copies.push(copy(path));
    }
    let now = copies.pop().unwrap();
    let put = |files: &[(&'static str, Option<Vec<u8>>)]| {
        for name in ["longhaul.db-wal", "longhaul.db-shm"] {
            let _ = fs::remove_file(path.join(name));
        }
        for (name, bytes) in files {
            restore(path, name, bytes.as_ref());
        }
    };
    for (nth, old) in copies.iter().enumerate() {
        for (restored, (name, bytes)) in old.iter().enumerate() {
            put(&now);
            restore(path, name, bytes.as_ref());
            for _ in 0..2 {
                let store = open(path);
                let found = store.disagreement().cloned();
                let (file, database) = if restored == 0 {
                    (3, nth as i64)
                } else {
                    (nth as i64, 3)
                };
                let expected = match (restored, nth) {
                    (0, _) => Disagreement::DatabaseOlder { file, database },
                    (_, 0) => Disagreement::FileMissing,
                    _ => Disagreement::FileOlder { file, database },
                };
                assert_eq!(found, Some(expected));
                assert_eq!(start(&store).await, Err(StoreError::ReadOnly));
            }
            let store = accepted(path);
            assert_eq!(store.disagreement(), None);
            // Accepted from the first step on, also if that start is killed.
            killed_after(&store, 1).await;
            drop(store);
            let store = open(path);
            assert_eq!(store.disagreement(), None);
            assert!(start(&store).await.unwrap() > NodeId(3), "no number is used twice");
        }
        // All files are restored together, which cannot be detected.
        put(old);
        if old[1].1.is_some() {
            assert_eq!(open(path).disagreement(), None);
        }
        let _ = fs::remove_file(path.join(NAME));
    }
}

/// A directory that was restored as a whole agrees with itself, so whoever restores it says so.
#[tokio::test]
async fn a_directory_that_is_marked_as_restored_is_accepted_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path);
    assert!(store.mark_restored(UnixMillis(0)).await.is_err(), "not without a start");
    start(&store).await.unwrap();
    store.record_removal().await.unwrap();
    let taken = UnixMillis(1_800_000_000_000);
    store.mark_restored(taken).await.unwrap();
    drop(store);
    for _ in 0..2 {
        let store = open(path);
        let found = store.disagreement().cloned().unwrap();
        assert_eq!(found, Disagreement::Restored { taken });
        assert!(found.to_string().contains("2027-01-15T08:00:00"), "{found}");
        assert_eq!(start(&store).await, Err(StoreError::ReadOnly));
    }
    let store = accepted(path);
    assert_eq!(store.disagreement(), None);
    // Accepted from the first step on, also if that start is killed.
    killed_after(&store, 1).await;
    drop(store);
    let store = open(path);
    assert_eq!(store.disagreement(), None);
    start(&store).await.unwrap();
    drop(store);
    assert_eq!(open(path).disagreement(), None);
}

#[tokio::test]
async fn a_damaged_file_prevents_a_start() {
    for text in [
        "",
        "latest",
        "latest x\n",
        "latest 1",
        "latest 1\nopening\n",
        "latest 1\nopening 2\n\n",
        "latest 1\nremovals\n",
        "latest 1\nopening 2\nremovals 3\n",
        "latest 9\n",
    ] {
        let directory = tempfile::tempdir().unwrap();
        start(&open(directory.path())).await.unwrap();
        fs::write(directory.path().join(NAME), text).unwrap();
        let store = open(directory.path());
        assert!(store.disagreement().is_some(), "{text:?}");
        drop(store);
        start(&accepted(directory.path())).await.unwrap();
        assert_eq!(open(directory.path()).disagreement(), None);
    }
}

/// A directory of the release before has no such file, and nodes that were never noted.
#[tokio::test]
async fn a_directory_of_an_earlier_release_opens_without_a_disagreement() {
    let directory = tempfile::tempdir().unwrap();
    start(&open(directory.path())).await.unwrap();
    fs::remove_file(directory.path().join(NAME)).unwrap();
    let raw = rusqlite::Connection::open(directory.path().join("longhaul.db")).unwrap();
    raw.execute_batch("UPDATE nodes SET noted = 0").unwrap();
    drop(raw);
    let store = open(directory.path());
    assert_eq!(store.disagreement(), None);
    assert_eq!(start(&store).await, Ok(NodeId(2)));
}

#[tokio::test]
async fn a_store_that_is_not_accepted_can_only_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let node = start(&store).await.unwrap();
    drop(store);
    fs::write(directory.path().join(NAME), "latest 7\n").unwrap();
    let before = fs::read(directory.path().join(NAME)).unwrap();
    let store = ReadOnlyStore::unless_accepted(Arc::new(open(directory.path())));
    assert_eq!(start(&*store).await, Ok(node));
    assert_eq!(store.adopt(node, &host(), 9, UnixMillis(1)).await, Ok(vec![]));
    assert_eq!(store.queued_tools().await, Ok(vec![]));
    assert_eq!(store.counts().await.unwrap().running, 0);
    assert_eq!(fs::read(directory.path().join(NAME)).unwrap(), before);
}

const REMOVAL_STEPS: usize = 3;

/// What of a removal is recorded when its process is killed: nothing, the database's part, or all of it.
async fn removal_killed_after(store: &SqliteStore, steps: usize) {
    let latest = store
        .readers()
        .unwrap()
        .at_once(crate::sqlite::read::latest_node)
        .unwrap();
    let (node, removals) = (NodeId(latest.id), latest.removals + 1);
    if steps > 0 {
        let write = move |tx: &mut crate::sqlite::Tx<'_>| crate::sqlite::write::set_removals(tx, node, removals);
        let written = store.write::<(), StoreError, _>(0, write);
        written.await.unwrap();
    }
    if steps > 1 {
        store.node_file.note_opened(node, removals).unwrap();
    }
}

#[tokio::test]
async fn a_removal_killed_between_two_steps_is_not_taken_for_a_restore() {
    for deaths in 0..REMOVAL_STEPS.pow(2) {
        let directory = tempfile::tempdir().unwrap();
        for nth in 0..2 {
            let store = open(directory.path());
            start(&store).await.unwrap();
            store.record_removal().await.unwrap();
            removal_killed_after(&store, deaths / REMOVAL_STEPS.pow(nth) % REMOVAL_STEPS).await;
            drop(store);
            let store = open(directory.path());
            assert_eq!(store.disagreement(), None, "{deaths}: after removal {nth}");
            killed_after(&store, deaths % STEPS).await;
        }
        let store = open(directory.path());
        assert_eq!(store.disagreement(), None, "{deaths}");
        start(&store).await.unwrap();
    }
}

/// Restores the database of a copy, without its log.
fn restore_database(directory: &Path, copy: &Path) {
    for name in ["longhaul.db-wal", "longhaul.db-shm"] {
        let _ = fs::remove_file(directory.join(name));
    }
    fs::copy(copy, directory.join("longhaul.db")).unwrap();
}

/// The copies are taken at each step of each removal of one start. Whenever a folder may be missing that was there when a copy was taken, the
/// copy is recognized.
#[tokio::test]
async fn a_copy_from_before_a_removal_is_recognized() {
    let (directory, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path();
    let store = open(path);
    start(&store).await.unwrap();
    assert_eq!(
        fs::read(path.join(NAME)).unwrap(),
        b"latest 1\n",
        "as earlier releases wrote it"
    );
    for removals in 0..3 {
        store
            .backup_to(&copies.path().join(removals.to_string()))
            .await
            .unwrap();
        store.record_removal().await.unwrap();
    }
    store.backup_to(&copies.path().join("3")).await.unwrap();
    drop(store);
    for removals in 0..3 {
        restore_database(path, &copies.path().join(removals.to_string()));
        let store = open(path);
        let expected = Disagreement::DatabaseOlderThanRemovals {
            file: 3,
            database: removals,
        };
        assert_eq!(store.disagreement(), Some(&expected));
        assert_eq!(start(&store).await, Err(StoreError::ReadOnly));
        assert_eq!(store.record_removal().await, Err(StoreError::ReadOnly));
    }
    restore_database(path, &copies.path().join("3"));
    assert_eq!(open(path).disagreement(), None, "the latest one");
    fs::write(path.join(NAME), "latest 1\nremovals 1\n").unwrap();
    let expected = Disagreement::FileOlderThanRemovals { file: 1, database: 3 };
    assert_eq!(open(path).disagreement(), Some(&expected));

    // Once accepted, a copy of the same start is recognized by its start.
    restore_database(path, &copies.path().join("1"));
    start(&accepted(path)).await.unwrap();
    assert_eq!(open(path).disagreement(), None);
    restore_database(path, &copies.path().join("2"));
    let found = open(path).disagreement().cloned();
    assert_eq!(found, Some(Disagreement::DatabaseOlder { file: 2, database: 1 }));
}

/// A copy may be taken after the database has recorded a removal and before the file could. It is as old as any other when the removal is tried
/// again and happens.
#[tokio::test]
async fn a_copy_from_between_two_tries_of_a_removal_is_recognized() {
    let (directory, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, copy) = (directory.path(), copies.path().join("copy"));
    let store = open(path);
    start(&store).await.unwrap();
    let _ = fs::remove_file(path.join(DRAFT));
    fs::create_dir(path.join(DRAFT)).unwrap();
    for _ in 0..3 {
        assert!(store.record_removal().await.is_err());
    }
    store.backup_to(&copy).await.unwrap();
    fs::remove_dir(path.join(DRAFT)).unwrap();
    store.record_removal().await.unwrap();
    drop(store);
    assert_eq!(open(path).disagreement(), None);
    restore_database(path, &copy);
    let expected = Disagreement::DatabaseOlderThanRemovals { file: 2, database: 1 };
    assert_eq!(open(path).disagreement(), Some(&expected));
}
