//! What a command that ends by itself returns.

use super::fixtures::{kill, pids, until};
use super::support::{Server, becomes, create, outcome, result, scope, text};
use longhaul_command::OutputKind;
use longhaul_core::{Retry, RetryOn, store::Record};
use longhaul_runtime::LogRange;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_0_gives_the_standard_output() {
    let server = Server::running("printf '%s!' \"$1\"; echo noise >&2");
    assert_eq!(
        text(&server.run(json!({"word": "a; b"})).await),
        ("a; b!".to_owned(), false)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_shows_the_end_of_both_outputs_in_order_and_how_it_ended() {
    let server = Server::running(
        "wait_for() { until [ -e $1 ]; do sleep 0.01; done; }
        echo FAIL test_sum; wait_for a; echo 1 failed >&2; wait_for b; echo see above; exit 3",
    );
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    // What is there at once has no order.
    for (line, then) in [("FAIL test_sum\n", "a"), ("1 failed\n", "b")] {
        let dir = server.attempts.dir(&task.id, 1);
        until("the line is read", || {
            let log = longhaul_command::read_log(&dir, LogRange::default()).ok()?;
            log.text.ends_with(line).then_some(())
        });
        std::fs::write(server.file(then), "").unwrap();
    }
    let (value, is_error) = result(&outcome(&engine, &task.id).await);
    let expected = "sh exited with code 3\n\nFAIL test_sum\n1 failed\nsee above";
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
    assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"code": 3}}));

    let server = Server::running("echo only this; kill -9 $$");
    let (value, is_error) = result(&server.run(json!({})).await);
    let expected = "sh was killed by signal 9 (KILL), as when memory runs out\n\nonly this";
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), true));
    assert_eq!(value["_meta"], json!({"dev.longhaul/exit": {"signal": "KILL"}}));

    let mut server = Server::running("");
    server.definition.command = vec!["no-such-program".into()];
    let (text, is_error) = text(&server.run(json!({})).await);
    assert!(
        is_error && text.starts_with("no-such-program could not be started: No such file"),
        "{text}"
    );
}

/// A failure of `diff` is 2: with 1 it says that the files differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_that_count_as_success_give_the_output() {
    let run = async |script, codes: [u8; 2], output| {
        let mut server = Server::running(script);
        server.definition.success = codes.into_iter().collect();
        server.definition.output = output;
        let (value, is_error) = result(&server.run(json!({})).await);
        let text = value["content"][0]["text"].as_str().unwrap().to_owned();
        (
            text,
            is_error,
            value["_meta"].clone(),
            value["structuredContent"].clone(),
        )
    };
    let exit = |code: i32| json!({"dev.longhaul/exit": {"code": code}});
    let differs = "2c2\n[longhaul: sh exited with code 1, which counts as success]\n";
    let none = serde_json::Value::Null;
    for (script, codes, output, expected) in [
        (
            "printf 2c2; exit 1",
            [0, 1],
            OutputKind::Text,
            (differs, false, exit(1), none.clone()),
        ),
        (
            "echo same",
            [0, 1],
            OutputKind::Text,
            ("same\n", false, none.clone(), none.clone()),
        ),
        (
            "echo 7; exit 1",
            [0, 1],
            OutputKind::Json,
            ("7", false, exit(1), json!(7)),
        ),
        (
            "exit 2",
            [0, 1],
            OutputKind::Text,
            ("sh exited with code 2", true, exit(2), none.clone()),
        ),
        (
            "echo found",
            [1, 2],
            OutputKind::Text,
            (
                "sh exited with code 0, which does not count as success\n\nfound",
                true,
                exit(0),
                none.clone(),
            ),
        ),
    ] {
        let (text, is_error, meta, structured) = run(script, codes, output).await;
        assert_eq!((&*text, is_error, meta, structured), expected, "{script}");
    }
}

