//! Tasks that ask, and servers that are chosen in different ways, at a shell without a terminal.

use crate::{
    peer::{Peer, modern},
    scripted::{Reply, legacy_form, legacy_task, scripted_legacy},
    support::*,
};
use axum::{body::Body, http::Response};
use futures_util::stream;
use longhaul::{Server, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    fs,
    path::Path,
    process::{Command, Stdio},
};

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "longhaul::schemars")]
struct Approval {
    /// Whether to ship it.
    approved: bool,
    /// How many copies.
    copies: Option<u32>,
}

/// Tools: `ship` and `both` ask as tasks, `early` before there is a task, `now` answers at once.
pub(crate) fn asking() -> Served {
    let ship = Tool::durable("ship", async |cx: TaskContext| -> ToolResult<String> {
        let answer: Approval = cx.elicit("Ship it?").await?;
        Ok(format!("approved: {}, copies: {:?}", answer.approved, answer.copies))
    });
    let both = Tool::new("both", async |cx: TaskContext| -> ToolResult<String> {
        let (one, two) = tokio::join!(
            cx.elicit::<Approval>("First?").key("one"),
            cx.elicit::<Approval>("Second?").key("two")
        );
        Ok(format!("{} {}", one?.approved, two?.approved))
    });
    let now = Tool::new("now", async || "at once").task(TaskPolicy::Never);
    let early = Tool::new("early", async |cx: TaskContext| -> ToolResult<String> {
        let answer: Approval = cx.elicit("Start?").await?;
        Ok(format!("approved: {}", answer.approved))
    });
    let server = Server::new("asking", "1")
        .tool(ship)
        .tool(both.task(TaskPolicy::Always))
        .tool(early.task(TaskPolicy::Never))
        .tool(now);
    Served::new(server)
}

#[test]
fn a_detached_task_is_answered_later() {
    let served = asking();
    let id = served.done(&["call", "ship", "--detach"]);
    served.asks(&id, 1);
    let shown = served.done(&["task", &id]);
    shown.has("Ship it?").has("approved=boolean  Whether to ship it.");
    let fields = "the fields are:\n  approved=boolean  Whether to ship it.\n  copies=integer";
    for (wrong, why) in [
        (&[][..], fields),
        (&["approved=maybe"], "`approved` takes true or false, not `maybe`"),
        (
            &["aproved=true"],
            "the question has no field `aproved`; did you mean `approved`?",
        ),
        (&["approved=true", "--question", "x"], "the task does not ask `x`"),
    ] {
        let words = [&["answer", &id], wrong].concat();
        served.run(&words).ends(2).says(why);
    }
    served.done(&["answer", &id, "approved=true", "copies=3"]);
    assert_eq!(served.done(&["task", &id, "--wait"]), "approved: true, copies: Some(3)");
    let late = served.run(&["answer", &id, "approved=true"]);
    late.ends(5).says("the task asks nothing now (succeeded)");
}

#[test]
fn a_task_whose_question_is_declined_fails() {
    let served = asking();
    served.run(&["call", "ship"]).ends(7);
    let id = served.only_asking();
    served.done(&["answer", &id, "--decline"]);
    served.run(&["task", &id, "--wait"]).ends(1);
}

/// A script that only looks does not agree to anything.
#[test]
fn without_values_and_terminal_nothing_is_agreed_to() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(crate = "longhaul::schemars")]
    struct Consent {
        note: Option<String>,
    }
    let drop = Tool::durable("drop", async |cx: TaskContext| -> ToolResult<String> {
        let answer: Consent = cx.elicit("Drop the database?").await?;
        Ok(format!("dropped: {:?}", answer.note))
    });
    let served = Served::new(Server::new("consent", "1").tool(drop));
    served.run(&["call", "drop"]).ends(7);
    let id = served.only_asking();
    for words in [&["answer"][..], &["answer", &id]] {
        let looked = served.run(words);
        looked.ends(2).says("--accept; the fields are:\n  note=string");
    }
    served.asks(&id, 1);
    served.done(&["answer", &id, "--accept"]);
    assert_eq!(served.done(&["task", &id, "--wait"]), "dropped: None");
}

#[test]
fn of_several_questions_one_is_chosen() {
    let served = asking();
    let id = served.done(&["call", "both", "--detach"]);
    let shown = served.asks(&id, 2);
    let several = served.run(&["answer", &id, "approved=true"]);
    exit(&several, 2);
    let said = stderr(&several);
    assert!(said.contains("choose one with --question"), "{several:?}");
    let keys: Vec<&String> = shown["inputRequests"].as_object().unwrap().keys().collect();
    for key in &keys {
        said.has(&format!("[{key}]"));
    }
    for (nth, key) in keys.iter().enumerate() {
        let answered = served.run(&["answer", &id, "approved=true", "--question", key]);
        exit(&answered, 0);
        let said = stderr(&answered);
        let is_left = |key: &&String| said.contains("it still asks") && said.contains(&format!("--question {key}"));
        let left: Vec<bool> = keys.iter().map(is_left).collect();
        let expected: Vec<bool> = (0..keys.len()).map(|place| place > nth).collect();
        assert_eq!(left, expected, "what is still open: {answered:?}");
    }
    assert_eq!(served.done(&["task", &id, "--wait"]), "true true");
}

