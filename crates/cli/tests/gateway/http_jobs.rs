//! Jobs of HTTP APIs as tools, with a scripted API in the shapes of real ones.

use crate::support::*;
use serde_json::json;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

/// A request, as the API has read it.
#[derive(Debug, Clone, Default)]
struct Request {
    /// `POST /jobs`
    line: String,
    /// In lower case.
    headers: String,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.headers.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// An API whose answers a test gives: to a request, and how many came before it with the same line.
struct Api {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Api {
    /// An answer is a status, headers and a body; none closes the connection.
    #[expect(
        clippy::disallowed_methods,
        reason = "the API of somebody else has threads of its own"
    )]
    fn start(answer: impl Fn(&Request, usize) -> Option<(u16, String, String)> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&seen), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (noted, answer): (Arc<Mutex<Vec<Request>>>, _) = (Arc::clone(&noted), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.unwrap());
                    let mut request = Request::default();
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    request.line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        reader.read_line(&mut line).unwrap();
                        if line.trim().is_empty() {
                            break;
                        }
                        let (name, value) = line.trim_end().split_once(": ").unwrap();
                        let name = name.to_ascii_lowercase();
                        if name == "content-length" {
                            length = value.parse().unwrap();
                        }
                        request.headers.push_str(&format!("{name}: {value}\n"));
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    request.body = String::from_utf8(body).unwrap();
                    let before = {
                        let mut noted = noted.lock().unwrap();
                        noted.push(request.clone());
                        noted.iter().filter(|other| other.line == request.line).count() - 1
                    };
                    if let Some((status, headers, body)) = answer(&request, before) {
                        let length = body.len();
                        let _ = write!(
                            reader.into_inner(),
                            "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
                        );
                    }
                });
            }
        });
        Self { url, seen }
    }

    fn seen(&self, line: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.line == line).cloned().collect()
    }
}

fn answer(status: u16, headers: &str, body: impl ToString) -> Option<(u16, String, String)> {
    Some((status, headers.to_owned(), body.to_string()))
}

