//! The commands that are printed for what to do next.

use crate::{
    scripted::{Received, Reply, Scripted, scripted, scripted_legacy, task},
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
            ("tools/call", _) => seen.result(task(ID, "working", json!({"resultType": "task"}))),
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

/// What is done, with what exit status, and the commands that it names: they begin like this.
struct Case {
    name: &'static str,
    is_legacy: bool,
    /// What is done before, each with success.
    before: &'static [&'static [&'static str]],
    mode: Mode,
    words: &'static [&'static str],
    exit: i32,
    hints: &'static [&'static str],
}

const IDENTIFIED: &str = "--id=-UnsR-w=";
const DETACH: &[&str] = &["call", "t", "--detach"];
const WAIT: &str = "longhaul task --id=-UnsR-w= --wait";
const ANSWER: &str = "longhaul answer --id=-UnsR-w=";
const CANCEL: &str = "longhaul cancel --id=-UnsR-w=";

/// Every hint that a server over HTTP provokes, for both eras where they differ. A hint that is missing here fails the test of its case, and one that cannot be
/// followed, too.
const CASES: [Case; 17] = [
    Case {
        name: "a detached call",
        is_legacy: false,
        before: &[],
        mode: Mode::Working,
        words: DETACH,
        exit: 0,
        hints: &[WAIT],
    },
    Case {
        name: "a call that asks",
        is_legacy: false,
        before: &[],
        mode: Mode::Asks,
        words: &["call", "t"],
        exit: 7,
        hints: &[WAIT, ANSWER],
    },
    Case {
        name: "a legacy call that asks",
        is_legacy: true,
        before: &[],
        mode: Mode::Asks,
        words: &["call", "t"],
        exit: 7,
        hints: &[WAIT, ANSWER],
    },
    Case {
        name: "the time is over",
        is_legacy: false,
        before: &[],
        mode: Mode::Working,
        words: &["call", "t", "--timeout=1s"],
        exit: 124,
        hints: &[WAIT, WAIT],
    },
    Case {
        name: "the same call again",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::Working,
        words: DETACH,
        exit: 0,
        hints: &[WAIT, WAIT],
    },
    Case {
        name: "a task that asks",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::Asks,
        words: &["task", IDENTIFIED],
        exit: 0,
        hints: &[ANSWER],
    },
    Case {
        name: "a legacy task that asks",
        is_legacy: true,
        before: &[DETACH],
        mode: Mode::Asks,
        words: &["task", IDENTIFIED],
        exit: 0,
        hints: &[ANSWER],
    },
    Case {
        name: "a task that asks much",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::AsksMuch,
        words: &["task", IDENTIFIED],
        exit: 0,
        hints: &[
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            ANSWER,
            "longhaul task --id=-UnsR-w= --json",
        ],
    },
    Case {
        name: "a poll that fails",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::Fails,
        words: &["task", IDENTIFIED, "--wait"],
        exit: 5,
        hints: &[WAIT],
    },
    Case {
        name: "a login that has ended",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::LoggedOut,
        words: &["task", IDENTIFIED, "--wait"],
        exit: 5,
        hints: &[
            "longhaul login --key ",
            "longhaul login http",
            "longhaul login http",
            WAIT,
        ],
    },
    Case {
        name: "a question that is asked again",
        is_legacy: false,
        before: &[DETACH, &["answer", IDENTIFIED, "--decline"]],
        mode: Mode::Asks,
        words: &["answer", IDENTIFIED, "day=mo"],
        exit: 5,
        hints: &[CANCEL],
    },
    Case {
        name: "a task whose question is asked again",
        is_legacy: false,
        before: &[DETACH, &["answer", IDENTIFIED, "--decline"]],
        mode: Mode::Asks,
        words: &["task", IDENTIFIED],
        exit: 0,
        hints: &[CANCEL],
    },
    Case {
        name: "a wait for such a task",
        is_legacy: false,
        before: &[DETACH, &["answer", IDENTIFIED, "--decline"]],
        mode: Mode::Asks,
        words: &["task", IDENTIFIED, "--wait"],
        exit: 3,
        hints: &[WAIT, CANCEL],
    },
    Case {
        name: "no log",
        is_legacy: true,
        before: &[DETACH],
        mode: Mode::Working,
        words: &["task", IDENTIFIED, "--log"],
        exit: 5,
        hints: &[],
    },
    Case {
        name: "no log to follow",
        is_legacy: false,
        before: &[DETACH],
        mode: Mode::Working,
        words: &["task", IDENTIFIED, "--log", "--follow"],
        exit: 5,
        hints: &[],
    },
    Case {
        name: "no history",
        is_legacy: true,
        before: &[DETACH],
        mode: Mode::Working,
        words: &["task", IDENTIFIED, "--history"],
        exit: 5,
        hints: &[],
    },
    Case {
        name: "an id that is too short",
        is_legacy: false,
        before: &[],
        mode: Mode::Working,
        words: &["task", "x"],
        exit: 2,
        hints: &["longhaul tasks"],
    },
];

#[test]
fn every_command_that_is_suggested_runs() {
    for case in CASES {
        let (server, mode) = modal(case.is_legacy);
        // An answer wants a task that asks.
        let first = match case.before.len() {
            2 => Mode::Asks,
            _ => Mode::Working,
        };
        *mode.lock().unwrap() = first;
        for words in case.before {
            exit(&server.run(words), 0);
        }
        *mode.lock().unwrap() = case.mode;
        let mut command = server.command(case.words);
        if case.words == ["task", "x"] {
            // The default server is asked otherwise.
            command.env_remove("LONGHAUL_SERVER");
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(case.exit), "{}: {output:?}", case.name);
        let (mut named, mut wanted) = (hints(&output), case.hints.to_vec());
        named.sort();
        wanted.sort_unstable();
        let fits = |(named, wanted): (&String, &&str)| named.starts_with(wanted);
        let fits = named.len() == wanted.len() && named.iter().zip(&wanted).all(fits);
        assert!(fits, "{}: {named:?}: {output:?}", case.name);
        // What waits comes to an end.
        if !matches!(case.mode, Mode::Asks | Mode::AsksMuch) || case.exit == 3 {
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
                exit(&served.run(&["task", &id, "--history"]), 0);
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
        "tools/call" => seen.result(task(ID, "working", json!({"resultType": "task"}))),
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

#[test]
fn hints_for_legacy_tasks_take_ids_that_begin_with_a_dash() {
    let server = scripted_legacy(|seen| match (seen.verb.as_str(), seen.method()) {
        (_, "tools/call") => seen.result(json!({"task": task(ID, "working", json!({}))})),
        (_, "tasks/get") => seen.result(task(ID, "input_required", json!({}))),
        ("POST", _) => seen.error(200, -32602),
        _ => Reply::empty(405),
    });
    let called = server.run(&["call", "t", "--detach"]);
    assert_eq!(exit(&called, 0), ID);
    let shown = server.run(&["task", &format!("--id={ID}")]);
    exit(&shown, 0);
    let hint = hints(&shown);
    assert_eq!(hint, [format!("longhaul answer --id={ID}")]);
}