/// As the Python SDK 1.30 does: whoever requests the result is asked all at once. Nobody agrees to what another question asks.
#[test]
fn of_several_questions_that_come_together_none_is_answered() {
    let ask = |id: u64, text: &str| legacy_form(id, text, json!({"yes": {"type": "boolean"}}));
    let state = |status: &str| legacy_task("task-1", status);
    let both = [ask(7, "Delete it?"), ask(8, "Delete its backup?")];
    let served = scripted_legacy(move |seen| match seen.method() {
        "tools/call" => seen.result(json!({"task": state("working")})),
        "tasks/get" => seen.result(state("input_required")),
        "tasks/result" => Reply::stream_of(&both),
        _ => Reply::empty(202),
    });
    served.done(&["call", "t", "--detach"]);
    let refused = served.run(&["answer", "task-1", "yes=true"]);
    exit(&refused, 2);
    let said = stderr(&refused);
    said.has("choose one with --question")
        .has("Delete it?")
        .has("Delete its backup?");
    let has_answer = served.messages().iter().any(|seen| seen.body["result"].is_object());
    assert!(!has_answer, "nothing was sent");
}

/// Several people, or one who presses Enter twice: one answer counts, and the others are told that theirs does not.
#[test]
fn of_two_answers_at_once_one_is_taken() {
    let served = asking();
    for era in ["--era=modern", "--era=legacy"] {
        let id = served.done(&["call", "ship", "--detach", era]);
        served.asks(&id, 1);
        let answering: Vec<_> = (1..=4)
            .map(|copies| {
                let value = format!("copies={copies}");
                served.command(&["answer", &id, "approved=true", &value]).spawn()
            })
            .collect();
        let end = |one: std::io::Result<std::process::Child>| one.unwrap().wait_with_output().unwrap();
        let answered: Vec<_> = answering.into_iter().map(end).collect();
        let taken: Vec<usize> = (1..=4).filter(|copies| answered[copies - 1].status.success()).collect();
        assert_eq!(taken.len(), 1, "{era}: {answered:?}");
        for late in answered.iter().filter(|one| !one.status.success()) {
            exit(late, 5);
            let said = stderr(late);
            // The last one may come when the task is over.
            let reasons = ["answered", "asks nothing now", "the task has ended"];
            assert!(reasons.iter().any(|why| said.contains(why)), "{said}");
        }
        let result = served.done(&["task", &id, "--wait"]);
        assert_eq!(result, format!("approved: true, copies: Some({})", taken[0]));
    }
}

#[test]
fn a_detached_call_that_is_answered_at_once_says_so() {
    let served = asking();
    assert_eq!(exit(&served.run(&["call", "now", "--detach"]), 6), "at once");
    let id = served.done(&["call", "ship", "--detach"]);
    served.done(&["cancel", &id]);
    exit(&served.run(&["task", &id, "--wait"]), 4);
    let keyed = || served.done(&["call", "ship", "--detach", "--idempotency-key", "k"]);
    assert_eq!(keyed(), keyed());
}