/// Much output of one stream drops nothing of the other, and what is not shown can be found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_failure_shows_the_end_of_each_output_and_names_the_log() {
    let server = Server::running(
        "echo error: the cause >&2; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done; exit 1",
    );
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let (value, _) = result(&outcome(&engine, &task.id).await);
    let text = value["content"][0]["text"].as_str().unwrap();
    // What is there at once has no order: either may come last, and the last newline is cut off.
    assert!(
        text.contains("error: the cause") && text.contains("line 2000"),
        "{text}"
    );
    let log = format!("longhaul://task/{}/log", task.id.as_str());
    assert!(
        text.contains(&format!("{log} (longhaul task {} --log)]", task.id.as_str())),
        "{text}"
    );
    let incomplete = &value["_meta"]["dev.longhaul/incomplete"];
    assert_eq!(incomplete["log"], json!(log));
    let whole = engine
        .read_log(&task, None, LogRange::default())
        .await
        .unwrap()
        .unwrap()
        .total;
    let shown = text.split_once("]\n").unwrap().1.len() as u64 + 1;
    assert_eq!(incomplete["droppedBytes"], json!(whole - shown));
}

/// A daemon that still has the output open may write more: the result says so to people, and to programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_was_left_open_is_marked() {
    let mark = "[longhaul: a process that the command left running still has this output open";
    let cases = [
        (
            "sleep 1000 2>/dev/null & echo $! >> pids; echo up",
            false,
            "up\n[longhaul",
            json!(["stdout"]),
        ),
        (
            "sleep 1000 >/dev/null & echo $! >> pids; echo down >&2; exit 1",
            true,
            "down\n[longhaul",
            json!(["stderr"]),
        ),
    ];
    for (script, failed, expected, open) in cases {
        let server = Server::running(script);
        let (value, is_error) = result(&server.run(json!({})).await);
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(mark) && text.contains(expected) && is_error == failed,
            "{text}"
        );
        assert_eq!(value["_meta"]["dev.longhaul/incomplete"]["leftOpen"], open);
        kill(pids(&server.file("pids"), 1)[0]);
    }
    let mut server = Server::running("sleep 1000 & echo $! >> pids; echo '{\"n\": 1}'");
    server.definition.output = OutputKind::Json;
    let (value, _) = result(&server.run(json!({})).await);
    assert_eq!(
        (&value["structuredContent"], &value["isError"]),
        (&json!({"n": 1}), &json!(false))
    );
    assert_eq!(value["_meta"]["dev.longhaul/incomplete"]["leftOpen"], json!(["stdout"]));
    kill(pids(&server.file("pids"), 1)[0]);
}

