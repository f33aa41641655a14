//! What a command writes: kept apart and in order, within bounds, whatever it is.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod fixtures;

use fixtures::{Folder, launcher, until, until_exists};
use longhaul_command::{AttemptDir, CommandEnd, connect, read_log};
use longhaul_runtime::{LogChunk, LogRange};
use std::{
    io::{BufRead, BufReader},
    process::Command,
};

fn log(dir: &AttemptDir) -> LogChunk {
    read_log(
        dir,
        LogRange {
            offset: Some(0),
            limit: None,
        },
    )
    .unwrap()
}

fn stdout(dir: &AttemptDir) -> Vec<u8> {
    std::fs::read(dir.path().join("stdout")).unwrap_or_default()
}

#[tokio::test]
async fn both_streams_are_logged_as_they_come_and_readable_while_it_runs() {
    let folder = Folder::new();
    let script = "wait_for() { until [ -e $1 ]; do sleep 0.01; done; }
        echo one; wait_for a; echo two >&2; wait_for b; echo three";
    let started = folder.start(&folder.script(script)).await;
    until("one is logged", || (log(&started.dir).text == "one\n").then_some(()));
    std::fs::write(folder.file("a"), "").unwrap();
    until("two is logged", || {
        (log(&started.dir).text == "one\ntwo\n").then_some(())
    });
    std::fs::write(folder.file("b"), "").unwrap();
    let exit = started.exit();
    assert_eq!(
        log(&started.dir),
        LogChunk {
            text: "one\ntwo\nthree\n".into(),
            offset: 0,
            next: 14,
            total: 14
        }
    );
    assert_eq!(stdout(&started.dir), b"one\nthree\n");
    assert_eq!((exit.stdout_bytes, exit.stderr_bytes), (10, 4));
}