#[test]
fn servers_have_names() {
    let served = asking();
    let folder = served.home.path().join("longhaul");
    fs::create_dir(&folder).unwrap();
    let servers = format!("[servers.mine]\nurl = \"{}\"\n", served.url);
    fs::write(folder.join("servers.toml"), servers).unwrap();
    let run = |words: &[&str]| longhaul(words, &served.home).output().unwrap();
    assert_eq!(exit(&run(&["call", "mine", "now"]), 0), "at once");
    assert_eq!(exit(&run(&["call", "-s", "mine", "now"]), 0), "at once");
    assert!(exit(&run(&["tools", "mine"]), 0).contains("ship\n"));
    run(&["call", "-s", "mime", "now"]).ends(2).says("did you mean `mine`?");
    let file = served.home.path().join("clients.json");
    let url = &served.url;
    let servers = format!(r#"{{"mcpServers": {{"theirs": {{"url": "{url}",}}}}}} // as in VS Code"#);
    fs::write(&file, servers).unwrap();
    let called = run(&["call", "--mcp-config", file.to_str().unwrap(), "theirs", "now"]);
    assert_eq!(exit(&called, 0), "at once");
}

/// The journal knows the server of a task, and finds it by a part of its id.
#[test]
fn a_recorded_task_needs_no_server_and_no_whole_id() {
    let served = asking();
    let run = |words: &[&str]| longhaul(words, &served.home).output().unwrap();
    let id = exit(&run(&["call", &served.url, "ship", "--detach"]), 0);
    served.asks(&id, 1);
    let listed = json(&run(&["tasks", "--json"]));
    listed["calls"][0].has_members(json!({"taskId": id, "state": "input_required"}));
    // Without an id: the only one.
    assert!(exit(&run(&["task"]), 0).contains("Ship it?"));
    let other = exit(&run(&["call", &served.url, "ship", "--detach"]), 0);
    run(&["task"]).ends(2).says(&id).says(&other);
    exit(&run(&["cancel"]), 2);
    exit(&run(&["cancel", &other[6..]]), 0);
    exit(&run(&["task", &other[6..], "--wait"]), 4);
    exit(&run(&["answer", &id[8..], "approved=true"]), 0);
    let result = exit(&run(&["task", &id[8..], "--wait"]), 0);
    assert_eq!(result, "approved: true, copies: None");
    let none = run(&["task"]);
    none.ends(2).says("none is recorded that has not ended");
    run(&["tasks"]).ends(0).prints("succeeded").prints("cancelled");
}

/// An answer that never comes.
pub(crate) fn silence() -> Response<Body> {
    let body = Body::from_stream(stream::pending::<Result<String, Infallible>>());
    let response = Response::builder().header("content-type", "application/json");
    response.body(body).unwrap()
}

/// A modern server that answers everything but calls.
pub(crate) fn silent_at_calls() -> Peer {
    modern(|_| silence())
}

/// An intent is recorded before the call is sent.
#[test]
fn a_call_whose_program_was_killed_is_listed_as_unknown() {
    let served = asking();
    let silent = silent_at_calls();
    let url = silent.url();
    let mut calling = longhaul(&["call", &url, "optional"], &served.home).spawn().unwrap();
    let listed = || exit(&longhaul(&["tasks"], &served.home).output().unwrap(), 0);
    while !listed().contains("being sent") {
        assert_eq!(calling.try_wait().unwrap(), None, "the call has ended");
    }
    calling.kill().unwrap();
    calling.wait().unwrap();
    listed().has("outcome unknown: the program ended before there was an answer");
    // It is not listed for ever.
    let journal = rusqlite::Connection::open(served.home.path().join("longhaul/.client/handles.db")).unwrap();
    let kept_for: i64 = journal
        .query_row("SELECT delete_at - changed_at FROM calls", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept_for, 24 * 60 * 60 * 1000);
    // So is one that is no longer waited for: the tool may have run.
    let again = longhaul(&["call", &url, "optional", "--timeout", "5s", "--json"], &served.home)
        .output()
        .unwrap();
    again.says("ago, and may have been carried out; this is a new call");
    let shown = exit(&again, 124);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["taskId"], &shown["interrupted"]), (&Value::Null, &true.into()));
    assert_eq!(listed().matches("outcome unknown").count(), 2, "{}", listed());
}

/// The limit is for all that the command waits for, so also for a server that says nothing.
#[test]
fn the_time_of_a_call_includes_that_of_the_connection() {
    let served = asking();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let output = longhaul(&["call", &url, "any", "--timeout", "100ms"], &served.home)
        .output()
        .unwrap();
    output.ends(124).says("nothing was called");
}

