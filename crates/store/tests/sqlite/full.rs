//! A full disk.

use crate::{
    child,
    task::{block_on, counts_agree, create, exists, finish, id, open},
};
use longhaul_core::{
    AttemptEnd, CancelMode, Event, HostId, NodeId, StopReason, Store, TaskId, UnixMillis,
    store::{ApplyError, Change, Claim, QueueStore, StoreError, TaskStore},
};
use longhaul_store::{RESERVE_BYTES, SqliteOptions, SqliteStore};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::Path,
};

const KIB: usize = 1024;

/// Works while the disk is filled and emptied by `disk`, and panics when a promise is broken.
fn works_through_a_full_disk(directory: &Path, disk: &dyn LimitedDisk) {
    block_on(async {
        let (store, node) = open(directory, SqliteOptions::default()).await;
        let mut acknowledged = Vec::new();
        for n in 0..10 {
            let name = format!("early-{n}");
            create(&store, &name, node, KIB).await.unwrap();
            acknowledged.push(name);
        }
        disk.fill_up_to(256 * KIB as u64);

        // One large change among small ones, in one batch: only the large one does not fit.
        let (first, large, second) = tokio::join!(
            create(&store, "small-1", node, KIB),
            create(&store, "large", node, 2048 * KIB),
            create(&store, "small-2", node, KIB)
        );
        assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
        assert_eq!(large, Err(StoreError::Full));
        assert!(!exists(&store, "large").await);
        acknowledged.extend(["small-1".to_owned(), "small-2".to_owned()]);

        // What is refused may fit a little later, when the log has been worked into the file; then that is full too, for good.
        let (mut refused, mut in_a_row) = (Vec::new(), 0);
        for n in 0.. {
            let name = format!("more-{n}");
            match create(&store, &name, node, 16 * KIB).await {
                Ok(_) => {
                    acknowledged.push(name);
                    in_a_row = 0;
                }
                Err(error) => {
                    assert_eq!(error, StoreError::Full);
                    refused.push(name);
                    in_a_row += 1;
                }
            }
            // Reading goes on.
            assert!(exists(&store, &acknowledged[n % acknowledged.len()]).await);
            if in_a_row == 20 {
                break;
            }
            assert!(n < 10_000, "the disk never became full");
        }
        let task = store.get_unscoped(&id("early-0")).await.unwrap().unwrap().task;
        match finish(&store, &task).await {
            // An outcome may find a little room where a create does not.
            Ok(_) | Err(ApplyError::Store(StoreError::Full)) => {}
            other => panic!("{other:?}"),
        }

        disk.restore();
        create(&store, "late", node, 64 * KIB).await.unwrap();
        acknowledged.push("late".to_owned());
        let task = store.get_unscoped(&id("early-1")).await.unwrap().unwrap().task;
        finish(&store, &task).await.unwrap();

        drop(store);
        let (store, _) = open(directory, SqliteOptions::default()).await;
        for name in &acknowledged {
            assert!(exists(&store, name).await, "{name} was acknowledged");
        }
        refused.push("large".to_owned());
        for name in &refused {
            assert!(!exists(&store, name).await, "{name} was refused");
        }
        assert!(
            store
                .get_unscoped(&id("early-1"))
                .await
                .unwrap()
                .unwrap()
                .task
                .is_done()
        );
        // A refused change, alone or out of a batch, has counted nothing.
        counts_agree(&store, directory).await;
    });
}

/// A way to make a disk full.
trait LimitedDisk {
    /// Leaves about `leave` bytes free.
    fn fill_up_to(&self, leave: u64);
    /// Removes the limit.
    fn restore(&self);
}

/// No file may grow beyond a limit.
struct Limit<'a>(&'a Path);

impl LimitedDisk for Limit<'_> {
    fn fill_up_to(&self, leave: u64) {
        let log = fs::metadata(self.0.join("longhaul.db-wal")).unwrap().len();
        let maximum = getrlimit(Resource::Fsize).maximum;
        setrlimit(
            Resource::Fsize,
            Rlimit {
                current: Some(log + leave),
                maximum,
            },
        )
        .unwrap();
    }

    fn restore(&self) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        setrlimit(
            Resource::Fsize,
            Rlimit {
                current: maximum,
                maximum,
            },
        )
        .unwrap();
    }
}

/// A file that takes the room of a small file system.
struct Filler<'a>(&'a Path);

