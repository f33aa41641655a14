//! A full disk.

use crate::{
    child,
    task::{block_on, counts_agree, create, exists, finish, id, open},
};
use longhaul_core::{
    Store,
    store::{ApplyError, StoreError},
};
use longhaul_store::SqliteOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs::{self, File},
    io::Write,
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

/// `ENOSPC` from a file system of 8 MiB, in a mount namespace of its own that goes away with the child. Where namespaces are not
/// allowed the limit above must do.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_refuses_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=8m none '{}' || exit 77; exec \"$@\"",
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
    let output = match child::under(&starter, "full::child_on_a_small_disk", directory.path(), false).output() {
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
