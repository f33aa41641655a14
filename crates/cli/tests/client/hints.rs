//! The commands that are printed for what to do next.

use crate::{
    scripted::{Received, Reply, Scripted, created, scripted, scripted_legacy, task},
    support::*,
};
use serde_json::{Value, json};
use std::{
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

/// The ids of FastMCP 4 are base64url: one of 64 begins with a dash.
const ID: &str = "-UnsR-w=";

/// The commands that the output names, behind two blanks or in backticks.
fn hints(output: &Output) -> Vec<String> {
    let said = stderr(output);
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    let quoted = said.split('`').skip(1).step_by(2);
    let commands = lines.chain(quoted).filter(|hint| hint.starts_with("longhaul "));
    commands.map(str::to_owned).collect()
}

/// Runs each command that the output names in a shell, as a user does who copies it. None may be refused as a wrong command line.
fn follow(server: &Scripted, output: &Output, count: usize) {
    let hints = hints(output);
    assert_eq!(hints.len(), count, "{output:?}");
    for hint in hints {
        follow_hint(server, &hint);
    }
}

fn follow_hint(server: &Scripted, hint: &str) {
    let line = hint.replacen("longhaul", env!("CARGO_BIN_EXE_longhaul"), 1);
    let mut command = Command::new("sh");
    command.args(["-c", &line]).stdin(Stdio::null());
    let command = command.env("XDG_CONFIG_HOME", server.home.path());
    let run = command
        .env("XDG_STATE_HOME", server.home.path())
        .env("LONGHAUL_SERVER", &server.url);
    let run = run.output().unwrap();
    assert_ne!(run.status.code(), Some(2), "{hint}: {run:?}");
    assert!(!stderr(&run).contains("lost"), "{hint}: {run:?}");
}

/// How the task of a server stands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Working,
    Asks,
    /// More questions than are explained.
    AsksMuch,
    /// Every poll is an error.
    Fails,
    LoggedOut,
    Completed,
}

/// A server of either era with one task, `ID`.
fn modal(is_legacy: bool) -> (Scripted, Arc<Mutex<Mode>>) {
    let mode = Arc::new(Mutex::new(Mode::Working));
    let now = Arc::clone(&mode);
    let script = move |seen: &Received| {
        let mode = *now.lock().unwrap();
        let result = json!({"content": []});
        match (seen.method(), mode) {
            ("tools/call", _) if is_legacy => seen.result(json!({"task": task(ID, "working", json!({}))})),
            ("tools/call", _) => seen.result(created(ID)),
            ("tasks/get", Mode::LoggedOut) => Reply::empty(401),
            ("tasks/get", Mode::Fails) => seen.error(200, -32603),
            ("tasks/get", Mode::Working) => seen.result(task(ID, "working", json!({}))),
            ("tasks/get", Mode::Asks | Mode::AsksMuch) if is_legacy => {
                seen.result(task(ID, "input_required", json!({})))
            }
            ("tasks/get", Mode::Asks) => seen.result(task(ID, "input_required", json!({"inputRequests": question()}))),
            ("tasks/get", Mode::AsksMuch) => {
                let asked = question()["-q"].clone();
                let asked: serde_json::Map<_, _> = (0..12).map(|nth| (format!("q-{nth}"), asked.clone())).collect();
                seen.result(task(ID, "input_required", json!({"inputRequests": asked})))
            }
            ("tasks/get", Mode::Completed) => seen.result(task(ID, "completed", json!({"result": result}))),
            ("tasks/result", Mode::Completed) => seen.result(result),
            ("tasks/result", Mode::Asks) => {
                let mut asked = question()["-q"].clone();
                asked["jsonrpc"] = "2.0".into();
                asked["id"] = "ask-1".into();
                asked["params"]["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": ID}});
                Reply::stream(&asked)
            }
            ("tasks/result" | "resources/read" | "resources/templates/list", _) => seen.error(200, -32602),
            ("tasks/update" | "tasks/cancel", _) => seen.result(json!({"resultType": "complete"})),
            ("", _) if seen.verb == "POST" => Reply::empty(202),
            ("", _) => Reply::empty(405),
            _ => seen.error(200, -32601),
        }
    };
    let server = match is_legacy {
        true => scripted_legacy(script),
        false => scripted(script),
    };
    (server, mode)
}

const IDENTIFIED: &str = "--id=-UnsR-w=";
const ANSWER: &str = "longhaul answer --id=-UnsR-w=";

/// Every hint that a server over HTTP provokes, for both eras where they differ. A hint that is missing here fails the test of its case, and one that cannot be
/// followed, too. What is done before, how the task stands then, the command, its exit status, and the commands that it names, which begin like this.
const CASES: &str = "
modern |                                       | Working   | call t --detach        | 0   | task ID --wait
modern |                                       | Asks      | call t                 | 7   | task ID --wait, answer ID
legacy |                                       | Asks      | call t                 | 7   | task ID --wait, answer ID
modern |                                       | Working   | call t --timeout=1s    | 124 | 2 * task ID --wait
modern | call t --detach                       | Working   | call t --detach        | 0   | 2 * task ID --wait
modern | call t --detach                       | Asks      | task ID                | 0   | answer ID
legacy | call t --detach                       | Asks      | task ID                | 0   | answer ID
modern | call t --detach                       | AsksMuch  | task ID                | 0   | 10 * answer ID, task ID --json
modern | call t --detach                       | Fails     | task ID --wait         | 5   | task ID --wait
modern | call t --detach                       | LoggedOut | task ID --wait         | 5   | login --key http, 2 * login http, task ID --wait
modern | call t --detach, answer ID --decline  | Asks      | answer ID day=mo       | 5   | cancel ID
modern | call t --detach, answer ID --decline  | Asks      | task ID                | 0   | cancel ID
modern | call t --detach, answer ID --decline  | Asks      | task ID --wait         | 3   | task ID --wait, cancel ID
legacy | call t --detach                       | Working   | task ID --log          | 5   |
modern | call t --detach                       | Working   | task ID --log --follow | 5   |
legacy | call t --detach                       | Working   | task ID --history      | 5   |
modern |                                       | Working   | task x                 | 2   | tasks
";

