//! Every byte that a command writes is in its output, or the end says that some may be missing.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod fixtures;

use fixtures::{Folder, Started, kill, launcher, pids};
use longhaul_command::{CommandEnd, ExitRecord, read_log};
use longhaul_runtime::LogRange;
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    process::{Child, Command},
    time::Duration,
};

const MOST_BYTES: usize = 4 << 20;

/// What a command prints, and what happens to its supervisor meanwhile.
#[derive(Debug, Clone)]
struct Run {
    /// How long it waits before it prints, in milliseconds.
    silence: u32,
    bytes: usize,
    /// To standard error instead.
    on_stderr: bool,
    /// How many bytes it prints in one write.
    chunk: usize,
    /// How long its supervisor is held up as soon as the command has ended, as by a busy processor or a slow disk.
    stall: Option<u64>,
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let bytes = prop_oneof![Just(0), 1..100_000usize, 100_000..1_000_000usize, Just(MOST_BYTES)];
    let run = (
        0..2_500u32,
        bytes,
        any::<bool>(),
        prop_oneof![Just(1usize), Just(512), Just(64 * 1024), Just(1 << 20)],
        proptest::option::of(1_100..1_600u64),
    );
    let run = run.prop_map(|(silence, bytes, on_stderr, chunk, stall)| Run {
        silence,
        // A system call for each byte takes too long.
        bytes: if chunk == 1 { bytes % 5_000 } else { bytes },
        on_stderr,
        chunk,
        stall,
    });
    proptest::collection::vec(run, 10)
}

/// Numbers, so that a byte that is missing, or in the wrong place, shows.
fn pattern() -> Vec<u8> {
    let mut text = (0..).flat_map(|n: u32| format!("{n}\n").into_bytes());
    text.by_ref().take(MOST_BYTES).collect()
}

/// Keeps a processor busy until it is dropped.
struct Busy(Child);

impl Busy {
    fn new() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start(folder: &Folder, name: &str, run: &Run) -> Started {
    let mut spec = folder.script(&format!(
        "sleep {}.{:03}; exec dd if=pattern bs={} count={} iflag=count_bytes status=none{}",
        run.silence / 1000,
        run.silence % 1000,
        run.chunk,
        run.bytes,
        if run.on_stderr { " >&2" } else { "" }
    ));
    spec.max_output = MOST_BYTES as u64;
    spec.max_log = 2 * MOST_BYTES as u64;
    let dir = folder.dir(name);
    dir.prepare(&spec, "", &[]).unwrap();
    let supervisor = launcher().launch(&dir).await.unwrap();
    Started { dir, supervisor }
}

/// Stops a supervisor for a while when its command has written.
#[expect(clippy::disallowed_methods, reason = "the length of a stall is what is tried")]
fn stall(pid: i32, delay: u64, millis: u64) {
    let pid = Pid::from_raw(pid).unwrap();
    std::thread::sleep(Duration::from_millis(delay));
    // Over already: nothing to hold up.
    if kill_process(pid, Signal::STOP).is_ok() {
        std::thread::sleep(Duration::from_millis(millis));
        let _ = kill_process(pid, Signal::CONT);
    }
}

fn whole(started: &Started) -> Vec<u8> {
    let mut text = String::new();
    let mut offset = 0;
    loop {
        let range = LogRange {
            offset: Some(offset),
            limit: Some(1 << 20),
        };
        let chunk = read_log(&started.dir, range).unwrap();
        if chunk.next == offset {
            return text.into_bytes();
        }
        text.push_str(&chunk.text);
        offset = chunk.next;
    }
}

fn counted(exit: &ExitRecord) -> (u64, u64, u64) {
    (exit.stdout_bytes, exit.stderr_bytes, exit.log_bytes)
}

proptest! {
    // Each case waits for real silences.
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_kept_after_any_silence_and_on_a_busy_machine(runs in runs()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = Folder::new();
        let pattern = pattern();
        std::fs::write(folder.file("pattern"), &pattern).unwrap();
        let _busy = [Busy::new(), Busy::new()];
        let started: Vec<Started> = runtime.block_on(async {
            let mut started = Vec::new();
            for (nth, run) in runs.iter().enumerate() {
                started.push(start(&folder, &format!("task-{nth}"), run).await);
            }
            started
        });
        std::thread::scope(|scope| {
            for (run, started) in runs.iter().zip(&started) {
                if let Some(millis) = run.stall {
                    let (pid, delay) = (started.pid(), u64::from(run.silence));
                    scope.spawn(move || stall(pid, delay, millis));
                }
            }
        });
        for (run, started) in runs.iter().zip(&started) {
            let exit = started.exit();
            prop_assert_eq!((&exit.ended, &exit.write_error), (&CommandEnd::Code(0), &None), "{:?}", run);
            let bytes = run.bytes as u64;
            let expected = if run.on_stderr { (0, bytes, bytes) } else { (bytes, 0, bytes) };
            prop_assert_eq!(counted(&exit), expected, "{:?}", run);
            prop_assert!(whole(started) == pattern[..run.bytes], "the log of {:?}", run);
            if !run.on_stderr {
                let kept = std::fs::read(started.dir.path().join("stdout")).unwrap_or_default();
                prop_assert!(kept == pattern[..run.bytes], "the output of {:?}", run);
            }
        }
    }
}

#[tokio::test]
async fn what_a_left_behind_process_writes_is_kept_until_it_pauses_and_then_its_loss_is_marked() {
    let folder = Folder::new();
    // It runs for a moment after the command has ended, is silent for long, and has only one of the outputs open.
    let script = "sh -c 'echo $$ > pid; for i in 1 2 3 4 5 6 7 8; do echo late; sleep 0.01; done; exec sleep 1000' 2>/dev/null & echo own";
    let (dir, exit) = folder.run(&folder.script(script)).await;
    let survivor = pids(&folder.file("pid"), 1)[0];
    assert_eq!((exit.stdout_left_open, exit.stderr_left_open), (true, false));
    let kept = std::fs::read_to_string(dir.path().join("stdout")).unwrap();
    assert_eq!(kept.matches("late\n").count(), 8, "{kept}");
    kill(survivor);
}

#[tokio::test]
async fn an_end_without_survivors_is_not_marked() {
    let folder = Folder::new();
    let (_, exit) = folder.run(&folder.script("echo out; echo err >&2")).await;
    assert_eq!((exit.stdout_left_open, exit.stderr_left_open), (false, false));
    assert!(
        !serde_json::to_string(&exit).unwrap().contains("left_open"),
        "as earlier versions wrote it"
    );
}

/// Written by the release before this field existed.
#[test]
fn an_exit_record_of_an_earlier_version_is_read() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    std::fs::create_dir_all(dir.path()).unwrap();
    let record = r#"{"ended":{"code":0},"stopped":null,"killed":false,"ended_at_ms":5,"stdout_bytes":3,"stderr_bytes":0,"log_bytes":3,"write_error":null}"#;
    std::fs::write(dir.path().join("exit"), record).unwrap();
    let exit = dir.exit().unwrap().unwrap();
    assert_eq!((exit.stdout_bytes, exit.stdout_left_open), (3, false));
}
