//! A disk that refuses writes for another reason than room.
#![cfg(target_os = "linux")]

use crate::{
    child,
    task::{block_on, create, exists, open},
};
use longhaul_core::store::StoreError;
use longhaul_store::SqliteOptions;
use std::{fs, path::Path, process::Command};

/// Fails each write to a write-ahead log with the error number in the file `errno` beside it, while that is there.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int refusal(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 8);
    if (length < 4 || memcmp(path + length - 4, "-wal", 4) != 0) return 0;
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "errno");
    FILE *file = fopen(path, "r");
    int number = 0;
    if (file) { if (fscanf(file, "%d", &number) != 1) number = 0; fclose(file); }
    return number;
}

#define INSTEAD(name, parameters, arguments)                                       \
    ssize_t name parameters {                                                      \
        ssize_t (*real) parameters = (ssize_t (*) parameters) dlsym(RTLD_NEXT, #name); \
        int number = refusal(fd);                                                  \
        if (number) { errno = number; return -1; }                                 \
        return real arguments;                                                     \
    }

INSTEAD(write, (int fd, const void *bytes, size_t length), (fd, bytes, length))
INSTEAD(pwrite, (int fd, const void *bytes, size_t length, off_t at), (fd, bytes, length, at))
INSTEAD(pwrite64, (int fd, const void *bytes, size_t length, off64_t at), (fd, bytes, length, at))
"#;

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_with_a_failing_disk() {
    let Some(directory) = child::directory() else { return };
    block_on(async {
        let (store, node) = open(&directory, SqliteOptions::default()).await;
        create(&store, "before", node, 100).await.unwrap();
        for (errno, expected) in [
            (libc_errno::EIO, StoreError::Disk(libc_errno::EIO)),
            (libc_errno::EDQUOT, StoreError::Full),
            (libc_errno::ENOSPC, StoreError::Full),
        ] {
            fs::write(directory.join("errno"), errno.to_string()).unwrap();
            let refused = create(&store, "refused", node, 100).await;
            assert_eq!(refused, Err(expected));
            assert!(exists(&store, "before").await, "reading goes on");
            fs::remove_file(directory.join("errno")).unwrap();
        }
        create(&store, "after", node, 100).await.unwrap();
        assert!(!exists(&store, "refused").await);
    });
}

/// The numbers of Linux.
mod libc_errno {
    pub(super) const EIO: i32 = 5;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EDQUOT: i32 = 122;
}

fn build(shim: &Path) -> bool {
    let source = shim.with_extension("c");
    fs::write(&source, SHIM).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(shim)
        .arg(&source)
        .arg("-ldl")
        .status();
    built.is_ok_and(|status| status.success())
}

#[test]
fn a_failed_write_returns_its_own_error() {
    let directory = tempfile::tempdir().unwrap();
    let shim = directory.path().join("shim.so");
    if !build(&shim) {
        return eprintln!("not tested: there is no C compiler");
    }
    let mut child = child::command("refused::child_with_a_failing_disk", directory.path(), false);
    let output = child.env("LD_PRELOAD", &shim).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn the_error_names_the_systems_error() {
    let text = StoreError::Disk(libc_errno::EIO).to_string();
    assert_eq!(text, "the store's disk failed: Input/output error (os error 5)");
}
