//! The file `node`: which start of a server was the latest on this directory, kept apart from the database.
//!
//! A database that was restored from a backup knows tasks as they were: what it calls queued or running may have run since. It says nothing
//! of that itself, so each start is noted outside of it too, and the two are compared when the directory is opened.
//!
//! | step of a start | the file | the database |
//! | --- | --- | --- |
//! | before | `latest 7` | 7 |
//! | 1. the file is replaced, synced | `latest 7`, `opening 8` | 7 |
//! | 2. the database commits, synced | `latest 7`, `opening 8` | 8 |
//! | 3. the file is replaced, synced | `latest 8` | 8 |
//!
//! A process that dies between two steps has begun no work. So both numbers in the file agree with the database, and any other does not.

use super::OpenError;
use longhaul_core::NodeId;
use longhaul_private_dir::{PrivateDir, open_file, read_file};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

const NAME: &str = "node";
const DRAFT: &str = "node.draft";

/// The database and the rest of the data directory are not of the same time. Its words are for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// The database was restored, or removed, or has lost its log.
    #[error(
        "the database is older than the data directory: it knows {database} starts of a server, and the file `node` beside it {file}. It was \
         restored from a backup, or it was removed, or it lost its write-ahead log. What it calls queued or running may have run since"
    )]
    DatabaseOlder {
        /// The latest start in the file.
        file: i64,
        /// The latest start in the database.
        database: i64,
    },
    /// The rest of the directory was restored.
    #[error(
        "the data directory is older than its database: the file `node` knows {file} starts of a server, and the database {database}. It, and the \
         folders of attempts with it, was restored from a backup. What ran since is not in them"
    )]
    FileOlder {
        /// The latest start in the file.
        file: i64,
        /// The latest start in the database.
        database: i64,
    },
    /// The database is alone.
    #[error(
        "the file `node` beside the database is missing: the database was restored, or copied here, alone. What it calls queued or running may have \
         run since, and the folders of attempts would say so"
    )]
    FileMissing,
    /// The file says nothing.
    #[error(
        "the file `node` beside the database cannot be understood, so nobody knows whether the database is the latest one"
    )]
    FileDamaged,
}

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    latest: i64,
    /// The start that was under way.
    opening: Option<i64>,
}

/// The latest start in the database, and whether it was noted in the file: releases before there was one did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LatestNode {
    pub(super) id: i64,
    pub(super) noted: bool,
}

/// The file in a directory.
#[derive(Debug, Clone)]
pub(super) struct NodeFile {
    directory: PathBuf,
}

impl NodeFile {
    pub(super) fn in_directory(dir: &PrivateDir) -> Self {
        Self {
            directory: dir.path().to_owned(),
        }
    }

    /// Why it and the database are not of the same time, if they are not.
    pub(super) fn disagreement(&self, database: LatestNode) -> Result<Option<Disagreement>, OpenError> {
        let noted = self.read().map_err(|source| OpenError::Io {
            action: "use",
            path: self.directory.join(NAME),
            source,
        })?;
        Ok(compare(noted, database).err())
    }

    /// Step 1. Returns the number of the start: greater than all that either has seen.
    pub(super) fn note_opening(&self, database: LatestNode) -> io::Result<NodeId> {
        let noted = self.read()?.and_then(Result::ok);
        let highest = noted.map_or(0, |noted| noted.latest.max(noted.opening.unwrap_or(0)));
        let opening = highest.max(database.id) + 1;
        self.replace(&format!("latest {}\nopening {opening}\n", database.id))?;
        Ok(NodeId(opening))
    }

    /// Step 3.
    pub(super) fn note_opened(&self, node: NodeId) -> io::Result<()> {
        self.replace(&format!("latest {}\n", node.0))
    }