/// The hints of a list with counts, in full.
fn wanted_hints(list: &str) -> Vec<String> {
    let hints = list.split(", ").filter(|hint| !hint.is_empty());
    let counted = hints.flat_map(|hint| {
        let (count, hint) = hint.split_once(" * ").unwrap_or(("1", hint));
        vec![format!("longhaul {hint}"); count.parse().unwrap()]
    });
    counted.collect()
}

#[test]
fn every_command_that_is_suggested_runs() {
    for case in CASES.trim().lines() {
        let fields = case.replace("ID", IDENTIFIED);
        let fields: Vec<&str> = fields.split('|').map(str::trim).collect();
        let [era, before, stands, words, status, wanted] = fields[..] else {
            panic!("{case}")
        };
        let words: Vec<&str> = words.split(' ').collect();
        let case_mode = match stands {
            "Working" => Mode::Working,
            "Asks" => Mode::Asks,
            "AsksMuch" => Mode::AsksMuch,
            "Fails" => Mode::Fails,
            "LoggedOut" => Mode::LoggedOut,
            _ => panic!("{case}"),
        };
        let (server, mode) = modal(era == "legacy");
        // An answer wants a task that asks.
        if before.contains("answer") {
            *mode.lock().unwrap() = Mode::Asks;
        }
        for words in before.split(", ").filter(|words| !words.is_empty()) {
            server.done(&words.split(' ').collect::<Vec<_>>());
        }
        *mode.lock().unwrap() = case_mode;
        let mut command = server.command(&words);
        if words == ["task", "x"] {
            // The default server is asked otherwise.
            command.env_remove("LONGHAUL_SERVER");
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), status.parse().ok(), "{case}: {output:?}");
        let (mut named, mut wanted) = (hints(&output), wanted_hints(wanted));
        named.sort();
        wanted.sort_unstable();
        let fits = |(named, wanted): (&String, &String)| named.starts_with(wanted);
        let fits = named.len() == wanted.len() && named.iter().zip(&wanted).all(fits);
        assert!(fits, "{case}: {named:?}: {output:?}");
        // What waits comes to an end.
        if !matches!(case_mode, Mode::Asks | Mode::AsksMuch) || status == "3" {
            *mode.lock().unwrap() = Mode::Completed;
        }
        for hint in named {
            let line = match hint.as_str() {
                // It asks on a terminal; without one it wants an answer.
                ANSWER => {
                    *mode.lock().unwrap() = Mode::Completed;
                    format!("{hint} --decline")
                }
                // So does this want a key.
                key if key.contains(" --key ") => format!("echo lhk_key | {hint}"),
                _ => hint,
            };
            follow_hint(&server, &line);
        }
    }
}

/// The steps of a durable tool are named only where there are some.
#[test]
fn a_history_is_suggested_only_where_there_is_one() {
    let served = served();
    let durable = served.detach("book");
    served.asks(&durable, 1);
    let plain = served.detach("wait");
    for (id, has_history) in [(durable, true), (plain, false)] {
        let refused = served.run(&["task", &id, "--log"]);
        exit(&refused, 5);
        let hints = hints(&refused);
        match has_history {
            true => {
                assert_eq!(hints, [format!("longhaul task {id} --history")]);
                served.done(&["task", &id, "--history"]);
            }
            false => assert!(hints.is_empty(), "{hints:?}"),
        }
    }
}

fn question() -> Value {
    let schema =
        json!({"type": "object", "properties": {"day": {"type": "string", "enum": ["mo"]}}, "required": ["day"]});
    json!({"-q": {"method": "elicitation/create", "params": {"message": "When?", "requestedSchema": schema}}})
}

#[test]
fn ids_that_begin_with_a_dash_are_written_as_options() {
    let server = scripted(|seen| match seen.method() {
        "tools/call" => seen.result(created(ID)),
        "tasks/get" => seen.result(task(ID, "input_required", json!({"inputRequests": question()}))),
        _ => seen.result(json!({"resultType": "complete"})),
    });
    let called = server.run(&["call", "t", "--detach"]);
    assert_eq!(exit(&called, 0), ID);
    let id = format!("--id={ID}");
    // The same call again names the task of the first one, and waits until that asks.
    let again = server.run(&["call", "t"]);
    exit(&again, 7);
    let shown = server.run(&["task", &id]);
    exit(&shown, 0);
    for (output, count) in [(&called, 1), (&again, 3), (&shown, 1)] {
        follow(&server, output, count);
    }
    let watched = server.command(&["watch", &id, "--json"]).stdout(Stdio::piped()).spawn();
    let mut watched = watched.unwrap();
    let mut lines = std::io::BufReader::new(watched.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert!(line.contains(ID), "{line}");
    watched.kill().unwrap();
    watched.wait().unwrap();
    // What is typed without it says how.
    for command in ["task", "cancel", "watch", "answer"] {
        server.run(&[command, ID]).ends(2).says("'--id=ID'");
    }
}