impl LimitedDisk for Filler<'_> {
    fn fill_up_to(&self, leave: u64) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[7; 4 * KIB]).is_ok() {}
        let size = filler.metadata().unwrap().len();
        filler.set_len(size - leave).unwrap();
    }

    fn restore(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_under_a_limit() {
    let Some(directory) = child::directory() else { return };
    works_through_a_full_disk(&directory, &Limit(&directory));
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_on_a_small_disk() {
    let Some(directory) = child::directory() else { return };
    works_through_a_full_disk(&directory, &Filler(&directory));
}

/// `SIGXFSZ` is ignored as a server must ignore it: then a write beyond the limit fails with `EFBIG`.
#[test]
fn a_file_size_limit_refuses_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let starter = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let output = child::under(&starter, "full::child_under_a_limit", directory.path(), false)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// `ENOSPC` from a file system of 8 MiB, where the limit above is what else there is.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_refuses_and_loses_nothing() {
    on_a_small_disk("8m", "full::child_on_a_small_disk");
}

/// Runs a test on a file system of its own, in a mount namespace that goes away with the child. Where namespaces are not allowed nothing is tested.
#[cfg(target_os = "linux")]
fn on_a_small_disk(size: &str, test: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mount = format!(
        "mount -t tmpfs -o size={size} none '{}' || exit 77; exec \"$@\"",
        directory.path().display()
    );
    let starter = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &mount,
        "sh",
    ];
    let output = match child::under(&starter, test, directory.path(), false).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("not tested: {error}"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || stderr.contains("unshare:") {
        return eprintln!("not tested: {stderr}");
    }
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// The database alone has filled the disk, so a deletion gives nothing back to the file system.
#[cfg(target_os = "linux")]
#[test]
fn with_a_reserve_a_server_starts_on_a_full_disk_and_deletes_until_there_is_room() {
    on_a_small_disk("96m", "full::child_with_a_reserve");
}

/// Room in the reserve's file is no inode.
#[cfg(target_os = "linux")]
#[test]
fn without_inodes_a_server_starts_and_removes_files_with_its_reserve_whole() {
    on_a_small_disk("96m", "full::child_without_inodes");
}

fn with_a_reserve() -> SqliteOptions {
    SqliteOptions {
        reserve_bytes: RESERVE_BYTES,
        ..SqliteOptions::default()
    }
}

/// Creates finished tasks until the disk is full, and returns them.
async fn fill(store: &SqliteStore, node: NodeId, prefix: &str) -> Vec<TaskId> {
    let (mut finished, mut refused) = (Vec::new(), 0);
    for n in 0.. {
        let name = format!("{prefix}-{n}");
        let created = async {
            let task = create(store, &name, node, 256 * KIB).await?;
            match finish(store, &task).await {
                Ok(_) => Ok(()),
                Err(ApplyError::Store(error)) => Err(error),
                Err(other) => panic!("{other:?}"),
            }
        };
        match created.await {
            Ok(()) => {
                finished.push(id(&name));
                refused = 0;
            }
            Err(error) => {
                assert_eq!(error, StoreError::Full);
                // The log may be worked into the database meanwhile, and then there is room again.
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
        }
    }
    finished
}

/// No disk has room for this reserve, so it is missing as after a release.
#[test]
fn without_its_reserve_a_store_writes_what_it_has_free_pages_for() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let (store, node) = open(directory.path(), SqliteOptions::default()).await;
        for n in 0..60 {
            let task = create(&store, &format!("early-{n}"), node, 256 * KIB).await.unwrap();
            finish(&store, &task).await.unwrap();
        }
        let running = create(&store, "running", node, KIB).await.unwrap();
        drop(store);

        let missing = SqliteOptions {
            reserve_bytes: 1 << 60,
            ..SqliteOptions::default()
        };
        let (store, node) = open(directory.path(), missing).await;
        assert!(!directory.path().join("reserve").exists());
        assert_eq!(create(&store, "refused", node, KIB).await, Err(StoreError::Full));
        assert!(store.refuses_payloads());
        let claim = Claim {
            tool: running.tool.clone(),
            node,
            host: None,
            limit: 1,
            at: UnixMillis(2_000),
            rate: None,
        };
        assert_eq!(store.claim(claim).await, Err(StoreError::Full), "nothing begins");
        let finished = finish(&store, &running).await;
        assert_eq!(finished, Err(ApplyError::Store(StoreError::Full)));
        let cancel = Event::CancelRequested(CancelMode::Cooperative);
        let asked = store.apply(Change::of(&running.id, cancel, UnixMillis(2_000))).await;
        assert!(asked.is_ok_and(|task| task.stop.is_some()));

        let delete = async |range: std::ops::Range<usize>| {
            for n in range {
                let (host, task) = (HostId("here".into()), id(&format!("early-{n}")));
                let gone = store.delete_ended(&host, vec![task], UnixMillis(2_000)).await;
                assert_eq!(gone, Ok(1));
            }
        };
        delete(0..10).await;
        let refused = create(&store, "refused", node, KIB).await;
        assert_eq!(refused, Err(StoreError::Full), "4 MiB stay free");
        delete(10..60).await;
        let made = fill(&store, node, "late").await.len();
        assert!((40..60).contains(&made), "{made}");
    });
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_that_dies_on_a_full_disk() {
    let Some(directory) = child::directory() else { return };
    block_on(async {
        let (store, node) = open(&directory, with_a_reserve()).await;
        assert!(directory.join("reserve").exists());
        create(&store, "running", node, KIB).await.unwrap();
        let finished = fill(&store, node, "first").await;
        assert!(finished.len() > 100, "{}", finished.len());
        assert!(directory.join("reserve").exists(), "new tasks do not use it");
        take_the_rest(&directory);
        std::process::abort();
    });
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_with_a_reserve() {
    let Some(directory) = child::directory() else { return };
    let died = child::command("full::child_that_dies_on_a_full_disk", &directory, false)
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(6), "{died:?}");
    block_on(async {
        let (store, node) = open(&directory, with_a_reserve()).await;
        // A command that runs on takes what the start has released, and what an action has, three times.
        let running = store.get_unscoped(&id("running")).await.unwrap().unwrap().task;
        take_the_rest(&directory);
        let cancel = Event::CancelRequested(CancelMode::Cooperative);
        let asked = store.apply(Change::of(&running.id, cancel, UnixMillis(2_000))).await;
        assert!(asked.unwrap().stop.is_some());
        take_the_rest(&directory);
        let stopped = Change {
            fence: running.active_attempt().map(|attempt| attempt.fence()),
            ..Change::of(
                &running.id,
                Event::AttemptEnded(AttemptEnd::Stopped(StopReason::Cancel)),
                UnixMillis(2_000),
            )
        };
        assert!(store.apply(stopped).await.unwrap().is_done());
        take_the_rest(&directory);
        let (host, first) = (HostId("here".into()), id("first-0"));
        assert_eq!(store.delete_ended(&host, vec![first], UnixMillis(2_000)).await, Ok(1));
        fs::remove_file(directory.join("filler")).unwrap();
        while !reserve_is_whole(&directory) || store.refuses_payloads() {
            tokio::task::yield_now().await;
        }
        fill(&store, node, "again").await;
        let mut deleted: Vec<TaskId> = (1..61).map(|n| id(&format!("first-{n}"))).collect();
        // Several times, since new tasks must leave room for the next deletion.
        assert!(reserve_is_whole(&directory));
        take_the_rest(&directory);
        for round in ["second", "third", "fourth"] {
            assert_eq!(create(&store, "refused", node, 256 * KIB).await, Err(StoreError::Full));
            for task in deleted {
                let host = HostId("here".into());
                let gone = store.delete_ended(&host, vec![task.clone()], UnixMillis(2_000)).await;
                assert_eq!(gone, Ok(1), "{task} before the {round}");
            }
            deleted = fill(&store, node, round).await;
            assert!((30..=60).contains(&deleted.len()), "{} in the {round}", deleted.len());
        }
        // With room on the disk itself it is made again. Nobody writes meanwhile.
        let larger = std::process::Command::new("mount")
            .args(["-o", "remount,size=160m"])
            .arg(&directory)
            .status();
        assert!(larger.unwrap().success());
        while !reserve_is_whole(&directory) || store.refuses_payloads() {
            tokio::task::yield_now().await;
        }
        create(&store, "late", node, 64 * KIB).await.unwrap();
        counts_agree(&store, &directory).await;
    });
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_that_dies_without_inodes() {
    let Some(directory) = child::directory() else { return };
    block_on(async {
        let (store, node) = open(&directory, with_a_reserve()).await;
        let task = create(&store, "early", node, KIB).await.unwrap();
        finish(&store, &task).await.unwrap();
        std::process::abort();
    });
}

#[test]
#[ignore = "run by a test above, in a process of its own"]
fn child_without_inodes() {
    let Some(directory) = child::directory() else { return };
    let died = child::command("full::child_that_dies_without_inodes", &directory, false)
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(6), "{died:?}");
    let taken = std::process::Command::new("mount")
        .args(["-o", "remount,nr_inodes=64"])
        .arg(&directory)
        .status();
    assert!(taken.unwrap().success());
    let reserve = || directory.join("reserve").metadata().unwrap().ino();
    let before = reserve();
    let mut n = 0;
    while File::create(directory.join(format!("filler-{n}"))).is_ok() {
        n += 1;
    }
    block_on(async {
        let (store, node) = open(&directory, with_a_reserve()).await;
        let gone = store
            .delete_ended(&HostId("here".into()), vec![id("early")], UnixMillis(2_000))
            .await;
        assert_eq!(gone, Ok(1));
        create(&store, "late", node, KIB).await.unwrap();
    });
    assert!(
        reserve_is_whole(&directory) && reserve() == before,
        "it was removed meanwhile"
    );
}

fn reserve_is_whole(directory: &Path) -> bool {
    let found = directory.join("reserve").metadata();
    found.is_ok_and(|found| found.len() == RESERVE_BYTES)
}

/// What is left between two tasks.
fn take_the_rest(directory: &Path) {
    let mut filler = File::options()
        .append(true)
        .create(true)
        .open(directory.join("filler"))
        .unwrap();
    while filler.write_all(&[7; 512]).is_ok() {}
}
