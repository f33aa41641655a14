//! Each branch of recovery: what `judge` says about an attempt, wherever the process that held it died.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod fixtures;
#[path = "../../private-dir/tests/planted/mod.rs"]
mod planted;

use fixtures::{Folder, alive, ended, kill, launcher, pids, until, until_dead, until_exists};
use longhaul_command::{AttemptVerdict, Attempts, CommandEnd, LaunchSpec, Stopped, judge, read_log};
use longhaul_core::AttemptState::{Live, Starting, Stopping};
use longhaul_private_dir::Unfit;
use longhaul_runtime::LogRange;
use planted::PLANTS;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

#[tokio::test]
async fn held_while_the_supervisor_lives() {
    let folder = Folder::new();
    let started = folder.start(&folder.command(&["sleep", "1000"])).await;
    assert_eq!(judge(&started.dir, Live).unwrap(), AttemptVerdict::Held);
    assert_eq!(
        judge(&started.dir, Live).unwrap(),
        AttemptVerdict::Held,
        "judging changes nothing"
    );
    started.ask("cancel");
    assert_eq!(started.exit().stopped, Some(Stopped::Cancel));
}

#[tokio::test]
async fn finished_once_there_is_an_exit_record() {
    let folder = Folder::new();
    let (dir, exit) = folder.run(&folder.script("echo out; echo err >&2; exit 7")).await;
    assert_eq!((&exit.ended, exit.stopped), (&CommandEnd::Code(7), None));
    assert_eq!((exit.stdout_bytes, exit.stderr_bytes, exit.log_bytes), (4, 4, 8));
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::Finished(exit));
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert!(
            mode == 0o600 || file.file_name() == "sock",
            "{:?} has mode {mode:o}",
            file.file_name()
        );
    }
    for above in dir.path().ancestors().take(3) {
        assert_eq!(above.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_is_an_end_like_any_other() {
    let folder = Folder::new();
    let (_, exit) = folder.run(&folder.command(&["no-such-program"])).await;
    assert!(
        matches!(&exit.ended, CommandEnd::NotStarted(error) if error.contains("No such file")),
        "{exit:?}"
    );
}

#[tokio::test]
async fn interrupted_when_the_supervisor_was_killed_and_its_command_with_it() {
    let folder = Folder::new();
    let started = folder.start(&folder.script("echo $$ > pid; exec sleep 1000")).await;
    let command = pids(&folder.file("pid"), 1)[0];
    assert!(alive(command));
    kill(started.pid());
    until_dead(command);
    assert_eq!(ended(&started.dir), AttemptVerdict::Interrupted);
    let refused = launcher().launch(&started.dir).await.unwrap_err();
    assert!(refused.to_string().contains("started before"), "{refused}");
}

#[tokio::test]
async fn damaged_when_the_exit_record_cannot_be_understood() {
    let folder = Folder::new();
    let (dir, _) = folder.run(&folder.command(&["true"])).await;
    for text in ["", "{", "{}"] {
        fs::write(dir.path().join("exit"), text).unwrap();
        assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::Damaged, "{text:?}");
    }
    // Not read to its end: a command can make it as large as it likes.
    let large = fs::File::create(dir.path().join("exit")).unwrap();
    large.set_len(1 << 40).unwrap();
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::Damaged);
}

#[tokio::test]
async fn void_when_nothing_was_started_and_nothing_will_be() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    assert_eq!(
        judge(&dir, Starting).unwrap(),
        AttemptVerdict::NeverStarted,
        "killed before the directory was made"
    );
    dir.prepare(&folder.command(&["touch", "ran"]), "", &[]).unwrap();
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::NeverStarted);
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::NeverStarted);
    let refused = launcher().launch(&dir).await.unwrap_err();
    assert!(refused.to_string().contains("void"), "{refused}");
    assert!(!folder.file("ran").exists());
}

#[tokio::test]
async fn void_when_killed_while_preparing() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    std::fs::create_dir_all(dir.path()).unwrap();
    assert_eq!(judge(&dir, Starting).unwrap(), AttemptVerdict::NeverStarted);
    assert!(launcher().launch(&dir).await.is_err());
}

/// Invariant 12: an attempt that may have been started is never judged as not started, whatever is missing from its folder.
#[tokio::test]
async fn invariant_12_a_folder_that_was_removed_after_the_start_is_lost() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    for state in [Live, Stopping] {
        assert_eq!(judge(&dir, state).unwrap(), AttemptVerdict::Lost, "no folder");
    }
    assert!(!dir.path().exists(), "nothing was written");
    std::fs::create_dir_all(dir.path()).unwrap();
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::Lost, "an empty folder");

    let started = folder.start_as("runs", &folder.command(&["sleep", "1000"])).await;
    std::fs::remove_file(started.dir.path().join("lock")).unwrap();
    for state in [Starting, Live, Stopping] {
        assert_eq!(judge(&started.dir, state).unwrap(), AttemptVerdict::Lost, "no lock");
    }
    assert!(!started.dir.path().join("lock").exists(), "no other lock was made");
    for file in std::fs::read_dir(started.dir.path()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
        let verdict = judge(&started.dir, Live).unwrap();
        assert_eq!(verdict, AttemptVerdict::Lost, "a part of the folder");
    }
    assert!(alive(started.pid()), "it runs all the while");
    kill(started.pid());
}