    /// What it says; `None` if there is none.
    fn read(&self) -> io::Result<Option<Result<Noted, Disagreement>>> {
        match read_file(&self.directory.join(NAME)) {
            Ok(bytes) => Ok(Some(parse(&bytes).ok_or(Disagreement::FileDamaged))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all, and on disk.
    fn replace(&self, text: &str) -> io::Result<()> {
        let draft = self.directory.join(DRAFT);
        let mut file = open_file(&draft, OpenOptions::new().write(true).create(true).mode(0o600))?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, self.directory.join(NAME))?;
        fs::File::open(&self.directory)?.sync_all()
    }
}

fn parse(bytes: &[u8]) -> Option<Noted> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let latest = lines.next()?.strip_prefix("latest ")?.parse().ok()?;
    let opening = match lines.next() {
        Some(line) => Some(line.strip_prefix("opening ")?.parse().ok()?),
        None => None,
    };
    lines.next().is_none().then_some(Noted { latest, opening })
}

/// Whether the file and the database are of the same time.
fn compare(file: Option<Result<Noted, Disagreement>>, database: LatestNode) -> Result<(), Disagreement> {
    let noted = match file {
        Some(noted) => noted?,
        None if database.noted => return Err(Disagreement::FileMissing),
        // Fresh, or of a release that had no such file.
        None => return Ok(()),
    };
    if database.id == noted.latest || Some(database.id) == noted.opening {
        return Ok(());
    }
    let (file, database) = (noted.latest, database.id);
    Err(if database < file {
        Disagreement::DatabaseOlder { file, database }
    } else {
        Disagreement::FileOlder { file, database }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadsOnly, SqliteOptions, SqliteStore};
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

    async fn start(store: &SqliteStore) -> Result<NodeId, StoreError> {
        store.open_node(&host(), UnixMillis(1)).await
    }

    /// How far a start comes before its process is killed.
    const STEPS: usize = 4;

    async fn killed_after(store: &SqliteStore, steps: usize) {
        let latest = store
            .readers()
            .unwrap()
            .at_once(super::super::read::latest_node)
            .unwrap();
        if steps == 0 {
            return;
        }
        let node = store.node_file.note_opening(latest).unwrap();
        if steps == 1 {
            return;
        }
        let write =
            move |tx: &mut super::super::Tx<'_>| super::super::write::open_node(tx, node, &host(), UnixMillis(1));
        store
            .write::<NodeId, StoreError, _>(0, super::super::Durability::Synced, write)
            .await
            .unwrap();
        if steps > 2 {
            store.node_file.note_opened(node).unwrap();
        }
    }

    /// What is in the directory while nobody uses it.
    fn copy(directory: &Path) -> Vec<(&'static str, Option<Vec<u8>>)> {
        FILES.map(|name| (name, fs::read(directory.join(name)).ok())).to_vec()
    }

    fn restore(directory: &Path, name: &str, bytes: Option<&Vec<u8>>) {
        match bytes {
            Some(bytes) => fs::write(directory.join(name), bytes).unwrap(),
            None => fs::remove_file(directory.join(name)).unwrap(),
        }
    }

    /// Every way in which two starts can die, one after the other: none is taken for a restore, and numbers rise.
    #[tokio::test]
    async fn a_start_that_dies_between_any_two_steps_is_no_restore() {
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

    /// Whichever file is put back as it was before any start, or is lost: it is found out, by whoever comes next and until somebody accepts it.
    #[tokio::test]
    async fn whichever_file_is_put_back_is_found_out_until_it_is_accepted() {
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
                    assert_eq!(start(&store).await, Err(StoreError::ReadsOnly));
                }
                let store = accepted(path);
                assert_eq!(store.disagreement(), None);
                // From the first step on: an accepted start that dies is not asked about again.
                killed_after(&store, 1).await;
                drop(store);
                let store = open(path);
                assert_eq!(store.disagreement(), None);
                assert!(start(&store).await.unwrap() > NodeId(3), "no number is used twice");
            }
            // All of it is put back together: nothing can tell.
            put(old);
            if old[1].1.is_some() {
                assert_eq!(open(path).disagreement(), None);
            }
            let _ = fs::remove_file(path.join(NAME));
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_no_reason_to_begin() {
        for text in [
            "",
            "latest",
            "latest x\n",
            "latest 1",
            "latest 1\nopening\n",
            "latest 1\nopening 2\n\n",
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
    async fn a_directory_of_an_earlier_release_opens_without_complaint() {
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
    async fn what_is_not_accepted_can_be_read_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        let node = start(&store).await.unwrap();
        drop(store);
        fs::write(directory.path().join(NAME), "latest 7\n").unwrap();
        let before = fs::read(directory.path().join(NAME)).unwrap();
        let store = ReadsOnly::unless_accepted(Arc::new(open(directory.path())));
        assert_eq!(store.open_node(&host(), UnixMillis(1)).await, Ok(node));
        assert_eq!(store.adopt(node, &host(), 9, UnixMillis(1)).await, Ok(vec![]));
        assert_eq!(store.queued_tools().await, Ok(vec![]));
        assert_eq!(store.counts().await.unwrap().running, 0);
        assert_eq!(fs::read(directory.path().join(NAME)).unwrap(), before);
    }
}
