//! What is told of tasks, and answering and cancelling them.

use crate::support::*;
use serde_json::json;
use std::fs;

#[test]
fn an_answer_that_does_not_fit_is_refused_before_it_is_sent() {
    let served = served();
    let id = served.detach("book");
    served.asks(&id, 1);
    let no_date = "`day`: \"monday\" does not fit; it must be a date, such as 2026-11-23";
    let no_number = "`people` takes a whole number of at most 64 bits, in digits alone, not `1e0`";
    for (given, reason) in [
        ("day=monday", no_date),
        ("people=12", "missing `day` (On which day.)"),
        ("people=1e0", no_number),
    ] {
        served.run(&["answer", &id, given]).ends(2).says(reason);
    }
    let wrong = served.run(&["answer", &id, "day=2026-11-23", "people=12"]);
    exit(&wrong, 2);
    wrong.says("`people`: 12 does not fit; it must be a whole number");
    served.done(&["answer", &id, "day=2026-11-23"]);
    assert_eq!(served.done(&["task", &id, "--wait"]), "booked for 2026-11-23");
}

#[test]
fn cancelling_a_task_that_has_ended_says_so() {
    let served = served();
    for era in ["modern", "legacy"] {
        let id = served.detach("wait");
        let cancelled = served.run(&["cancel", "--era", era, &id]);
        exit(&cancelled, 0);
        exit(&served.run(&["task", "--era", era, &id, "--wait"]), 4);
        let again = served.run(&["cancel", "--era", era, &id]);
        exit(&again, 0);
        assert_eq!(stderr(&again), format!("the task {id} was cancelled already"), "{era}");
    }
    let id = served.detach("book");
    served.asks(&id, 1);
    served.done(&["answer", &id, "day=2026-11-23"]);
    served.done(&["task", &id, "--wait"]);
    let late = served.run(&["cancel", &id]);
    exit(&late, 5);
    late.says("the task has ended (succeeded); nothing was cancelled");
}

/// Each is cancelled, whatever becomes of the others.
#[test]
fn several_tasks_are_cancelled_at_once_and_waited_for() {
    let served = served();
    let tasks: Vec<String> = (0..3).map(|_| served.detach("wait")).collect();
    served.done(&["cancel", &tasks[0], &tasks[1], "--wait"]);
    let shown = |id: &str| served.shown(&["task", id, "--json"])["status"].clone();
    assert_eq!([shown(&tasks[0]), shown(&tasks[1])], ["cancelled"; 2]);
    let refused = served.run(&["cancel", "no-such-task", &tasks[2], "--wait", "--json"]);
    refused.ends(5).says("no-such-task: ");
    assert_eq!(shown(&tasks[2]), "cancelled");
}