/// What is in the place of a file or folder of an attempt is not followed, waited for or emptied.
#[tokio::test]
async fn what_is_planted_in_a_folder_is_not_used() {
    let folder = Folder::new();
    let (dir, exit) = folder.run(&folder.script("echo out; echo err >&2")).await;
    let victim = folder.file("victim");
    fs::write(&victim, "{}").unwrap();
    for file in ["lock", "exit", "version", "log.0"] {
        let (file, kept) = (dir.path().join(file), folder.file("kept"));
        for (_, plant) in PLANTS {
            fs::rename(&file, &kept).unwrap();
            plant(&file, &victim);
            let judged = judge(&dir, Live);
            if file.ends_with("log.0") {
                assert_eq!(judged.unwrap(), AttemptVerdict::Finished(exit.clone()));
                // What has no length is not even opened.
                match read_log(&dir, LogRange::default()) {
                    Ok(chunk) => assert!(chunk.text.contains("were not kept"), "{}", chunk.text),
                    Err(error) => assert!(Unfit::of(&error).is_some(), "{error}"),
                }
            } else {
                let verdict = judged.unwrap();
                assert!(
                    matches!(verdict, AttemptVerdict::Lost | AttemptVerdict::Damaged),
                    "{}: {verdict:?}",
                    file.display()
                );
            }
            if file.is_dir() {
                fs::remove_dir(&file).unwrap();
            } else {
                fs::remove_file(&file).unwrap();
            }
            fs::rename(&kept, &file).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "{}");
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::Finished(exit));

    // The folder itself, its task's, and the one of all attempts.
    let task_dir = dir.path().parent().unwrap();
    for folder_path in [dir.path(), task_dir] {
        let kept = folder.file("kept");
        fs::rename(folder_path, &kept).unwrap();
        symlink(&kept, folder_path).unwrap();
        assert_eq!(
            judge(&dir, Live).unwrap(),
            AttemptVerdict::Lost,
            "its record is somebody else's"
        );
        let prepared = dir.prepare(&folder.command(&["true"]), "", &[]);
        assert!(prepared.is_err());
        fs::remove_file(folder_path).unwrap();
        fs::rename(&kept, folder_path).unwrap();
    }
    let elsewhere = folder.file("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, folder.file("planted")).unwrap();
    let refused = Attempts::open(folder.file("planted")).unwrap_err();
    assert!(refused.to_string().contains("it is a symbolic link"), "{refused}");
}

/// Its command would read what it leads to.
#[tokio::test]
async fn a_supervisor_hands_no_planted_input_to_its_command() {
    let folder = Folder::new();
    let victim = folder.file("victim");
    fs::write(&victim, "secret").unwrap();
    for (nth, (said, plant)) in PLANTS.into_iter().enumerate() {
        let dir = folder.dir(&format!("task-{nth}"));
        dir.prepare(&folder.script("cat > read"), "input", &[]).unwrap();
        let stdin = dir.path().join("stdin");
        fs::remove_file(&stdin).unwrap();
        plant(&stdin, &victim);
        let refused = launcher().launch(&dir).await.unwrap_err().to_string();
        assert!(
            refused.contains("standard input") && refused.contains(said),
            "{said}: {refused}"
        );
        assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::NeverStarted);
    }
    assert!(!folder.file("read").exists());
}