#[tokio::test]
async fn hundreds_of_megabytes_cost_neither_memory_nor_disk() {
    let folder = Folder::new();
    let mut spec = folder.script(
        "head -c 300000000 /dev/zero | tr '\\0' 'x'; echo end; touch written; until [ -e go ]; do sleep 0.01; done",
    );
    spec.max_log = 4_000_000;
    spec.max_output = 100_000;
    let started = folder.start(&spec).await;
    until_exists(&folder.file("written"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", started.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 24 * 1024, "the supervisor took {peak} kB");
    std::fs::write(folder.file("go"), "").unwrap();
    let exit = started.exit();
    assert_eq!(
        (exit.stdout_bytes, exit.log_bytes, exit.write_error),
        (300_000_004, 300_000_004, None)
    );
    let held = folder.attempts.bytes_held().unwrap();
    assert!(held < 4_000_000 + 200_000, "{held} bytes on disk");
    assert!(stdout(&started.dir).ends_with(b"xxend\n"));
    let newest = read_log(&started.dir, LogRange::default()).unwrap();
    assert_eq!((newest.offset, newest.next), (300_000_004 - 65_536, 300_000_004));
    let middle = read_log(
        &started.dir,
        LogRange {
            offset: Some(150_000_000),
            limit: Some(10),
        },
    )
    .unwrap();
    assert!(
        middle.text.starts_with("[longhaul: ") && middle.text.ends_with("not kept here]\nxxxxxxxxxx"),
        "{}",
        middle.text
    );
}

#[tokio::test]
async fn values_that_are_not_utf_8_reach_the_command() {
    let folder = Folder::new();
    let mut spec = folder.script("printf %s \"$HOME\"");
    spec.env_bytes.insert("HOME".into(), b"/home/a\xff".to_vec());
    let started = folder.start(&spec).await;
    started.exit();
    assert_eq!(stdout(&started.dir), b"/home/a\xff");
}

#[tokio::test]
async fn the_environment_is_what_was_allowed_and_nothing_is_inherited() {
    let folder = Folder::new();
    // A descriptor without close-on-exec, as careless libraries leave them.
    let leaked = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let mut spec = folder.script("env -u _ -u PWD -u SHLVL -u OLDPWD; echo --; echo /proc/self/fd/*; echo --; grep -E 'Sig(Ign|Blk)' /proc/self/status; cat");
    spec.env.insert("GREETING".into(), "a b".into());
    let dir = folder.dir("task");
    dir.prepare(&spec, "from stdin {}", &[]).unwrap();
    let supervisor = launcher().launch(&dir).await.unwrap();
    let started = fixtures::Started { dir, supervisor };
    started.exit();
    drop(leaked);
    let text = String::from_utf8(stdout(&started.dir)).unwrap();
    let parts = text.split("--\n").collect::<Vec<_>>();
    let mut environment = parts[0].lines().collect::<Vec<_>>();
    environment.sort_unstable();
    assert_eq!(
        environment,
        ["GREETING=a b".to_owned(), format!("PATH={}", spec.env["PATH"])]
    );
    // The shell's own descriptor for listing the directory is the fourth.
    assert_eq!(
        parts[1].trim(),
        "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3"
    );
    let signals = |name| {
        let line = parts[2].lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    // 32 and 33 are the C library's own and cannot be set.
    let settable = !(0b11 << 31);
    assert_eq!((signals("SigBlk:"), signals("SigIgn:") & settable), (0, 0));
    assert!(text.ends_with("from stdin {}"));
}

#[tokio::test]
async fn watchers_hear_the_newest_output() {
    let folder = Folder::new();
    let script =
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i/100000; done; until [ -e go ]; do sleep 0.01; done";
    let started = folder.start(&folder.script(script)).await;
    let stream = until("the supervisor listens", || connect(&started.dir).ok());
    let mut events = 0;
    for line in BufReader::new(stream).lines() {
        events += 1;
        if line.unwrap().contains("100000/100000") {
            std::fs::write(folder.file("go"), "").unwrap();
        }
    }
    // The stream has ended, so the attempt has; and 100000 lines were not 100000 events.
    assert!(started.exit().ended == CommandEnd::Code(0) && events < 1000, "{events}");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_nothing_up() {
    let folder = Folder::new();
    let started = folder
        .start(&folder.script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done"))
        .await;
    let _deaf = until("the supervisor listens", || connect(&started.dir).ok());
    assert_eq!(started.exit().ended, CommandEnd::Code(0));
}

/// A really full disk: a small file system of its own, if this machine lets us mount one.
#[tokio::test]
async fn a_full_disk_loses_output_but_not_the_end() {
    let folder = Folder::new();
    let small = folder.file("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k", "none"])
        .arg(&small)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("not run: file systems cannot be mounted on this machine");
        return;
    }
    let _unmount = Unmount(small.clone());
    let attempts = longhaul_command::Attempts::open(small.join("attempts")).unwrap();
    let dir = attempts.dir(&"task".parse().unwrap(), 1);
    dir.prepare(
        &folder.script("head -c 2000000 /dev/zero | tr '\\0' 'x'; exit 3"),
        "",
        &[],
    )
    .unwrap();
    let supervisor = launcher().launch(&dir).await.unwrap();
    let started = fixtures::Started { dir, supervisor };
    let exit = started.exit();
    assert_eq!(
        (&exit.ended, exit.stdout_bytes, exit.log_bytes),
        (&CommandEnd::Code(3), 2_000_000, 2_000_000)
    );
    assert!(
        exit.write_error.as_deref().unwrap().contains("No space left"),
        "{exit:?}"
    );
    assert!(log(&started.dir).text.starts_with("xxx"), "the beginning fitted");
    let end = read_log(&started.dir, LogRange::default()).unwrap();
    assert!(
        end.text.ends_with("bytes were not kept here]\n") && end.next == 2_000_000,
        "{end:?}"
    );
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The same without a mount: the supervisor may write no file beyond 16 KiB.
#[tokio::test]
async fn a_file_size_limit_loses_output_but_not_the_end() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let folder = Folder::new();
    let script = "until [ -e go ]; do sleep 0.01; done; head -c 200000 /dev/zero | tr '\\0' 'x'; exit 3";
    let started = folder.start(&folder.script(script)).await;
    let limit = Rlimit {
        current: Some(16 * 1024),
        maximum: Some(16 * 1024),
    };
    prlimit(Pid::from_raw(started.pid()), Resource::Fsize, limit).unwrap();
    std::fs::write(folder.file("go"), "").unwrap();
    let exit = started.exit();
    assert_eq!((&exit.ended, exit.stdout_bytes), (&CommandEnd::Code(3), 200_000));
    assert!(
        exit.write_error.as_deref().unwrap().contains("File too large"),
        "{exit:?}"
    );
    assert!(
        !started.dir.path().join("stdout").exists(),
        "its beginning, which fitted, is not its end"
    );
}