/// Also in the journal, so that lists do not show it any more.
#[test]
fn a_finished_task_is_deleted_and_a_live_one_is_not() {
    let served = served();
    for era in ["modern", "legacy"] {
        let id = served.detach("book");
        served.asks(&id, 1);
        let listed = || stdout(&served.run(&["tasks", "--offline"]));
        let live = served.run(&["task", "--era", era, &id, "--delete"]);
        live.ends(5).says("Task has not ended: cancel it first");
        served.done(&["answer", &id, "day=2026-11-23"]);
        served.done(&["task", "--era", era, &id, "--wait"]);
        assert!(listed().contains(&id[..12]), "{era}: {}", listed());
        let deleted = served.run(&["task", "--era", era, &id, "--delete", "--json"]);
        let expected = format!(r#"{{"taskId":"{id}","deleted":true}}"#);
        assert_eq!(exit(&deleted, 0), expected, "{era}");
        assert!(!listed().contains(&id[..12]), "{era}: {}", listed());
        for action in ["--delete", "--wait"] {
            exit(&served.run(&["task", "--era", era, &id, action]), 5);
        }
    }
}

/// A legacy server shows its questions only to the client that requests the result.
#[test]
fn a_legacy_task_is_answered_without_waiting_for_it() {
    let served = served();
    let (id, shown) = served.detach_before_it_asks();
    let way = format!("longhaul answer --era=legacy {id}");
    shown.says(&way).prints("tool      late");
    let unknown = served.run(&["answer", &id, "--era=legacy", "--question=when", "day=2026-11-23"]);
    exit(&unknown, 2);
    // The command may get the question, and record it, before it looks for a key.
    let reasons = ["so it has no key", "the task does not ask `when`; it asks"];
    let said = stderr(&unknown);
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    for (given, reason) in [
        (&[][..], "give the answer as NAME=VALUE"),
        (&["day=monday"], "it must be a date, such as 2026-11-23"),
    ] {
        let words = [&["answer", &id, "--era=legacy"], given].concat();
        served.run(&words).ends(2).says(reason);
    }
    // The question is still open.
    let answered = served.run(&["answer", &id, "--era=legacy", "day=2026-11-23"]);
    exit(&answered, 0);
    assert_eq!(stderr(&answered), "the server has taken the answer");
    let result = served.run(&["task", &id, "--wait", "--era=legacy"]);
    assert_eq!(exit(&result, 0), "booked for 2026-11-23");
    exit(&served.run(&["answer", &id, "--era=legacy", "day=2026-11-23"]), 5);
}

#[test]
fn a_legacy_task_is_declined() {
    let served = served();
    let (id, _) = served.detach_before_it_asks();
    let declined = served.run(&["answer", &id, "--era=legacy", "--decline", "--json"]);
    exit(&declined, 0);
    assert_eq!(json(&declined)["answered"], "q1", "{declined:?}");
    exit(&served.run(&["task", &id, "--wait", "--era=legacy"]), 1);
}

/// The values are those of one question; the other one stays open.
#[test]
fn one_of_several_legacy_questions_is_answered() {
    let served = served();
    let id = served.detach_legacy("pair");
    let shown = served.asks(&id, 2);
    let keys: Vec<&String> = shown["inputRequests"].as_object().unwrap().keys().collect();
    // Of several none is chosen for the user.
    exit(&served.run(&["answer", &id, "--era=legacy", "day=2026-11-23"]), 2);
    for (key, day, others) in [(keys[0], "day=2026-11-23", 1), (keys[1], "day=2026-11-24", 0)] {
        let answered = served.run(&["answer", &id, "--era=legacy", "--question", key, day]);
        exit(&answered, 0);
        let count = stderr(&answered).matches("the task also asks").count();
        assert_eq!(count, others, "{answered:?}");
    }
    let result = served.run(&["task", &id, "--wait", "--era=legacy"]);
    exit(&result, 0).has("2026-11-23").has("2026-11-24");
}

#[test]
fn a_task_is_shown_with_its_tool_and_server() {
    let served = served();
    let id = served.detach("wait");
    let shown = served.done(&["task", &id]);
    shown.has("tool      wait").has(&format!("server    {}", served.url));
    let shown = served.shown(&["task", &id, "--json"]);
    shown.has_members(json!({"tool": "wait", "server": served.url}));
    for options in [&["--log"][..], &["--log", "--follow"]] {
        let log = served.run(&[&["task", &id], options].concat());
        log.ends(5).says("the task has no log").says_no("--history");
    }
    let unknown = served.run(&["task", "01m85dh0m4rtrfmkapghhfnyt4e3paw59rpa", "--log"]);
    unknown.ends(5).says_no("--history");
}

/// A list shows what a server tells, and is not held up by one that is silent or gone.
#[test]
fn the_list_is_bounded_in_time_and_says_which_servers_were_not_reached() {
    let served = served();
    let id = served.detach("book");
    served.asks(&id, 1);
    // The same task, recorded for a server that is silent now.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = gone.local_addr().unwrap();
    let journal = rusqlite::Connection::open(served.home.path().join("longhaul/.client/handles.db")).unwrap();
    for address in [silent.local_addr().unwrap(), gone] {
        let sql = format!(
            "INSERT INTO calls (server, tool, arguments_digest, state, task_id, generation, begun_at, changed_at)
             SELECT 'http://{address}/mcp', 'elsewhere', arguments_digest, state, task_id || '{}', generation, begun_at, changed_at
             FROM calls WHERE task_id = '{id}'",
            address.port()
        );
        journal.execute_batch(&sql).unwrap();
    }
    let listed = longhaul(&["tasks"], &served.home).output().unwrap();
    let lines = exit(&listed, 0);
    assert!(lines.contains(&format!("{id}  book  asking")), "{lines}");
    assert_eq!(lines.matches("elsewhere  running (not reached)").count(), 2, "{lines}");
    let offline = longhaul(&["tasks", "--offline", "--json"], &served.home)
        .output()
        .unwrap();
    let offline = json(&offline);
    let mut calls = offline["calls"].as_array().unwrap().iter();
    assert!(calls.all(|call| call["notReached"].is_null()), "{offline}");
    served.done(&["cancel", &id]);
}

/// A task that was not called from here is known to the server alone.
#[test]
fn what_a_legacy_server_lists_is_listed() {
    let served = served();
    let id = served.done(&["call", "wait", "--detach", "--era=legacy"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Another program in the same session.
    let other = runtime.block_on(async {
        let journal = served.home.path().join("longhaul/.client/handles.db");
        let journal = longhaul_ledger::ClientJournal::open(&journal).await.unwrap();
        let call = journal.live().await.unwrap().pop().unwrap();
        let session = call.task.unwrap().session.unwrap();
        let options = longhaul_client::Options::named("other", "1");
        let connection = longhaul_client::Connection::lazy(&served.url, options).unwrap();
        connection.resume(&session).await;
        let tools = connection.list_tools().await.unwrap();
        let tool = tools.iter().find(|tool| tool.name == "book").unwrap();
        match connection
            .call_tool(tool, &Default::default(), &mut |_| {})
            .await
            .unwrap()
        {
            longhaul_client::CallResponse::Task(task) => task.id().to_owned(),
            done => panic!("no task: {done:?}"),
        }
    });
    let listed = served.shown(&["tasks", "--json"]);
    let recorded = |id: &str| {
        let calls = listed["calls"].as_array().unwrap();
        let found = calls.iter().find(|call| call["taskId"] == id);
        found.map(|call| call["recorded"].clone())
    };
    let expected = [Some(json!(true)), Some(json!(false))];
    assert_eq!([recorded(&id), recorded(&other)], expected);
    let lines = served.done(&["tasks"]);
    assert!(lines.contains(&format!("{other}  -  asking")), "{lines}");
}

#[test]
fn tasks_are_watched_until_all_have_ended() {
    let served = served();
    let (one, two) = (served.detach("book"), served.detach("wait"));
    served.asks(&one, 1);
    let mut watching = served.command(&["watch", "--json"]).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let mut lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let first: Vec<_> = lines.by_ref().take(2).map(|line| line["status"].clone()).collect();
    let has = |status: &str| first.contains(&status.into());
    assert!(has("input_required") && has("working"), "{first:?}");
    served.done(&["answer", &one, "day=2026-11-23"]);
    served.done(&["cancel", &two]);
    let rest: Vec<_> = lines.collect();
    // As of the one that was cancelled.
    assert_eq!(watching.wait().unwrap().code(), Some(4));
    for (id, status) in [(&one, "completed"), (&two, "cancelled")] {
        let last = rest.iter().rfind(|line| line["taskId"] == id.as_str()).unwrap();
        last.has_members(json!({"status": status, "ended": true}));
    }
    let nothing = served.run(&["watch"]);
    assert_eq!(exit(&nothing, 0), "", "{nothing:?}");
    exit(&served.run(&["watch", "no-such-task"]), 5);
    let refused = served.run(&["watch", "no-such-task", "--json"]);
    exit(&refused, 5);
    let last: serde_json::Value = serde_json::from_str(stdout(&refused).lines().last().unwrap()).unwrap();
    last["error"].has_members(json!({"kind": "refused", "taskId": "no-such-task"}));
    assert!(stderr(&refused).contains("no-such-task"), "{refused:?}");
}

/// Two calls under one key are one task, which has one id.
#[test]
fn a_call_that_is_made_twice_has_one_task() {
    let served = served();
    let call = ["call", "wait", "--detach", "--idempotency-key", "once"];
    let first = served.done(&call);
    assert_eq!(served.done(&call), first);
    let shown = served.done(&["task", &first]);
    assert!(shown.contains(&first), "{shown}");
    // It is also the only one, so it need not be named.
    assert_eq!(served.done(&["task"]), shown);
    served.done(&["cancel", &first]);
}

/// Who cannot be asked leaves the question of a legacy task where it is.
#[test]
fn without_a_terminal_a_legacy_question_stays() {
    let served = served();
    let called = served.run(&["call", "book", "--era=legacy"]);
    called.ends(7).says("longhaul answer --era=legacy");
    served.done(&["answer", "day=2026-11-23"]);
    assert_eq!(served.done(&["task", "--wait"]), "booked for 2026-11-23");
}

/// A repeated command may be a mistake: the task of the first one is still there.
#[test]
fn a_call_that_repeats_an_unfinished_one_says_so() {
    let served = served();
    let first = served.detach("wait");
    let second = served.run(&["call", "wait", "--detach"]);
    let way = format!("longhaul task {first} --wait");
    second.says("its task has not ended; this is a new call").says(&way);
    assert_ne!(exit(&second, 0), first);
    let third = served.run(&["call", "wait", "--detach"]);
    assert!(stderr(&third).contains("(1 more: `longhaul tasks`)"), "{third:?}");
    let other = served.run(&["call", "book", "--detach"]);
    assert!(!stderr(&other).contains("a new call"), "{other:?}");
    for id in [first, stdout(&second), stdout(&third)] {
        served.done(&["cancel", &id]);
        exit(&served.run(&["task", &id, "--wait"]), 4);
    }
    let last = served.run(&["call", "wait", "--detach"]);
    assert!(!stderr(&last).contains("a new call"), "{last:?}");
}

/// As those of a batch are, with the same status.
#[test]
fn arguments_are_checked_before_the_call() {
    let served = served();
    for value in ["5", "null"] {
        let reason = format!("`text`: {value} is not of type \"string\"; nothing was called");
        served
            .run(&["call", "echo", &format!("text:={value}")])
            .ends(2)
            .says(&reason);
    }
    assert!(served.listed(&[]).is_empty(), "nothing was recorded");
}

#[test]
fn a_list_of_a_server_that_cannot_be_reached_is_no_empty_list() {
    let served = served();
    let gone = served.run(&["tasks", "http://127.0.0.1:1/mcp"]);
    gone.ends(3).says("cannot be reached");
}

/// A legacy server asks only who waits. What it has asked then is recorded, and shown and answered as that of a modern one.
#[test]
fn a_question_of_a_legacy_server_has_a_key_and_is_answered_later() {
    let served = served();
    let asked = served.run(&["call", "book", "--json", "--era=legacy"]);
    exit(&asked, 7);
    let asked = json(&asked);
    let (id, questions) = (asked["taskId"].as_str().unwrap(), &asked["inputRequests"]);
    let (key, question) = questions.as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "When?", "{asked}");
    let shown = served.run(&["task", id, "--json", "--era=legacy"]);
    assert_eq!(json(&shown)["inputRequests"], *questions);
    let other = served.run(&["answer", id, "--question=other", "day=2026-01-02", "--era=legacy"]);
    other.ends(2).says(&format!("it asks {key}"));
    served.run(&["answer", id, "day=tomorrow", "--era=legacy"]).ends(2);
    let answered = served.run(&["answer", id, "day=2026-01-02", "--json", "--era=legacy"]);
    exit(&answered, 0);
    assert_eq!(json(&answered)["answered"], key.as_str());
    let ended = served.run(&["task", id, "--wait", "--era=legacy"]);
    assert_eq!(exit(&ended, 0), "booked for 2026-01-02");
}

/// The environment only says where to look for what is not recorded.
#[test]
fn a_recorded_task_is_found_whatever_the_default_server_is() {
    let (served, other) = (served(), served());
    let id = served.detach("wait");
    let shown = served
        .command(&["task", &id, "--json"])
        .env("LONGHAUL_SERVER", &other.url)
        .output();
    assert_eq!(json(&shown.unwrap())["server"], served.url.as_str());
    served.run(&["task", "xy"]).ends(2).says("4 characters or more");
    let watched = longhaul(&["watch", "no-such-task", "-s", "http://127.0.0.1:1/mcp"], &served.home).output();
    watched.unwrap().ends(3);
}

/// MCP calls both completed.
#[test]
fn a_listed_call_says_whether_its_result_is_an_error() {
    let served = served();
    exit(&served.run(&["call", "fail"]), 1);
    let file = served.home.path().join("arguments.json");
    // Some editors write a byte order mark before it.
    fs::write(&file, "\u{feff}{\"text\": \"x\"}").unwrap();
    served.done(&["call", "echo", "--input", file.to_str().unwrap()]);
    let waits = served.detach("wait");
    let calls = served.listed(&[]);
    let of = |tool: &str| calls.iter().find(|call| call["tool"] == tool).unwrap();
    for (tool, state, is_error) in [
        ("fail", "completed", json!(true)),
        ("echo", "completed", json!(false)),
        ("wait", "working", json!(null)),
    ] {
        of(tool).has_members(json!({"tool": tool, "state": state, "isError": is_error}));
    }
    served.done(&["cancel", &waits]);
}
