//! Files that a command leaves for its caller.

use super::fixtures::{ended, launcher, until};
use super::support::{Server, becomes, call, create, outcome, result, scope};
use longhaul_command::{ArtifactSettings, AttemptVerdict, CommandProvider};
use longhaul_core::{CancelMode, Outcome, Retry, RetryOn, TaskId};
use longhaul_runtime::{ArtifactChunk, ArtifactList, MAX_ARTIFACT_READ, Ports, Provider};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fs, sync::Arc};

fn keeping(patterns: &[&str], script: &str) -> Server {
    let mut server = Server::running(script);
    server.definition.artifacts = Some(ArtifactSettings {
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        max_bytes: 1 << 30,
    });
    server
}

fn provider(server: &Server) -> CommandProvider {
    CommandProvider::new(server.attempts.clone(), launcher(), Ports::system())
}

async fn list(server: &Server, task: &TaskId, epoch: u32) -> Option<ArtifactList> {
    provider(server).artifacts(task, epoch).await.unwrap()
}

async fn read_at(server: &Server, task: &TaskId, name: &str, offset: u64, limit: u64) -> Option<ArtifactChunk> {
    let read = provider(server).read_artifact(task, 1, name, offset, limit).await;
    read.unwrap()
}

async fn read(server: &Server, task: &TaskId, name: &str) -> Option<Vec<u8>> {
    Some(read_at(server, task, name, 0, u64::MAX).await?.bytes)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(list: &ArtifactList) -> Vec<&str> {
    list.kept.iter().map(|artifact| &*artifact.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_regular_files_are_kept_and_linked() {
    let server = keeping(
        &["out/**/*.pdf", "none/*.txt"],
        "echo new > out/new.pdf; : > out/empty.pdf; mkdir out/deep; echo deep > out/deep/d.pdf; echo more >> out/changed.pdf
        echo odd > \"out/a b é
c?.pdf\"; echo hidden > out/.hidden.pdf; echo other > out/other.txt
        ln -s /etc/passwd out/link.pdf; ln -s /etc out/etc.pdf; mkfifo out/fifo.pdf; mkdir out/folder.pdf
        echo own > $LONGHAUL_ARTIFACTS/own.txt; mkdir $LONGHAUL_ARTIFACTS/x; echo dot > $LONGHAUL_ARTIFACTS/x/.dot
        ln -s /etc/passwd $LONGHAUL_ARTIFACTS/passwd; echo done",
    );
    fs::create_dir(server.file("out")).unwrap();
    for file in ["out/old.pdf", "out/changed.pdf"] {
        fs::write(server.file(file), "before\n").unwrap();
    }
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let (value, is_error) = result(&outcome(&engine, &id).await);

    let kept = list(&server, &id, 1).await.unwrap();
    let odd = "out/a b é\nc?.pdf";
    let expected = [
        ("own.txt", "own\n", "own.txt"),
        ("x/.dot", "dot\n", "x/.dot"),
        (odd, "odd\n", "out/a%20b%20%C3%A9%0Ac%3F.pdf"),
        ("out/changed.pdf", "before\nmore\n", "out/changed.pdf"),
        ("out/deep/d.pdf", "deep\n", "out/deep/d.pdf"),
        ("out/empty.pdf", "", "out/empty.pdf"),
        ("out/new.pdf", "new\n", "out/new.pdf"),
    ];
    assert_eq!(names(&kept), expected.map(|(name, ..)| name), "{kept:?}");
    assert_eq!(
        (is_error, value["content"][0]["text"].as_str()),
        (false, Some("done\n"))
    );
    for (at, (name, content, path)) in expected.into_iter().enumerate() {
        assert_eq!(kept.kept[at].sha256, sha256(content.as_bytes()), "{name}");
        assert_eq!(read(&server, &id, name).await.unwrap(), content.as_bytes(), "{name}");
        let media_type = match name.ends_with(".pdf") {
            true => "application/pdf",
            false if name.ends_with(".txt") => "text/plain",
            false => "application/octet-stream",
        };
        assert_eq!(
            value["content"][at + 1],
            json!({
                "type": "resource_link",
                "uri": format!("longhaul://task/{}/artifacts/{path}", id.as_str()),
                "name": name.replace('\n', " "),
                "mimeType": media_type,
                "size": content.len(),
                "_meta": {"dev.longhaul/artifact": {"sha256": sha256(content.as_bytes())}},
            })
        );
    }
    assert_eq!(value["content"].as_array().unwrap().len(), expected.len() + 1);
    assert_eq!(kept.problems, [""; 0]);
    let notes = kept.notes.join("\n");
    for note in [
        "`passwd` in $LONGHAUL_ARTIFACTS is a link",
        "`out/link.pdf` in the folder that the command ran in is a link",
        "no file matched \"none/*.txt\"",
        "1 of the files that matched, such as `out/old.pdf`, were there before",
    ] {
        assert!(
            notes.contains(note) || notes.contains(&note.replace("link.pdf", "etc.pdf")),
            "{note}: {notes}"
        );
    }
    // No path leads to another file.
    for name in [
        "out/old.pdf",
        "../spec",
        "/etc/passwd",
        "out/link.pdf",
        "artifact.1",
        "",
    ] {
        assert_eq!(read(&server, &id, name).await, None, "{name}");
    }
    let dir = server.attempts.dir(&id, 1);
    assert!(!dir.path().join("out").exists(), "the copies take no room twice");
    provider(&server).forget(&id).await.unwrap();
    assert_eq!(list(&server, &id, 1).await, None);
    assert_eq!(server.attempts.bytes_held().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_in_the_place_of_its_folder_is_not_followed() {
    let server = keeping(
        &["link/*", "real/*"],
        "mkdir real; echo x > real/x; ln -s real link; rmdir $LONGHAUL_ARTIFACTS; ln -s $PWD/real $LONGHAUL_ARTIFACTS",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let (value, _) = result(&outcome(&engine, &id).await);
    assert_eq!(names(&list(&server, &id, 1).await.unwrap()), ["real/x"], "{value}");
    assert_eq!(
        fs::read(server.file("real/x")).unwrap(),
        b"x\n",
        "nothing is removed through a link"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_a_limit_is_left_out_and_the_call_succeeds() {
    let problems = async |server: &Server| {
        let engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        let (value, is_error) = result(&outcome(&engine, &id).await);
        assert!(!is_error);
        let kept = list(server, &id, 1).await.unwrap();
        let last = value["content"].as_array().unwrap().last().unwrap()["text"].to_string();
        assert!(last.contains("not all files are kept"), "{last}");
        (kept, last)
    };
    let mut server = keeping(
        &["*.bin"],
        "head -c 600 /dev/zero > a.bin; head -c 600 /dev/zero > b.bin; head -c 400 /dev/zero > c.bin",
    );
    server.definition.artifacts.as_mut().unwrap().max_bytes = 1000;
    let (kept, told) = problems(&server).await;
    assert_eq!(names(&kept), ["a.bin", "c.bin"]);
    assert!(
        told.contains("`b.bin` is left out: with its 600 bytes the files would have more than 1000 bytes"),
        "{told}"
    );

    let server = keeping(
        &[],
        "i=0; while [ $i -lt 130 ]; do i=$((i+1)); : > $LONGHAUL_ARTIFACTS/$i; done",
    );
    let (kept, told) = problems(&server).await;
    assert_eq!((kept.kept.len(), kept.problems.len()), (100, 21));
    assert!(told.contains("10 more files are left out"), "{told}");

    let mut server = keeping(&["a"], "echo cwd > a; echo own > $LONGHAUL_ARTIFACTS/a");
    let (kept, told) = problems(&server).await;
    assert_eq!(
        (
            names(&kept),
            told.contains("`a` is left out: there is one of this name")
        ),
        (vec!["a"], true)
    );

    server.least_free = u64::MAX;
    let (kept, told) = problems(&server).await;
    assert_eq!(
        (names(&kept), told.contains("the disk would have less")),
        (vec![], true),
        "{told}"
    );
}

/// A build's report is wanted most of all if it fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attempt_has_its_own_and_two_sets_are_kept() {
    let mut server = keeping(
        &["report*"],
        "echo x >> runs; echo $(wc -l < runs) > report$(wc -l < runs); exit 3",
    );
    server.retry = Retry {
        attempts: 4,
        backoff: 0,
        on: vec![RetryOn::Error],
    };
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let (value, is_error) = result(&outcome(&engine, &id).await);
    assert!(
        is_error
            && value["content"][1]["uri"]
                .as_str()
                .unwrap()
                .ends_with("/artifacts/report4")
    );
    for (epoch, expected) in [(1, None), (2, None), (3, Some(["report3"])), (4, Some(["report4"]))] {
        let kept = list(&server, &id, epoch).await;
        assert_eq!(
            kept.as_ref().map(names),
            expected.map(|names| names.to_vec()),
            "{epoch}"
        );
    }
    assert!(!server.attempts.dir(&id, 2).path().join("artifact.1").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_has_left_files_too() {
    let server = keeping(
        &[],
        "echo half > $LONGHAUL_ARTIFACTS/half; touch ready; while :; do sleep 0.01; done",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    until("it has begun", || server.file("ready").exists().then_some(()));
    engine.cancel(&scope(), &id, CancelMode::Cooperative).await.unwrap();
    let over = becomes(&engine, &id, |record| {
        record.task.is_done() && record.task.active_attempt().is_none()
    })
    .await;
    let status = over.task.status.unwrap();
    let told = format!("It left 1 file: longhaul://task/{}/artifacts", id.as_str());
    assert!(
        over.outcome == Some(Outcome::Cancelled) && status.contains(&told),
        "{status}"
    );
    assert_eq!(read(&server, &id, "half").await.unwrap(), b"half\n");
}

/// Otherwise nobody could read them: a plain call is gone a minute after its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_that_leaves_files_becomes_a_task() {
    for (script, is_task) in [("echo x > $LONGHAUL_ARTIFACTS/x", true), ("true", false)] {
        let server = keeping(&[], script);
        let engine = server.start().await;
        let mut waiting = engine.begin(call(&engine, json!({}))).await.unwrap();
        let id = waiting.id().clone();
        let (value, _) = result(&waiting.ended(|_| ()).await.unwrap());
        assert_eq!(value["content"].as_array().unwrap().len(), 1 + usize::from(is_task));
        let found = engine.get(&scope(), &id).await.unwrap();
        assert_eq!(found.is_some_and(|record| record.task.announced), is_task);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_revisions_without_links_get_lines() {
    for (version, has_link) in [
        ("2024-11-05", false),
        ("2025-03-26", false),
        ("2025-06-18", true),
        ("", true),
    ] {
        let server = keeping(&[], "echo x > $LONGHAUL_ARTIFACTS/x.txt");
        let engine = server.start().await;
        let mut made = call(&engine, json!({}));
        Arc::make_mut(&mut made.requestor).version = version.to_owned();
        let id = engine.create(made).await.unwrap().id.clone();
        let (value, _) = result(&outcome(&engine, &id).await);
        let block = &value["content"][1];
        assert_eq!(block["type"] == "resource_link", has_link, "{version}");
        if !has_link {
            let text = block["text"].as_str().unwrap();
            let uri = format!("longhaul://task/{}/artifacts/x.txt", id.as_str());
            assert!(
                text.contains(&format!("x.txt (2 bytes, SHA-256 {}): {uri}", sha256(b"x\n"))),
                "{text}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_are_read_in_parts_and_take_no_memory() {
    const SIZE: u64 = 200 << 20;
    let server = keeping(
        &["*.bin"],
        "truncate -s 200M large.bin; printf end >> large.bin; echo $PPID > pid",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let (pid, mut peak) = (server.supervisor(&id), 0);
    let dir = server.attempts.dir(&id, 1);
    until("it has ended", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(now.unwrap_or_default());
        dir.path().join("exit").exists().then_some(())
    });
    assert!(peak > 0 && peak < 24 * 1024, "the supervisor took {peak} kB");
    outcome(&engine, &id).await;
    let (mut offset, mut digest) = (0, Sha256::new());
    loop {
        let chunk = read_at(&server, &id, "large.bin", offset, u64::MAX).await.unwrap();
        assert_eq!((chunk.offset, chunk.artifact.size), (offset, SIZE + 3));
        assert!(chunk.bytes.len() as u64 <= MAX_ARTIFACT_READ);
        digest.update(&chunk.bytes);
        offset = chunk.next();
        if chunk.bytes.is_empty() {
            assert_eq!(offset, SIZE + 3);
            let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, chunk.artifact.sha256);
            break;
        }
    }
    for (offset, limit, expected) in [
        (SIZE, 2, &b"en"[..]),
        (SIZE + 2, 100, b"d"),
        (SIZE + 3, 1, b""),
        (u64::MAX, 1, b""),
        (0, 0, b""),
    ] {
        let chunk = read_at(&server, &id, "large.bin", offset, limit).await.unwrap();
        assert_eq!(chunk.bytes, expected, "{offset}");
    }
    // A copy that is not as it was is never sent.
    fs::write(dir.path().join("artifact.1"), "other").unwrap();
    assert!(
        provider(&server)
            .read_artifact(&id, 1, "large.bin", 0, 1)
            .await
            .is_err()
    );
}

/// An end that is recorded has all of its files; without one there is none. Wherever the supervisor is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_supervisor_leaves_all_files_or_none() {
    let server = keeping(
        &[],
        "i=0; while [ $i -lt 8 ]; do i=$((i+1)); head -c 3000000 /dev/urandom > $LONGHAUL_ARTIFACTS/$i; done; touch $1",
    );
    let engine = server.start().await;
    let (mut finished, mut interrupted) = (0, 0);
    for round in 0..14 {
        let word = format!("written{round}");
        let id = create(&engine, json!({"word": word})).await.id.clone();
        let dir = server.attempts.dir(&id, 1);
        until("its files are there", || server.file(&word).exists().then_some(()));
        // Before the copies, among them, and after them.
        let copies = [0, 1, 2, 4, 7, 8, 9][round % 7];
        until("some are copied", || {
            let is_copied = copies == 0 || dir.path().join(format!("artifact.{copies}")).exists();
            (is_copied || dir.path().join("artifacts").exists()).then_some(())
        });
        let pid = until("the supervisor is known, or has ended", || {
            Some(fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                let is_it = String::from_utf8_lossy(&line).contains(id.as_str());
                is_it.then(|| entry.file_name().to_str()?.parse::<i32>().ok()).flatten()
            }))
        });
        if let Some(pid) = pid {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let kept = match ended(&dir) {
            AttemptVerdict::Finished(_) => {
                finished += 1;
                let kept = list(&server, &id, 1).await.unwrap();
                assert_eq!(kept.kept.len(), 8);
                kept.kept
            }
            AttemptVerdict::Interrupted => {
                interrupted += 1;
                assert_eq!(list(&server, &id, 1).await, None);
                assert_eq!(read(&server, &id, "1").await, None);
                continue;
            }
            other => panic!("{other:?}"),
        };
        for artifact in kept {
            let mut bytes = Vec::new();
            while let Some(chunk) = read_at(&server, &id, &artifact.name, bytes.len() as u64, u64::MAX).await
                && !chunk.bytes.is_empty()
            {
                bytes.extend(chunk.bytes);
            }
            assert_eq!((sha256(&bytes), bytes.len() as u64), (artifact.sha256, artifact.size));
        }
    }
    assert!(interrupted > 0, "{finished} rounds came too late");
}

/// The copy is what was in the file, or the result says that it may not be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_written_to_meanwhile_is_noticed() {
    let server = keeping(
        &["growing"],
        "head -c 40000000 /dev/zero > growing; (while [ ! -e stop ]; do echo x >> growing; done) > /dev/null 2>&1 &",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let (value, is_error) = result(&outcome(&engine, &id).await);
    fs::write(server.file("stop"), "").unwrap();
    assert!(!is_error);
    let told = value["content"][2]["text"].as_str().unwrap();
    assert!(told.contains("`growing` was written to while it was copied"), "{told}");
    let kept = list(&server, &id, 1).await.unwrap();
    assert!(kept.kept[0].size >= 40_000_000);
    assert_eq!(
        kept.kept[0].size,
        fs::metadata(server.attempts.dir(&id, 1).path().join("artifact.1"))
            .unwrap()
            .len()
    );
}

/// While the server is away the supervisor keeps the files, and the next one finds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_kept_without_a_server() {
    let server = keeping(
        &[],
        "touch begun; until [ -e go ]; do sleep 0.01; done; echo x > $LONGHAUL_ARTIFACTS/x",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    until("it has begun", || server.file("begun").exists().then_some(()));
    engine.stop();
    drop(engine);
    fs::write(server.file("go"), "").unwrap();
    until("it has ended", || {
        server.attempts.dir(&id, 1).path().join("exit").exists().then_some(())
    });
    let engine = server.start().await;
    let (value, _) = result(&outcome(&engine, &id).await);
    let uri: &Value = &value["content"][1]["uri"];
    assert_eq!(*uri, json!(format!("longhaul://task/{}/artifacts/x", id.as_str())));
}