fn all_of(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// A server whose tool `job` has this section.
fn configure(folder: &Path, tool: &str, http: &str) {
    let config = format!(
        r#"
[server]
name = "jobs"
listen = "127.0.0.1:0"
data_dir = "jobs-data"

[[tool]]
name = "job"
description = "runs a job"
input = {{ prompt = {{ type = "string" }}, steps = {{ type = "integer" }} }}
optional = ["steps"]
{tool}
[tool.http]
poll = "20ms"
{http}
"#
    );
    fs::write(folder.join("jobs.toml"), config).unwrap();
}

fn start(folder: &Path) -> Server {
    let mut command = longhaul(folder);
    command.env("API_TOKEN", "s3cret{x}");
    started(command, &["jobs.toml"], std::process::Stdio::null())
}

/// Replicate: the URLs are in the answer, and states and errors in words.
fn replicate(api: &Api) -> String {
    format!(
        r#"
submit = "POST {}/v1/models/{{prompt}}/predictions"
headers = {{ Authorization = "Bearer ${{API_TOKEN}}" }}
body = {{ input = {{ prompt = "{{prompt}}", steps = "{{steps}}" }}, webhook = false }}
status = "/urls/get"
cancel = "POST /urls/cancel"
state = "/status"
done = ["succeeded"]
failed = ["failed", "canceled"]
result = "/output"
error = "/error"
progress = "/progress"
"#,
        api.url
    )
}

#[test]
fn a_prediction_is_submitted_polled_and_cancelled_with_its_headers() {
    let gate = Arc::new(Mutex::new("processing"));
    let state = Arc::clone(&gate);
    let api = Api::start(move |request, _| {
        let host = request.header("host").unwrap();
        let urls = json!({"get": format!("http://{host}/p/1"), "cancel": format!("http://{host}/p/1/cancel")});
        match request.line.as_str() {
            "GET /p/1" => {
                let state = *state.lock().unwrap();
                let answer = json!({"status": state, "progress": "40%", "output": {"n": 1}, "error": "no GPU"});
                answer_of(200, answer)
            }
            "POST /p/1/cancel" => answer_of(200, json!({})),
            _ => answer_of(201, json!({"status": "starting", "urls": urls})),
        }
    });
    let folder = folder();
    let folder = folder.path();
    configure(folder, "", &replicate(&api));
    let server = start(folder);
    let begin = || done(folder, &["call", &server.url, "job", "prompt=a/b", "--detach"]);
    let shows = |id: &str, what: &str| done(folder, &["task", &server.url, id, "--json"]).contains(what);

    let id = begin();
    until("the state", || shows(&id, "processing"));
    *gate.lock().unwrap() = "succeeded";
    done(folder, &["task", &server.url, &id, "--wait", "--json"]).has(r#""structuredContent":{"n":1}"#);
    let submit = "POST /v1/models/a%2Fb/predictions";
    let submitted = api.seen(submit).remove(0);
    assert_eq!(submitted.header("authorization"), Some("Bearer s3cret{x}"));
    let body: serde_json::Value = serde_json::from_str(&submitted.body).unwrap();
    assert_eq!(
        body,
        json!({"input": {"prompt": "a/b"}, "webhook": false}),
        "an absent optional leaves its key out"
    );
    assert!(
        api.seen("GET /p/1")
            .iter()
            .all(|asked| asked.header("authorization").is_some())
    );

    *gate.lock().unwrap() = "failed";
    run(folder, &["call", &server.url, "job", "prompt=x", "steps=3"])
        .fails()
        .prints("no GPU");

    *gate.lock().unwrap() = "processing";
    let id = begin();
    until("the state", || shows(&id, "processing"));
    run(folder, &["cancel", &server.url, &id]);
    until("the cancellation", || !api.seen("POST /p/1/cancel").is_empty());
    // The secret is not in the database.
    let stored: Vec<u8> = fs::read_dir(folder.join("jobs-data"))
        .unwrap()
        .flatten()
        .filter(|file| file.path().is_file())
        .flat_map(|file| fs::read(file.path()).unwrap_or_default())
        .collect();
    assert!(!stored.windows(6).any(|part| part == b"s3cret"));
}

fn answer_of(status: u16, body: serde_json::Value) -> Option<(u16, String, String)> {
    answer(status, "content-type: application/json\r\n", body)
}

/// A workflow run is named in the answer, and has its conclusion once it is over; an API that answers at once has no job; and one with 202 has a `Location`.
#[test]
fn other_shapes_of_apis_are_followed_to_their_end() {
    let api = Api::start(|request, before| {
        let host = request.header("host").unwrap();
        match (request.line.as_str(), before) {
            ("POST /dispatches", _) => answer_of(200, json!({"run_url": format!("http://{host}/runs/7")})),
            ("GET /runs/7", 0) => answer_of(200, json!({"status": "queued", "conclusion": null})),
            ("GET /runs/7", _) => answer_of(200, json!({"status": "completed", "conclusion": "success"})),
            ("POST /at-once", _) => answer_of(200, json!({"text": "here"})),
            ("POST /old", _) => answer(204, "", ""),
            // Asked for too often first.
            ("POST /jobs", 0) => answer(429, "retry-after: 0\r\n", ""),
            ("POST /jobs", _) => answer(202, "location: /jobs/9?sig=1\r\nretry-after: 0\r\n", ""),
            ("GET /jobs/9?sig=1", 0) => answer(202, "retry-after: 0\r\n", ""),
            ("GET /jobs/9?sig=1", 1) => answer(503, "retry-after: 0\r\n", ""),
            ("GET /jobs/9?sig=1", 2) => answer(303, "location: /results/9\r\n", ""),
            ("GET /results/9", _) => answer(200, "content-type: text/plain\r\n", "all done"),
            _ => answer(404, "", ""),
        }
    });
    let folder = folder();
    let folder = folder.path();
    let url = &api.url;
    let states =
        "state = \"/conclusion\"\ndone = [\"success\"]\nfailed = [\"failure\", \"cancelled\"]\nmessage = \"/status\"";
    for (http, expected) in [
        (
            format!("submit = \"{url}/dispatches\"\nstatus = \"/run_url\"\nbody = \"json\"\n{states}"),
            "success",
        ),
        (
            format!("submit = \"{url}/at-once\"\nresult = \"/text\"\nbody = \"json\""),
            "here",
        ),
        (format!("submit = \"{url}/jobs\"\nbody = \"json\""), "all done"),
        (
            format!("submit = \"{url}/old\"\nbody = \"json\""),
            "nobody can follow it",
        ),
    ] {
        configure(folder, "", &http);
        let server = start(folder);
        let called = run(folder, &["call", &server.url, "job", "prompt=x"]);
        all_of(&called).has(expected);
    }
    assert_eq!(api.seen("POST /dispatches")[0].body, r#"{"prompt":"x"}"#);
}

/// Neither a redirect nor an answer leads the headers to another server, and no answer is read without end.
#[test]
fn headers_stay_at_their_server_and_answers_are_bounded() {
    let other = Api::start(|_, _| answer(200, "", "stolen"));
    let target = other.url.clone();
    let api = Api::start(move |request, _| match request.line.as_str() {
        "POST /redirects" => answer(307, &format!("location: {target}/\r\n"), ""),
        "POST /leads-away" => answer(202, &format!("location: {target}/\r\n"), ""),
        "POST /job" => answer(202, "location: /job\r\n", ""),
        "GET /job" => answer(302, &format!("location: {target}/\r\n"), ""),
        _ => answer(200, "", "x".repeat(5000)),
    });
    let folder = folder();
    let folder = folder.path();
    for (path, expected) in [
        ("redirects", "it redirects to http://127.0.0.1"),
        ("leads-away", "another server"),
        ("job", "it redirects to http://127.0.0.1"),
        ("large", "more than 1024 bytes"),
    ] {
        let headers = "headers = { Authorization = \"Bearer ${API_TOKEN}\", X-Prompt = \"{prompt}\" }";
        configure(
            folder,
            "",
            &format!(
                "submit = \"{}/{path}\"\n{headers}\nbody = \"json\"\nmax_response = \"1KiB\"",
                api.url
            ),
        );
        let server = start(folder);
        let called = run(folder, &["call", &server.url, "job", "prompt=x"]);
        called.fails().prints(expected);
        let refused = run(folder, &["call", &server.url, "job", "prompt=a\nb"]);
        refused.fails();
        all_of(&refused).has("the header `x-prompt` takes printable ASCII characters only");
    }
    assert!(other.seen.lock().unwrap().is_empty(), "{:?}", other.seen);
}

/// The server is killed before the answer of `submit`, and after it.
#[test]
fn a_killed_server_submits_no_second_job() {
    let answers = Arc::new(Mutex::new(false));
    let (may_answer, done_gate) = (Arc::clone(&answers), Arc::new(Mutex::new(false)));
    let is_done = Arc::clone(&done_gate);
    let api = Api::start(move |request, _| match request.line.as_str() {
        "GET /jobs/1" if *is_done.lock().unwrap() => answer(200, "", "the end"),
        "GET /jobs/1" => answer(202, "", ""),
        _ if *may_answer.lock().unwrap() => answer(202, "location: /jobs/1\r\n", ""),
        _ => {
            until("leave to answer", || *may_answer.lock().unwrap());
            None
        }
    });
    let folder = folder();
    let folder = folder.path();
    let submits = || api.seen("POST /jobs");
    let http = format!("submit = \"{}/jobs\"\nbody = \"json\"\n", api.url);

    // Without a key nobody knows.
    configure(folder, "", &http);
    let server = start(folder);
    let id = done(folder, &["call", &server.url, "job", "prompt=x", "--detach"]);
    until("the first submit", || submits().len() == 1);
    drop(server);
    let server = start(folder);
    run(folder, &["task", &server.url, &id, "--wait"])
        .fails()
        .says("not known");
    assert_eq!(submits().len(), 1);
    drop(server);

    // With a key it is the same job.
    configure(folder, "", &format!("{http}idempotency_header = \"Idempotency-Key\"\n"));
    let server = start(folder);
    let id = done(folder, &["call", &server.url, "job", "prompt=x", "--detach"]);
    until("the second submit", || submits().len() == 2);
    drop(server);
    *answers.lock().unwrap() = true;
    let server = start(folder);
    until("the first poll", || !api.seen("GET /jobs/1").is_empty());
    let keys: Vec<_> = submits()
        .iter()
        .skip(1)
        .map(|sent| sent.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    drop(server);

    // And once it is named it is followed.
    let server = start(folder);
    *done_gate.lock().unwrap() = true;
    done(folder, &["task", &server.url, &id, "--wait", "--json"]).has("the end");
    assert_eq!(submits().len(), 3);
}

/// The questions for the state after a restart have it, too.
#[test]
fn a_secret_argument_is_sent_in_headers_and_body_and_not_stored() {
    let gate = Arc::new(Mutex::new("processing"));
    let state = Arc::clone(&gate);
    let api = Api::start(move |request, _| match request.line.as_str() {
        "GET /jobs/1" => answer_of(200, json!({"status": *state.lock().unwrap()})),
        _ => answer(202, "location: /jobs/1\r\n", ""),
    });
    let folder = folder();
    let folder = folder.path();
    let http = format!(
        r#"
submit = "POST {}/jobs"
headers = {{ Authorization = "Bearer {{token}}" }}
body = {{ pin = "{{token}}", prompt = "{{prompt}}", steps = "{{steps}}" }}
state = "/status"
done = ["succeeded"]
failed = ["failed"]
"#,
        api.url
    );
    configure(folder, "", &http);
    let file = folder.join("jobs.toml");
    let config = fs::read_to_string(&file).unwrap();
    let with_secret = "input = { token = { type = \"string\", secret = true }, prompt";
    fs::write(&file, config.replace("input = { prompt", with_secret)).unwrap();
    let server = start(folder);
    let words = ["call", &server.url, "job", "prompt=x", "token=tok-Zq81", "--detach"];
    let id = done(folder, &words);
    until("the job is asked about", || !api.seen("GET /jobs/1").is_empty());
    drop(server);
    let before = api.seen("GET /jobs/1").len();
    let server = start(folder);
    until("it is asked again", || api.seen("GET /jobs/1").len() > before);
    *gate.lock().unwrap() = "succeeded";
    done(folder, &["task", &server.url, &id, "--wait", "--json"]);
    let submitted = api.seen("POST /jobs");
    assert_eq!(submitted.len(), 1);
    let body: serde_json::Value = serde_json::from_str(&submitted[0].body).unwrap();
    assert_eq!(body, json!({"pin": "tok-Zq81", "prompt": "x"}));
    for request in submitted.into_iter().chain(api.seen("GET /jobs/1")) {
        assert_eq!(request.header("authorization"), Some("Bearer tok-Zq81"));
    }
    for file in fs::read_dir(folder.join("jobs-data")).unwrap().flatten() {
        let bytes = fs::read(file.path()).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"tok-Zq81"), "{file:?}");
    }
}