/// Invariant 12: a supervisor that starts late and a judgement race for the lock; the loser sees what the winner did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_12_void_races_a_late_starter() {
    let folder = Folder::new();
    let (mut voided, mut ran) = (0, 0);
    // How long the server waits before it decides, in yields: moved towards the moment at which either side may win.
    let mut delay = 100;
    for round in 0..60 {
        let dir = folder.dir(&format!("task-{round}"));
        let mark = folder.file(&format!("ran-{round}"));
        dir.prepare(&folder.command(&["touch", mark.to_str().unwrap()]), "", &[])
            .unwrap();
        let launcher = launcher();
        let (launched, judged) = tokio::join!(launcher.launch(&dir), async {
            for _ in 0..delay {
                tokio::task::yield_now().await;
            }
            judge(&dir, Live).unwrap()
        });
        match judged {
            AttemptVerdict::NeverStarted => {
                voided += 1;
                delay = delay * 3 / 2;
                assert!(launched.is_err());
                assert_eq!(ended(&dir), AttemptVerdict::NeverStarted);
                assert!(!mark.exists(), "a voided attempt ran");
            }
            AttemptVerdict::Held | AttemptVerdict::Finished(_) => {
                ran += 1;
                delay = delay * 2 / 3 + 1;
                launched.unwrap();
                assert!(matches!(ended(&dir), AttemptVerdict::Finished(exit) if exit.ended == CommandEnd::Code(0)));
                assert!(mark.exists());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(voided > 0 && ran > 0, "{voided} voided, {ran} ran: no race");
}

#[tokio::test]
async fn another_format_is_left_alone() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    dir.prepare(&folder.command(&["touch", "ran"]), "", &[]).unwrap();
    std::fs::write(dir.path().join("version"), "2\n").unwrap();
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    assert_eq!(
        judge(&dir, Live).unwrap(),
        AttemptVerdict::UnknownVersion { found: "2".into() }
    );
    assert_eq!(files(), before, "nothing was written into it");
    let refused = launcher().launch(&dir).await.unwrap_err();
    assert!(refused.to_string().contains("format 2"), "{refused}");
    assert!(!folder.file("ran").exists());
}

#[tokio::test]
async fn invariant_12_one_attempt_has_one_supervisor() {
    let folder = Folder::new();
    let started = folder.start(&folder.script("echo $$ >> pid; exec sleep 1000")).await;
    pids(&folder.file("pid"), 1);
    let refused = launcher().launch(&started.dir).await.unwrap_err();
    assert!(refused.to_string().contains("held"), "{refused}");
    started.ask("cancel");
    started.exit();
    pids(&folder.file("pid"), 1);
}

#[tokio::test]
async fn an_end_that_cannot_be_recorded_is_kept_until_it_can() {
    let folder = Folder::new();
    let started = folder
        .start(&folder.script("until [ -e go ]; do sleep 0.01; done; exit 5"))
        .await;
    // Under another name others could change the record, so it is not written.
    let blocker = started.dir.path().join("other name");
    std::fs::hard_link(started.dir.path().join("exit.draft"), &blocker).unwrap();
    std::fs::write(folder.file("go"), "").unwrap();
    // The last that is written before the record.
    let outputs = started.dir.path().join("both");
    until("the command has ended", || outputs.exists().then_some(()));
    assert!(alive(started.pid()));
    std::fs::remove_file(&blocker).unwrap();
    assert_eq!(started.exit().ended, CommandEnd::Code(5));
}

#[tokio::test]
async fn a_supervisor_ends_when_its_directory_was_removed() {
    let folder = Folder::new();
    let started = folder
        .start(&folder.script("until [ -e go ]; do sleep 0.01; done"))
        .await;
    // The supervisor may still make files of the attempt.
    while started.dir.path().exists() {
        let _ = std::fs::remove_dir_all(started.dir.path());
    }
    std::fs::write(folder.file("go"), "").unwrap();
    until_dead(started.pid());
}

#[tokio::test]
async fn a_long_way_to_the_directory_does_not_matter() {
    let folder = Folder::new();
    let deep = folder.file(&"d".repeat(200)).join("e".repeat(200));
    let attempts = longhaul_command::Attempts::open(deep).unwrap();
    let dir = attempts.dir(&"task".parse().unwrap(), 1);
    dir.prepare(&folder.command(&["sleep", "1000"]), "", &[]).unwrap();
    let supervisor = launcher().launch(&dir).await.unwrap();
    let started = fixtures::Started { dir, supervisor };
    started.ask("cancel");
    assert_eq!(started.exit().stopped, Some(Stopped::Cancel));
}

#[tokio::test]
async fn attempts_are_counted_and_removed() {
    let folder = Folder::new();
    folder.run(&folder.script("head -c 200000 /dev/zero")).await;
    let held = folder.attempts.bytes_held().unwrap();
    assert!(held >= 400_000, "log and output take {held} bytes");
    let task = "task".parse().unwrap();
    folder.attempts.remove(&task).unwrap();
    folder.attempts.remove(&task).unwrap();
    assert!(folder.attempts.bytes_held().unwrap() < 10_000);
    until_exists(folder.files.path());
}

/// The server has died before it had written them, or somebody else starts it.
#[tokio::test]
async fn a_supervisor_without_its_secrets_starts_nothing() {
    let folder = Folder::new();
    let dir = folder.dir("task");
    let spec = LaunchSpec {
        has_secrets: true,
        ..folder.command(&["touch", "ran"])
    };
    dir.prepare(&spec, "", &[]).unwrap();
    let refused = launcher().launch(&dir).await.unwrap_err().to_string();
    assert!(
        refused.contains("the secret arguments did not arrive whole"),
        "{refused}"
    );
    assert_eq!(judge(&dir, Live).unwrap(), AttemptVerdict::NeverStarted);
    assert!(!folder.file("ran").exists());
}