/// The relay and the process behind it.
#[test]
fn a_server_is_started_as_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = "[server]\nname = \"jobs\"\nidle_exit = \"1s\"\n[[tool]]\nname = \"say\"\ndescription = \"says it\"\ntask = \"optional\"\ncommand = [\"echo\", \"{word}\"]\ninput = { word = { type = \"string\" } }\n";
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    let run = |words: &[&str], folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let server = [env!("CARGO_BIN_EXE_longhaul"), "stdio", "jobs.toml"];
        command
            .args(words)
            .arg("--")
            .args(server)
            .current_dir(folder)
            .env("XDG_STATE_HOME", folder)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    assert!(exit(&run(&["tools"], folder.path()), 0).contains("word=string"));
    assert_eq!(exit(&run(&["call", "say", "word=hello"], folder.path()), 0), "hello");
    // The process behind it outlives the relay, and so do its tasks.
    let id = exit(&run(&["call", "say", "word=later", "--detach"], folder.path()), 0);
    assert_eq!(exit(&run(&["task", &id, "--wait"], folder.path()), 0), "later");
    let listed = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["tasks", "--json", "--offline"])
        .env("XDG_STATE_HOME", folder.path())
        .output()
        .unwrap();
    let listed: Value = serde_json::from_str(&exit(&listed, 0)).unwrap();
    let here = folder.path().to_str().unwrap();
    let command = serde_json::json!([env!("CARGO_BIN_EXE_longhaul"), "stdio", "jobs.toml"]);
    for call in listed["calls"].as_array().unwrap() {
        assert_eq!(call["server"], command, "{listed}");
        assert_eq!(call["serverFolder"], here, "{listed}");
    }
    // A recorded task of a configured server is looked for in the server's own folder.
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("longhaul")).unwrap();
    let configured = format!(
        "[servers.jobs]\ncommand = {:?}\nargs = [\"stdio\", \"jobs.toml\"]\ncwd = {:?}\n",
        env!("CARGO_BIN_EXE_longhaul"),
        folder.path()
    );
    fs::write(home.path().join("longhaul/servers.toml"), configured).unwrap();
    let run_at_home = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let command = command.args(words).stdin(Stdio::null()).current_dir(home.path());
        command
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_STATE_HOME", folder.path())
            .output()
            .unwrap()
    };
    let id = exit(&run_at_home(&["call", "jobs", "say", "word=named", "--detach"]), 0);
    assert_eq!(exit(&run_at_home(&["task", &id[8..], "--wait"]), 0), "named");
    run(&["tools"], &std::env::temp_dir()).ends(3).says("standard error");
}

/// There is no task to leave running, so nothing was detached.
#[test]
fn a_detached_call_that_asks_before_it_is_a_task_is_an_error() {
    let served = asking();
    let called = served.run(&["call", "early", "--detach"]);
    assert_eq!(exit(&called, 5), "");
    assert!(stderr(&called).contains("asks before there is a task"), "{called:?}");
}

/// Ids are unique on a server, and not among servers.
#[test]
fn tasks_of_two_servers_with_one_id_are_told_apart() {
    let (one, other) = (asking(), asking());
    let journal = one.home.path().join("longhaul/.client/handles.db");
    let id = one.done(&["call", "ship", "--detach"]);
    let recorded = longhaul_client::NewCall {
        server: other.url.clone(),
        server_name: None,
        tool: "other".to_owned(),
        arguments_digest: [0; 32],
        idempotency_key: None,
        session: None,
        login: None,
        batch_line: None,
    };
    let task = longhaul_client::TaskRef {
        task_id: id.clone(),
        generation: longhaul_client::Generation::Modern,
        session: None,
        created_at: None,
        ttl: None,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let journal = longhaul_ledger::ClientJournal::open(&journal).await.unwrap();
        let call = journal.begin(recorded).await.unwrap();
        journal.acknowledge(call, task).await.unwrap();
    });
    let run = |words: &[&str]| longhaul(words, &one.home).output().unwrap();
    for words in [
        &["task", &id][..],
        &["cancel", &id],
        &["answer", &id, "approved=true"],
        // Without an id, too.
        &["task"],
    ] {
        let several = run(words);
        several.ends(2).says(&format!("on {}", one.url));
        several.says(&format!("on {}", other.url));
    }
    let listed = exit(&run(&["tasks", "--offline"]), 0);
    for url in [&one.url, &other.url] {
        let is_of_it = |line: &str| line.starts_with(&id) && line.ends_with(url.as_str());
        assert!(listed.lines().any(is_of_it), "{listed}");
    }
    // Only one of them asks, and that is the one that is meant.
    one.asks(&id, 1);
    exit(&run(&["answer", "approved=true"]), 0);
    let result = exit(&run(&["task", "-s", &one.url, &id, "--wait"]), 0);
    assert_eq!(result, "approved: true, copies: None");
    exit(&run(&["task", "-s", &other.url, &id]), 5);
}

/// The default server is where calls go without another one, and hides nothing that is recorded.
#[test]
fn the_default_server_of_the_environment_hides_no_other_server() {
    let (one, other) = (asking(), asking());
    let id = one.done(&["call", "ship", "--detach"]);
    one.asks(&id, 1);
    let elsewhere = |words: &[&str]| run_at(&other.url, &one.home, words);
    assert!(exit(&elsewhere(&["tasks"]), 0).starts_with(&id));
    assert!(exit(&elsewhere(&["tasks", "--open", "--offline"]), 0).starts_with(&id));
    assert!(exit(&elsewhere(&["task"]), 0).contains("Ship it?"));
    exit(&elsewhere(&["answer", "approved=true"]), 0);
    assert!(exit(&elsewhere(&["task", "--wait"]), 0).contains("approved: true"));
    // On the command line a server is chosen.
    let of_other = exit(&run_at(&one.url, &one.home, &["tasks", &other.url]), 0);
    assert!(of_other.is_empty(), "{of_other}");
}
