//! Secret arguments: on no way of a call does anything of them stay where others could read it.

use super::{
    all_said,
    support::{Place, done, ends, longhaul, run, until},
};
use crate::assertions::*;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// The command notes a checksum of what it has got in each of the three ways, if they are the same, and ends when there is a file `gate`.
const JOBS: &str = r#"
[server]
name = "test"
listen = "127.0.0.1:0"
data_dir = "data"
max_running = 1

[server.audit]
file = "audit.jsonl"

[admin]
listen = "127.0.0.1:0"

[[tool]]
name = "use"
description = "Uses a token"
command = ["sh", "-c", '''
read -r line
[ "$line" = "{{\"note\":\"$1\",\"token\":\"$TOKEN\"}}" ] && [ "$(cat "$2")" = "$TOKEN" ] && printf %s "$TOKEN" | cksum >> runs
while [ -e jobs.toml ] && [ ! -e gate ]; do sleep 0.02; done
echo through
''', "sh", "{note}", "{token:file}"]
stdin = "json"
env = { TOKEN = "{token}" }
task = "always"
retry = { attempts = 5, backoff = "0s", on = ["crash"] }
[tool.input]
note = { type = "string" }
token = { type = "string", secret = true, minLength = 12 }
"#;

/// Whatever of these is found was not kept secret. The last one is refused.
const SECRETS: [&str; 3] = ["tok-Zq81-first", "tok-Zq82-other", "Zq83-short"];