/// The supervisor may write no file beyond 16 KiB, as on a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_could_not_be_kept_is_marked() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let mut server = Server::running("until [ -e go ]; do sleep 0.01; done; head -c 90000 /dev/zero | tr '\\0' x");
    server.definition.max_output = 100_000;
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let limit = Rlimit {
        current: Some(16 * 1024),
        maximum: Some(16 * 1024),
    };
    prlimit(Pid::from_raw(server.supervisor(&id)), Resource::Fsize, limit).unwrap();
    std::fs::write(server.file("go"), "").unwrap();
    let (result, is_error) = result(&outcome(&engine, &id).await);
    assert!(is_error);
    let text = result["content"][0]["text"].as_str().unwrap();
    let expected =
        "the command succeeded, but its output could not be kept: stdout could not be written: File too large";
    assert!(text.starts_with(expected), "{text}");
    let incomplete = &result["_meta"]["dev.longhaul/incomplete"];
    assert_eq!(incomplete["droppedBytes"], 90_000, "{result}");
    let log = format!("longhaul://task/{}/log", id.as_str());
    assert_eq!(incomplete["log"], log, "what of the log could be written can be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_start_nothing() {
    let server = Server::running("touch ran");
    let (text, is_error) = text(&server.run(json!({"word": "-delete"})).await);
    assert!(is_error && text.contains("`word` may not begin with `-`"), "{text}");
    assert!(!server.file("ran").exists());
    assert_eq!(server.attempts.bytes_held().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_decoded_and_its_tail_kept() {
    let server = Server::running(r"printf '\303\050 caf\351 \360\237\230\200'");
    assert_eq!(
        text(&server.run(json!({})).await),
        ("\u{fffd}( caf\u{fffd} 😀".to_owned(), false)
    );
    let mut server = Server::running("i=0; while [ $i -lt 1000 ]; do i=$((i+1)); printf €; done");
    server.definition.max_output = 10;
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let id = task.id.as_str();
    let expected = format!(
        "[longhaul: the first {} bytes were dropped; the log has them: longhaul://task/{id}/log (longhaul task {id} --log)]\n€€€",
        3000 - 9
    );
    let (value, is_error) = result(&outcome(&engine, &task.id).await);
    assert_eq!((&value["content"][0]["text"], is_error), (&json!(expected), false));
    assert_eq!(
        value["_meta"]["dev.longhaul/incomplete"],
        json!({"droppedBytes": 2991, "log": format!("longhaul://task/{id}/log")})
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_output_is_structured_content() {
    let json_server = |script: &str| {
        let mut server = Server::running(script);
        server.definition.output = OutputKind::Json;
        server.definition.output_schema = Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        server
    };
    let (value, is_error) = result(
        &json_server(r#"echo ' {"n": 1.0e1, "other": [true]} '"#)
            .run(json!({}))
            .await,
    );
    assert_eq!(
        (&value["structuredContent"], is_error),
        (&json!({"n": 10.0, "other": [true]}), false),
        "{value}"
    );
    assert_eq!(value["content"][0]["text"], r#"{"n": 1.0e1, "other": [true]}"#);
    let (value, is_error) = result(&json_server(r#"printf '\357\273\277{"n": 1}\r\n'"#).run(json!({})).await);
    assert_eq!(
        (&value["structuredContent"], is_error),
        (&json!({"n": 1}), false),
        "a byte order mark"
    );
    for (script, problem) in [
        (r#"echo '{"n": "x"}'"#, "output schema: at `/n`"),
        ("echo '{\"n\": '", "is not JSON"),
        ("true", "is empty"),
        (
            "echo deprecated setting; echo '{\"n\": 1}'",
            "before the JSON it wrote `deprecated setting`; all that is not JSON belongs on standard error\n\n[longhaul: its log is longhaul://task/",
        ),
        (
            "echo deprecated setting; echo '{\"n\": 1}'",
            "]\n\ndeprecated setting\n{\"n\": 1}",
        ),
        (r"printf '\377'", "is not UTF-8"),
        (
            r#"printf '{"x": "'; head -c 2000 /dev/zero | tr '\0' x; printf '"}'"#,
            "has 2009 bytes",
        ),
    ] {
        let (text, is_error) = text(&json_server(script).run(json!({})).await);
        assert!(is_error && text.contains(problem), "{script}: {text}");
    }
}

/// However short before its end a command reports, that is what stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_line_is_the_last_status() {
    let last = async |script: &str, change: &dyn Fn(&mut Server)| {
        let mut server = Server::running(script);
        change(&mut server);
        let engine = server.start().await;
        let task = create(&engine, json!({})).await;
        outcome(&engine, &task.id).await;
        let task = engine.get(&scope(), &task.id).await.unwrap().unwrap().task;
        (
            task.status.unwrap_or_default().to_string(),
            task.progress.map(|progress| progress.current),
        )
    };
    let count = "n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo \"received $n/40\"; done";
    assert_eq!(last(count, &|_| {}).await, ("received 40/40".to_owned(), None));
    let numbers = |server: &mut Server| server.definition.progress = Some(r"(?<current>\d+)/\d+".to_owned());
    let printed = format!("{count}; echo finished");
    assert_eq!(
        last(&printed, &numbers).await,
        ("received 40/40".to_owned(), Some(40.0))
    );
    let bar = r"printf '\r 1%%\r 82%%\r 100%%' >&2";
    assert_eq!(last(bar, &|_| {}).await.0, "100%");
    let json = |server: &mut Server| server.definition.output = OutputKind::Json;
    assert_eq!(
        last("echo working >&2; echo '{}'", &json).await.0,
        "working",
        "the result is no status"
    );
}

/// Results, failures and logs have what a terminal would show; only the log's file has the bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_what_a_terminal_would_show() {
    let frames = r"printf '\033]0;title\007start\n'; for n in 1 2 3; do printf '\r %d%%' $n; done; printf '\n\033[32mdone\033[0m\r\n'";
    let server = Server::running(frames);
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let shown = "start\n 3%\ndone\n";
    assert_eq!(text(&outcome(&engine, &task.id).await), (shown.to_owned(), false));
    let log = engine
        .read_log(&task, None, LogRange::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(log.text, shown);
    assert!(log.total > 40, "places in the log are of its bytes: {log:?}");
    let (failure, _) = text(&Server::running(&format!("{frames}; exit 1")).run(json!({})).await);
    assert_eq!(failure, format!("sh exited with code 1\n\n{}", shown.trim_end()));
    // Each line is of one stream.
    let mixed = "printf '\\r 99%%' >&2; echo result; exit 1";
    let (failure, _) = text(&Server::running(mixed).run(json!({})).await);
    let lines: Vec<_> = failure.lines().skip(2).collect();
    assert!(lines.contains(&"result") && lines.contains(&" 99%"), "{failure}");
    // What is cut off ends with a line.
    let mut server = Server::running("for n in 1 2 3 4 5 6 7 8; do echo line $n; done");
    server.definition.max_output = 16;
    let (cut, _) = text(&server.run(json!({})).await);
    assert!(cut.ends_with("]\nline 7\nline 8\n"), "{cut}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_at_a_start_is_named() {
    let reason = async |prepare: &dyn Fn(&Server) -> Vec<String>| {
        let mut server = Server::running("");
        server.definition.command = prepare(&server).into_iter().map(Into::into).collect();
        if server.definition.program() == "pwd" {
            server.definition.cwd = server.file("gone");
        }
        text(&server.run(json!({})).await).0
    };
    let script = |server: &Server, first: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = server.file("script");
        std::fs::write(&path, format!("{first}\necho hi\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        vec![path.to_str().unwrap().to_owned()]
    };
    let folder = reason(&|_| vec!["pwd".to_owned()]).await;
    assert!(
        folder.contains("its folder") && folder.contains("gone does not exist"),
        "{folder}"
    );
    for (first, mode, expected) in [
        (
            "#!/bin/sh\r",
            0o755,
            "its interpreter `/bin/sh` is followed by a carriage return",
        ),
        (
            "#! /no/such/python -u",
            0o755,
            "its interpreter /no/such/python does not exist",
        ),
        ("#!/bin/sh", 0o644, "(chmod +x)"),
    ] {
        let why = reason(&|server| script(server, first, mode)).await;
        assert!(why.contains(expected), "{why}");
    }
    let long = reason(&|_| vec!["echo".to_owned(), "short".to_owned(), "x".repeat(200_000)]).await;
    assert!(
        long.contains("argument 2 of its command has 200000 bytes") && long.contains("`stdin`"),
        "{long}"
    );
    let (oom, _) = text(&Server::running("exit 137").run(json!({})).await);
    assert_eq!(
        oom,
        "sh exited with code 137, by which shells report signal 9 (KILL), as when memory runs out"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_output_that_no_client_could_read_is_an_error() {
    let printed = async |output: &str| {
        let mut server = Server::running(&format!("printf %s '{output}'"));
        server.definition.output = OutputKind::Json;
        result(&server.run(json!({})).await)
    };
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let (value, is_error) = printed(&nested(97)).await;
    assert_eq!((value["structuredContent"].to_string(), is_error), (nested(97), false));
    for (output, problem) in [
        (nested(98).as_str(), "is JSON nested deeper than 97 levels"),
        (&nested(400), "is JSON nested deeper than 97 levels"),
        (
            r#"{"a":"x\udc00y"}"#,
            "cannot hold: lone leading surrogate in hex escape at line 1 column",
        ),
        (r#"{"a":1e999}"#, "cannot hold: number out of range at line 1 column 10"),
    ] {
        let (value, is_error) = printed(output).await;
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(is_error && text.contains(problem), "{text}");
        assert_eq!(value.get("structuredContent"), None, "{text}");
    }
}

/// Bytes that are not what was promised reach the caller, with what is wrong about them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_is_not_the_json_that_was_promised_is_shown_with_what_is_wrong() {
    let cases = [
        (
            r#"printf 'warning: x\n{"n": 1}\n'"#,
            "before the JSON it wrote `warning: x`",
            r#"{"n": 1}"#,
        ),
        (
            r#"printf '[note]\n\n[1]\n'"#,
            "before the JSON it wrote `[note]`",
            "[1]",
        ),
        (r#"printf '{"n": 1}\nbye\n'"#, "after the JSON it wrote `bye`", "bye"),
        (
            r#"printf 'hello \377 world'"#,
            "not UTF-8 (after 6 bytes)",
            "hello \u{fffd} world",
        ),
        (r"printf '\377\376[\000]\000'", "UTF-16", "[]"),
        ("echo no such table >&2", "is empty", "no such table"),
        (
            "echo '{\"n\": NaN}'",
            "not JSON: expected value at line 1 column 7",
            "NaN",
        ),
    ];
    for (script, problem, shown) in cases {
        let mut server = Server::running(script);
        server.definition.output = OutputKind::Json;
        let engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        let (text, is_error) = text(&outcome(&engine, &id).await);
        let log = format!("longhaul://task/{id}/log (longhaul task {id} --log)");
        assert!(
            is_error && text.starts_with("the command succeeded, but its output"),
            "{script}: {text}"
        );
        for part in [problem, shown, &log] {
            assert!(text.contains(part), "{script}: {part} is not in {text}");
        }
    }
    let mut server = Server::running(r#"printf '\357\273\277{"n": 1}'"#);
    server.definition.output = OutputKind::Json;
    let (value, _) = result(&server.run(json!({})).await);
    assert_eq!(value["structuredContent"], json!({"n": 1}));
    let server = Server::running(r"printf '\357\273\277hello'");
    assert_eq!(text(&server.run(json!({})).await), ("hello".to_owned(), false));
}

/// A command that leaves something else in the place of its record harms its own result at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_puts_in_the_place_of_its_record_is_replaced() {
    for planted in [
        "mkdir -p exit/x",
        "mkfifo exit",
        "rm exit.draft; mkdir exit.draft",
        "ln -s /nowhere exit",
    ] {
        let server = Server::running(&format!("cd /proc/$PPID/cwd && {planted}; echo done"));
        let engine = server.start().await;
        let id = create(&engine, json!({})).await.id.clone();
        let ended = outcome(&engine, &id).await;
        assert!(format!("{ended:?}").contains("done"), "{planted}: {ended:?}");
    }
}

/// Its output is read after the end of the command, too: else SIGPIPE would kill it with its next line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_running_may_go_on_writing() {
    let server = Server::running(
        "(i=0; until [ -e stop ]; do i=$((i+1)); echo $i > beats; echo tick; echo tock >&2; sleep 0.01; done; touch stopped) & echo started",
    );
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    outcome(&engine, &id).await;
    let beats = || -> u64 {
        let text = std::fs::read_to_string(server.file("beats")).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    };
    let before = beats();
    while beats() < before + 20 {
        tokio::task::yield_now().await;
    }
    std::fs::write(server.file("stop"), "").unwrap();
    while !server.file("stopped").exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_attempt_says_why_the_one_before_it_failed_and_leaves_its_log() {
    let mut server = Server::running(
        "[ -e again ] || { touch again; echo the disk is full >&2; exit 3; }; until [ -e go ]; do sleep 0.01; done; echo fine",
    );
    server.retry = Retry {
        attempts: 2,
        backoff: 10,
        on: vec![RetryOn::Error],
    };
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let status = |record: &Record| record.task.status.as_deref().unwrap_or_default().to_owned();
    let record = becomes(&engine, &id, |record| status(record).starts_with("attempt 2 started")).await;
    let expected = "attempt 2 started; attempt 1 failed: exit code 3: the disk is full";
    assert_eq!(status(&record), expected);
    let past = engine.attempts(&record.task, 0, 10).await.unwrap();
    assert_eq!(past[0].last_line.as_deref(), Some("the disk is full"));
    assert_eq!((past[0].pid, past[0].command[0].as_str()), (None, "sh"));
    // Written once the command has been started.
    let pid = async || engine.attempts(&record.task, 1, 1).await.unwrap()[0].pid;
    while pid().await.is_none() {
        tokio::task::yield_now().await;
    }
    std::fs::write(server.file("go"), "").unwrap();
    outcome(&engine, &id).await;
    let task = engine.get(&scope(), &id).await.unwrap().unwrap().task;
    let mut logs = Vec::new();
    for attempt in [None, Some(1), Some(2), Some(3), Some(0)] {
        let log = engine.read_log(&task, attempt, LogRange::default()).await.unwrap();
        logs.push(log.map(|log| log.text));
    }
    let log = |text: &str| Some(text.to_owned());
    assert_eq!(
        logs,
        [log("fine\n"), log("the disk is full\n"), log("fine\n"), None, None]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_next_attempt_is_awaited_the_status_says_why_the_last_one_failed() {
    let mut server = Server::running("echo looking; echo no such host >&2; exit 7");
    server.retry = Retry {
        attempts: 2,
        backoff: 3_600_000,
        on: vec![RetryOn::Error],
    };
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let record = becomes(&engine, &id, |record| {
        record.task.attempts_used == 1 && record.task.active_attempt().is_none()
    })
    .await;
    let status = record.task.status.unwrap();
    assert_eq!(&*status, "attempt 1 failed: sh exited with code 7: no such host");
}
