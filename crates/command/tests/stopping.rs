//! Cancel and deadline end the command and all its descendants, and no other process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod fixtures;

use fixtures::{Folder, alive, kill, now_ms, pids, until_dead};
use longhaul_command::{CommandEnd, Stopped, connect};
use std::io::Write;

#[tokio::test]
async fn cancel_ends_the_command_and_all_its_descendants() {
    let folder = Folder::new();
    // One that ignores SIGTERM, one that left for a session of its own, and a grandchild of that one whose parent is gone.
    let mut spec = folder.script(
        "(trap '' TERM; sh -c 'echo $$ >> pids; while :; do sleep 1000; done') &
         setsid sh -c 'echo $$ >> pids; (setsid sh -c \"echo \\$\\$ >> pids; exec sleep 1000\" &) ; exec sleep 1000' &
         echo $$ >> pids
         wait",
    );
    spec.kill_grace_ms = 100;
    let started = folder.start(&spec).await;
    let processes = pids(&folder.file("pids"), 4);
    assert!(processes.iter().all(|pid| alive(*pid)));
    started.ask("cancel");
    let exit = started.exit();
    assert_eq!((exit.stopped, exit.killed), (Some(Stopped::Cancel), true));
    assert_eq!(exit.ended, CommandEnd::Signal(15), "the shell itself followed SIGTERM");
    // They are gone before the end is recorded, not only after it.
    assert_eq!(
        processes.into_iter().filter(|pid| alive(*pid)).collect::<Vec<_>>(),
        [0; 0]
    );
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let folder = Folder::new();
    let mut spec = folder.script("trap '' TERM; echo $$ > pid; while :; do sleep 1000; done");
    spec.kill_grace_ms = 50;
    let started = folder.start(&spec).await;
    let command = pids(&folder.file("pid"), 1)[0];
    started.ask("deadline");
    let exit = started.exit();
    assert_eq!(
        (exit.stopped, exit.killed, exit.ended),
        (Some(Stopped::Deadline), true, CommandEnd::Signal(9))
    );
    assert!(!alive(command));
}

#[tokio::test]
async fn a_process_that_follows_sigterm_has_the_whole_grace() {
    let folder = Folder::new();
    // The shell goes at once; its child in the same group takes a moment to clean up and must not be killed over it.
    let script = "sh -c 'trap \"sleep 0.3; echo cleaned > cleaned; exit\" TERM; echo $$ > pid; while :; do sleep 0.01; done' & wait";
    let started = folder.start(&folder.script(script)).await;
    pids(&folder.file("pid"), 1);
    started.ask("cancel");
    let exit = started.exit();
    assert_eq!((exit.stopped, exit.killed), (Some(Stopped::Cancel), false));
    assert!(folder.file("cleaned").exists());
}

/// The grace begins with the signal, however long nothing has happened by then.
#[tokio::test]
async fn a_command_that_was_silent_for_long_has_the_whole_grace() {
    let folder = Folder::new();
    let script = "trap 'sleep 0.3; echo cleaned > cleaned; exit' TERM; echo $$ > pid; sleep 4.2 & wait; echo > silent; while :; do sleep 0.01; done";
    let mut spec = folder.script(script);
    spec.kill_grace_ms = 4_000;
    let started = folder.start(&spec).await;
    // As a server does: connected all the while.
    let mut server = fixtures::until("the supervisor listens", || connect(&started.dir).ok());
    fixtures::until_exists(&folder.file("silent"));
    server.write_all(b"cancel\n").unwrap();
    let exit = started.exit();
    assert_eq!((exit.stopped, exit.killed), (Some(Stopped::Cancel), false));
    assert!(folder.file("cleaned").exists());
}

#[tokio::test]
async fn a_suspended_command_can_be_stopped() {
    let folder = Folder::new();
    let started = folder
        .start(&folder.script("echo $$ > pid; kill -STOP $$; exec sleep 1000"))
        .await;
    pids(&folder.file("pid"), 1);
    started.ask("cancel");
    let exit = started.exit();
    assert_eq!((exit.ended, exit.killed), (CommandEnd::Signal(15), false));
}

#[tokio::test]
async fn the_deadline_ends_the_command_without_a_server() {
    let folder = Folder::new();
    let mut spec = folder.script("echo $$ > pid; exec sleep 1000");
    spec.deadline_ms = Some(now_ms() + 1_500);
    let started = folder.start(&spec).await;
    let command = pids(&folder.file("pid"), 1)[0];
    until_dead(command);
    let exit = started.exit();
    assert_eq!(
        (exit.stopped, exit.ended),
        (Some(Stopped::Deadline), CommandEnd::Signal(15))
    );
    assert!(exit.ended_at_ms >= spec.deadline_ms.unwrap());
}

#[tokio::test]
async fn nothing_is_started_after_the_deadline() {
    let folder = Folder::new();
    let mut spec = folder.command(&["touch", "ran"]);
    spec.deadline_ms = Some(now_ms() - 1);
    let (_, exit) = folder.run(&spec).await;
    assert_eq!(exit.stopped, Some(Stopped::Deadline));
    assert!(matches!(exit.ended, CommandEnd::NotStarted(_)));
    assert!(!folder.file("ran").exists());
}

#[tokio::test]
async fn background_processes_survive_an_ordinary_exit() {
    let folder = Folder::new();
    // In the background with the outputs open: the task must not wait for it, and it must live on.
    let (_, exit) = folder
        .run(&folder.script("sleep 1000 & echo $! > pid; echo done"))
        .await;
    let survivor = pids(&folder.file("pid"), 1)[0];
    assert_eq!((exit.ended, exit.stdout_bytes), (CommandEnd::Code(0), 5));
    assert!(alive(survivor));
    kill(survivor);
}

#[tokio::test]
async fn only_the_first_stop_counts() {
    let folder = Folder::new();
    let started = folder.start(&folder.script("echo $$ > pid; exec sleep 1000")).await;
    pids(&folder.file("pid"), 1);
    started.ask("nonsense");
    started.ask("cancel\ndeadline\ncancel");
    assert_eq!(started.exit().stopped, Some(Stopped::Cancel));
}

#[tokio::test]
async fn orphans_of_a_running_command_are_reaped() {
    let folder = Folder::new();
    // Each is orphaned to the supervisor and dies at once; none may stay behind as a zombie.
    let script = "for i in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ >> pids' &); done; until [ -e go ]; do sleep 0.01; done";
    let started = folder.start(&folder.script(script)).await;
    for orphan in pids(&folder.file("pids"), 8) {
        fixtures::until("the orphan is reaped", || {
            (!std::path::Path::new(&format!("/proc/{orphan}")).exists()).then_some(())
        });
    }
    std::fs::write(folder.file("go"), "").unwrap();
    assert_eq!(started.exit().ended, CommandEnd::Code(0));
}