/// A server that logs all it can into a file.
struct Server<'a> {
    place: &'a Place,
    child: Child,
    report: Value,
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Server<'a> {
    fn start(place: &'a Place) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(place.file("server.log"))
            .unwrap();
        let mut child = longhaul(place, &["serve", "jobs.toml", "--json"])
            .env("LONGHAUL_LOG", "trace")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.as_mut().unwrap());
        said.read_line(&mut line).unwrap();
        let report = serde_json::from_str(&line).unwrap();
        Self { place, child, report }
    }

    fn command(&self, words: &[&str]) -> Command {
        let (word, rest) = words.split_first().unwrap();
        let url = self.report["url"].as_str().unwrap();
        let home = self.place.file("home");
        let mut command = longhaul(self.place, &[&[*word, url], rest].concat());
        command.env("XDG_STATE_HOME", &home).env("XDG_CONFIG_HOME", &home);
        command
    }

    /// Runs the client, and keeps what it has said.
    fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().unwrap();
        self.keep(&output);
        output
    }

    fn keep(&self, output: &Output) {
        let mut said = File::options()
            .create(true)
            .append(true)
            .open(self.place.file("said"))
            .unwrap();
        for bytes in [&output.stdout, &output.stderr] {
            std::io::Write::write_all(&mut said, bytes).unwrap();
        }
    }

    /// Calls the tool, and returns the id of the task.
    fn call(&self, token: &str, options: &[&str]) -> Output {
        let token = format!("token={token}");
        self.run(&[&["call", "use", "note=n", &token, "--detach"], options].concat())
    }

    fn status(&self, id: &str) -> String {
        let shown = self.run(&["task", id, "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["status"].as_str().unwrap().to_owned()
    }

    /// All that operators are shown of a task.
    fn look_everywhere(&self, id: &str) {
        let admin = self.report["admin"].as_str().unwrap().trim_end_matches('/').to_owned();
        for words in [
            &["admin", "task", "jobs.toml", id][..],
            &["admin", "task", "jobs.toml", id, "--json"],
            &["admin", "tasks", "jobs.toml", "--json"],
        ] {
            let output = longhaul(self.place, words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            self.keep(&output);
        }
        for path in [
            "",
            "/metrics",
            "/healthz",
            &format!("/tasks/{id}"),
            &format!("/api/tasks/{id}"),
        ] {
            let answer = send(&format!("{admin}{path}"), None);
            answer.begins_with("HTTP/1.1 200");
            fs::write(self.place.file("answer"), &answer).unwrap();
            assert_clean(self.place, "an answer of the admin address");
        }
        // The form of the page neither shows nor repeats what is entered.
        let form = format!("{admin}/tools/use/call");
        send(&form, None).has("type=\"password\"");
        let wrong = format!("key=arguments&field.note=n&field.token={}", SECRETS[2]);
        let answer = send(&form, Some(("application/x-www-form-urlencoded", &wrong)));
        answer.begins_with("HTTP/1.1 400").lacks(SECRETS[2]);
        // Nor does the server, which says what does not fit.
        let wrong = json!({"arguments": {"note": "n", "token": SECRETS[2]}}).to_string();
        let answer = send(
            &format!("{admin}/api/tools/use/call"),
            Some(("application/json", &wrong)),
        );
        answer
            .begins_with("HTTP/1.1 4")
            .has("shorter than 12")
            .lacks(SECRETS[2]);
        self.run(&["tasks", "--json"]);
        self.run(&["task", id, "--history", "--json"]);
        self.run(&["task", id, "--log"]);
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn id_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    text.trim().to_owned()
}

/// The answer to a GET, or to a POST of this type.
fn send(url: &str, body: Option<(&str, &str)>) -> String {
    use std::{io::Read as _, io::Write as _, net::TcpStream};
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address).unwrap();
    let method = if body.is_some() { "POST" } else { "GET" };
    let (kind, body) = body.unwrap_or_default();
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// The files in which a secret stands.
fn found_in(place: &Place) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for file in files_below(&place.file("")) {
        // Files come and go.
        let Ok(bytes) = fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let has = |secret: &&str| text.contains(*secret);
        found.extend(SECRETS.into_iter().filter(has).map(|secret| (file.clone(), secret)));
    }
    found
}

#[track_caller]
fn assert_clean(place: &Place, when: &str) {
    let found: Vec<_> = found_in(place)
        .into_iter()
        .filter(|(file, _)| !is_secret_file(file))
        .collect();
    assert_eq!(found, [], "{when}");
}

/// What a command reads while it runs.
fn is_secret_file(file: &Path) -> bool {
    let name = file.file_name().unwrap().to_string_lossy();
    name.starts_with("secret.") && file.components().any(|part| part.as_os_str() == "attempts")
}

fn secret_files(place: &Place) -> Vec<PathBuf> {
    let mut files = files_below(&place.file("data/attempts"));
    files.retain(|file| is_secret_file(file));
    files
}

/// The supervisor of the attempt whose folder this file is in.
fn supervisor_of(file: &Path) -> i32 {
    let command = fs::read_to_string(file.with_file_name("pid")).unwrap();
    let stat = fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    parent.parse().unwrap()
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_secret_argument_reaches_the_command_and_nobody_else() {
    let [first, other, refused] = SECRETS;
    let place = Place::with(JOBS);
    let server = Server::start(&place);
    let key = ["--idempotency-key", "k"];
    let id = id_of(&server.call(first, &key));
    until("the command runs", || place.runs() == 1);
    assert_clean(&place, "while it runs");
    let [file] = &*secret_files(&place) else {
        panic!("one file")
    };
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    // Made again, and made again with another secret, and wrong.
    assert_eq!(id_of(&server.call(first, &key)), id);
    let again = server.call(other, &key);
    assert!(!again.status.success(), "{again:?}");
    all_said(&again).has("idempotency key");
    let short = server.call(refused, &[]);
    assert!(!short.status.success(), "{short:?}");
    all_said(&short).has("token");
    let queued = id_of(&server.call(other, &[]));
    server.look_everywhere(&id);
    server.look_everywhere(&queued);
    assert_clean(&place, "after calls that were refused");

    // The attempt is adopted. When it is lost, the queued task runs, and then this one again, which gets its secret again.
    server.kill();
    assert_clean(&place, "after a crash of the server");
    let server = Server::start(&place);
    assert_eq!(server.status(&id), "working");
    kill(supervisor_of(file), rustix::process::Signal::KILL);
    until("the next one runs", || place.runs() == 2);
    assert!(!file.exists(), "the file of the attempt that was killed");
    assert_eq!(secret_files(&place).len(), 1);

    // A backup has neither the secret nor the key.
    done(&place, &["backup", "jobs.toml", "backup.tar"]);
    let key_file = fs::read_to_string(place.file("data/secrets.key")).unwrap();
    let parsed: Value = serde_json::from_str(&key_file).unwrap();
    let backup = fs::read(place.file("backup.tar")).unwrap();
    let secret_key = parsed["keys"][0]["key"].as_str().unwrap();
    for part in ["secrets.key", secret_key] {
        assert!(
            !backup.windows(part.len()).any(|window| window == part.as_bytes()),
            "{part}"
        );
    }
    assert_clean(&place, "in a backup");

    // With a new key the queued one is still read, and a new one is encrypted with the new key.
    let rotated = done(&place, &["keys", "rotate", "jobs.toml", "--json"]);
    assert_eq!(rotated["earlierKeys"], 1);
    let read_again = "was read again";
    kill(server.child.id().cast_signed(), rustix::process::Signal::HUP);
    until("the file is read again", || {
        fs::read_to_string(place.file("server.log"))
            .unwrap()
            .contains(read_again)
    });
    let newer = id_of(&server.call(first, &[]));
    fs::write(place.file("gate"), "").unwrap();
    for id in [&id, &queued, &newer] {
        until("all have ended", || server.status(id) == "completed");
    }
    let sums = fs::read_to_string(place.file("runs")).unwrap();
    let mut sums: Vec<_> = sums.lines().collect();
    sums.sort_unstable();
    // Twice the one that was made again, and the two others.
    let mut kinds = sums.clone();
    kinds.dedup();
    assert_eq!((sums.len(), kinds.len()), (4, 2), "{sums:?}");
    server.look_everywhere(&id);
    assert_eq!(found_in(&place), [], "at the end, nowhere");
}

/// A task whose key is lost says which file is missing, and others run.
#[test]
fn without_its_key_a_task_fails_and_the_server_starts() {
    let [first, other, _] = SECRETS;
    let place = Place::with(JOBS);
    let server = Server::start(&place);
    let running = id_of(&server.call(first, &[]));
    until("the command runs", || place.runs() == 1);
    let queued = id_of(&server.call(other, &[]));
    server.kill();
    let key_file = place.file("data/secrets.key");
    fs::rename(&key_file, place.file("kept.key")).unwrap();

    let server = Server::start(&place);
    fs::read_to_string(place.file("server.log"))
        .unwrap()
        .has("has another key than the database was used with");
    assert_eq!(server.status(&running), "working", "it has got its secret");
    fs::write(place.file("gate"), "").unwrap();
    until("it has ended", || server.status(&running) == "completed");
    until("the other one has failed", || server.status(&queued) == "failed");
    let shown = server.run(&["task", &queued, "--wait"]);
    all_said(&shown).has("secret argument `token`").has("`secrets.key`");
    let newer = id_of(&server.call(other, &[]));
    until("a new one runs with the new key", || {
        server.status(&newer) == "completed"
    });
    server.kill();

    fs::write(&key_file, "{}").unwrap();
    let (code, _, said) = run(&place, &["serve", "jobs.toml"]);
    assert_ne!(code, Some(0), "{said}");
    said.has("secrets.key");
    ends(&place, &["keys", "rotate", "jobs.toml"], 1).has("secrets.key");
}
