//! The files that a command leaves: listed, downloaded, kept over a kill and in a backup.

use super::support::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
};

const REPORT: &str = r#"
[[tool]]
name = "report"
description = "makes files and ends with a code"
command = ["sh", "-c", "mkdir -p out; head -c 3000000 /dev/urandom > out/large.bin; echo text > 'out/a b.txt'; ln -sf /etc/passwd out/passwd.txt; echo own > $LONGHAUL_ARTIFACTS/own.txt; exit \"$1\"", "sh", "{code}"]
input = { code = { type = "integer", minimum = 0 } }
artifacts = ["out/*.bin", "out/*.txt"]
task = "always"
"#;

struct Reported {
    served: Served,
    id: String,
    /// Where downloads go.
    target: tempfile::TempDir,
}

impl Reported {
    fn start(code: u8) -> Self {
        let served = Served::start_with(REPORT);
        let started = run(&["call", &served.url, "report", &format!("code={code}"), "--detach"]);
        let id = stdout(&started).trim().to_owned();
        run(&["task", &served.url, &id, "--wait"]).ends(code.min(1).into());
        Self {
            served,
            id,
            target: tempfile::tempdir().unwrap(),
        }
    }

    fn artifact(&self, words: &[&str]) -> std::process::Output {
        let mut command = longhaul(&[&["task", &self.served.url, &self.id, "--artifact"], words].concat());
        command.current_dir(self.target.path()).output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.target.path().join(name)
    }

    /// An answer of the operator's API, its head and its body.
    fn api(&self, path: &str, headers: &str) -> (String, Vec<u8>) {
        let mut socket = UnixStream::connect(self.served.folder.path().join("data/admin.sock")).unwrap();
        let request = format!(
            "GET /api/tasks/{}/artifacts{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n",
            self.id
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
        (head, answer[end + 4..].to_vec())
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn files_are_listed_downloaded_and_a_broken_download_goes_on() {
    let reported = Reported::start(3);
    let list = json(&reported.artifact(&["--json"]));
    let names: Vec<&Value> = list["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["own.txt", "out/a b.txt", "out/large.bin"]);
    assert_eq!(
        (&list["taskId"], &list["artifacts"][1]["size"]),
        (&json!(reported.id), &json!(5))
    );
    let shown = reported.artifact(&[]);
    shown
        .prints("out/large.bin")
        .says("`out/passwd.txt` in the folder that the command ran in is a link");
    let result = json(&run(&["task", &reported.served.url, &reported.id, "--json"]));
    assert!(result.to_string().contains("artifacts/out/a%20b.txt"), "{result}");

    let large = fs::read(reported.served.folder.path().join("out/large.bin")).unwrap();
    reported.artifact(&["large.bin"]).ends(0).says(&sha256(&large));
    assert!(fs::read(reported.file("large.bin")).unwrap() == large);
    reported
        .artifact(&["out/large.bin"])
        .ends(2)
        .says("large.bin is there already");
    assert_eq!(stdout(&reported.artifact(&["out/a b.txt", "-o", "-"])), "text\n");
    let downloaded = json(&reported.artifact(&["own.txt", "-o", "named", "--json"]));
    assert_eq!(
        (&downloaded["file"], &downloaded["sha256"]),
        (&json!("named"), &json!(sha256(b"own\n")))
    );
    assert_eq!(fs::read(reported.file("named")).unwrap(), b"own\n");

    // Its beginning, something else, and too much.
    let longer = [&large[..], b"more"].concat();
    for (there, told) in [
        (&large[..1_500_000], "1500000 of 3000000 bytes are there already"),
        (b"something else", "is not the beginning of this file"),
        (&longer, "SHA-256"),
    ] {
        fs::write(reported.file("again.partial"), there).unwrap();
        reported.artifact(&["large.bin", "-o", "again"]).ends(0).says(told);
        assert!(fs::read(reported.file("again")).unwrap() == large);
        assert!(!reported.file("again.partial").exists());
    }
    for name in ["none", "../spec", "passwd.txt", "/etc/passwd"] {
        reported.artifact(&[name]).fails().says("the task has no file");
    }
    let echo = run(&["call", &reported.served.url, "gate", "code=0", "--detach"]);
    let other = run(&["task", &reported.served.url, stdout(&echo).trim(), "--artifact"]);
    other.fails().says("the task has no files");
}

#[test]
fn files_survive_a_kill_and_are_in_a_backup_until_the_task_is_deleted() {
    let mut reported = Reported::start(0);
    reported.served.kill();
    reported.served.restart();
    let before = json(&reported.artifact(&["--json"]));
    let backup = reported.file("backup.tar");
    let made = reported.served.on_file(&["backup"], &[backup.to_str().unwrap()]);
    { made }.output().unwrap().ends(0);
    let attempts = reported.served.folder.path().join("data/attempts");
    run(&["task", &reported.served.url, &reported.id, "--delete"]).ends(0);
    assert!(!attempts.join(&reported.id).exists());
    reported.artifact(&["own.txt"]).fails();

    reported.served.kill();
    fs::remove_dir_all(reported.served.folder.path().join("data")).unwrap();
    let file = reported.served.folder.path().join("jobs.toml");
    run(&[
        "restore",
        backup.to_str().unwrap(),
        file.to_str().unwrap(),
        "--data-dir",
        file.with_file_name("data").to_str().unwrap(),
    ])
    .ends(0);
    reported.served.restart();
    assert_eq!(json(&reported.artifact(&["--json"])), before);
    reported.artifact(&["large.bin"]).ends(0);
    assert_eq!(
        json!(sha256(&fs::read(reported.file("large.bin")).unwrap())),
        before["artifacts"][2]["sha256"]
    );
}

#[test]
fn operators_download_files_and_ranges_of_them() {
    let reported = Reported::start(0);
    let large = fs::read(reported.served.folder.path().join("out/large.bin")).unwrap();
    let (head, body) = reported.api("/out/large.bin", "");
    assert!(body == large);
    head.has("http/1.1 200")
        .has("content-length: 3000000")
        .has("accept-ranges: bytes")
        .has("x-content-type-options: nosniff")
        .has("content-disposition: attachment; filename=\"large.bin\"")
        .has(&format!("etag: \"{}\"", sha256(&large)));
    let (head, body) = reported.api("/out/large.bin", "Range: bytes=1048570-2097160\r\n");
    head.has("http/1.1 206")
        .has("content-range: bytes 1048570-2097160/3000000");
    assert!(body == large[1_048_570..=2_097_160]);
    let (head, body) = reported.api("/out/a%20b.txt", "Range: bytes=-3\r\n");
    assert_eq!(
        (head.contains("content-type: text/plain"), &*body),
        (true, &b"xt\n"[..])
    );
    let (head, _) = reported.api("/out/large.bin", "Range: bytes=3000000-\r\n");
    head.has("http/1.1 416").has("content-range: bytes */3000000");
    let (_, body) = reported.api("", "");
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        list["artifacts"][0],
        json!({"name": "own.txt", "size": 4, "mediaType": "text/plain", "sha256": sha256(b"own\n")})
    );
    for path in ["/none", "/out/..%2f..%2fspec", "/out/passwd.txt", "/own.txt?attempt=2"] {
        let (head, _) = reported.api(path, "");
        head.has("http/1.1 404");
    }
    let (head, _) = reported.api("/own.txt?attempt=x", "");
    head.has("http/1.1 400");
}
