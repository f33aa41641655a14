//! Answers on a pipe that are not one line of JSON, and what else servers print there.
#![expect(clippy::disallowed_methods, reason = "real pipes and processes are not simulated")]

use crate::pipe::Server;
use longhaul_client::RequestError;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt as _;

/// An answer that cannot be read is the answer to a request all the same. `ID` stands for its id; what the error must say.
const UNREADABLE: [(&[u8], &str); 14] = [
    (b"{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}", "no JSON"),
    (
        br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":NaN,"method":"m"}}}"#,
        "no JSON",
    ),
    (
        b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\x01b\"}]}}",
        "no JSON",
    ),
    (
        b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}}",
        "no JSON",
    ),
    (
        br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"error":{"code":1,"message":""}}"#,
        "its answer",
    ),
    (br#"{"jsonrpc":"2.0","id":ID,"result":{"content":["#, "no JSON"),
    (
        br#"{"jsonrpc":"2.0","id":ID.0,"result":{"content":[]}}"#,
        "its answer",
    ),
    (
        b"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"result\": {\n    \"content\": \"a\nb\"\n  }\n}",
        "has no end",
    ),
    // No line ends.
    (b"{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}NO_END", "no JSON"),
    (br#"{"jsonrpc":"2.0","id":{"n":1},"result":{"content":[]}}"#, "id"),
    (
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"out of memory"}}"#,
        "out of memory",
    ),
    (
        b"DEBUG: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"n\":NaN}}",
        "no JSON",
    ),
    (
        b"{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\nb\"}]},\"jsonrpc\":\"2.0\",\"id\":ID}",
        "not one line",
    ),
    (
        b"\xff\xfe{\0\"\0j\0s\0o\0n\0r\0p\0c\0\"\0:\0\"\x002\0.\x000\0\"\0,\0\"\0i\0d\0\"\0:\0ID\0,\0\"\0r\0e\0s\0u\0l\0t\0\"\0:\0{\0}\0}\0",
        "UTF-16",
    ),
];

fn with_id(line: &[u8], request: &Value) -> Vec<u8> {
    let (id, mut out, mut rest) = (request["id"].to_string(), Vec::new(), line);
    while let Some(at) = rest.windows(2).position(|two| two == b"ID") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(id.as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    match out.strip_suffix(b"NO_END") {
        Some(line) => line.to_vec(),
        None => [&out[..], b"\n"].concat(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_cannot_be_read_fails_with_what_is_wrong() {
    for (line, expected) in UNREADABLE {
        let (connection, mut server) = Server::connected();
        let script = async {
            server.discovered().await;
            server.listed().await;
            let request = server.next().await;
            server.writer.write_all(&with_id(line, &request)).await.unwrap();
            // The connection is still of use.
            server.listed().await;
        };
        let call = async {
            let tools = connection.list_tools().await.unwrap();
            let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
            let error = called.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            connection.list_tools().await.unwrap();
        };
        let both = tokio::time::timeout(std::time::Duration::from_secs(20), async { tokio::join!(call, script) });
        both.await
            .unwrap_or_else(|_| panic!("nothing after {}", String::from_utf8_lossy(line)));
    }
}

/// It is not known whose the answer was: what is answered before the probe or soon after it is not in doubt, and the others fail.
#[tokio::test(start_paused = true)]
async fn an_answer_that_can_be_of_several_calls_fails_those_that_are_open_after_a_probe() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let calls = [
            server.next().await,
            server.next().await,
            server.next().await,
            server.next().await,
        ];
        let call = |n: u32| {
            let mut calls = calls.iter();
            calls.find(|call| call["params"]["arguments"]["n"] == n).unwrap()
        };
        for line in [
            &b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"x\":NaN}}\n"[..],
            b"caf\xe9 is noise\n",
        ] {
            server.writer.write_all(line).await.unwrap();
        }
        let probe = server.next().await;
        assert_eq!(probe["method"], "ping");
        server.answer(call(1), json!({"content": []})).await;
        server
            .send(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": -32601, "message": "?"}}))
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        server.answer(call(4), json!({"content": []})).await;
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async |n: u32| {
            let arguments = Map::from_iter([("n".to_owned(), n.into())]);
            connection.call_tool(&tools[0], &arguments, &mut |_| {}).await
        };
        tokio::join!(call(1), call(2), call(3), call(4))
    };
    let ((one, two, three, four), ()) = tokio::join!(calls, script);
    assert!(one.is_ok() && four.is_ok(), "{one:?} {four:?}");
    for failed in [two, three] {
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("one of 3 requests that were open"), "{error}");
    }
}

/// Whether the server answers the probe makes no difference then.
#[tokio::test(start_paused = true)]
async fn an_answer_that_can_be_of_two_calls_is_that_of_the_one_that_is_left() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let calls = [server.next().await, server.next().await];
        let unclear = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "boom"}});
        server.send(&unclear).await;
        assert_eq!(server.next().await["method"], "ping");
        let other = calls.iter().find(|call| call["params"]["arguments"]["n"] == 2).unwrap();
        server.answer(other, json!({"content": []})).await;
        server.next().await
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async |n: u32| {
            let arguments = Map::from_iter([("n".to_owned(), n.into())]);
            connection.call_tool(&tools[0], &arguments, &mut |_| {}).await
        };
        let begun = tokio::time::Instant::now();
        let answered = tokio::join!(call(1), call(2));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        answered
    };
    let ended = tokio::select! {
        ended = calls => ended,
        more = script => panic!("{more}"),
    };
    assert!(ended.0.is_err() && ended.1.is_ok(), "{ended:?}");
}

/// Our ids are whole numbers from 1, so such an answer is nobody's.
#[tokio::test]
async fn an_answer_whose_id_cannot_be_ours_ends_no_call() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let call = server.next().await;
        for id in [r#""zzz""#, "-1", "99999999999999999999999"] {
            for other in [r#""result":{"content":[]}"#, r#""error":{"code":1,"message":"?"}"#] {
                let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{other}}}\n");
                server.writer.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        server
            .answer(&call, json!({"content": [{"type": "text", "text": "ours"}]}))
            .await;
    };
    let call = async {
        let tools = connection.list_tools().await.unwrap();
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
    };
    let (called, ()) = tokio::join!(call, script);
    assert!(format!("{called:?}").contains("ours"), "{called:?}");
}

/// What a server may make of an answer that is one line.
fn misplaced(answer: &str) -> Vec<Vec<u8>> {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let value: Value = serde_json::from_str(answer).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let with = |member: &str, other: Value| {
        let mut value = value.clone();
        value[member] = other;
        format!("{value}\n").into_bytes()
    };
    vec![
        with("id", value["id"].to_string().into()),
        with("error", Value::Null),
        format!("Result: {pretty}\n").into_bytes(),
        format!("{answer}{note}\n").into_bytes(),
        format!("{note} {answer}\n").into_bytes(),
        format!("DEBUG: {answer}\n").into_bytes(),
        format!("set {{1}} {{\"a\":1}}: {answer}\n").into_bytes(),
        format!("{pretty}\n").into_bytes(),
        pretty.clone().into_bytes(),
        format!("{{\n a: 'it\"s',\n{pretty}\n").into_bytes(),
        format!("{answer}\r").into_bytes(),
        answer.as_bytes().to_vec(),
        format!("10%\r{note}\r{answer}\r").into_bytes(),
        format!("> {answer}").into_bytes(),
        format!("{note}{answer}").into_bytes(),
        format!("{}\n", with_lines_between(&pretty, note)).into_bytes(),
        format!(
            "{}\n",
            pretty.replace("\n ", "\n").replace("\n ", "\n").replace("  ", "")
        )
        .into_bytes(),
        format!("{}\n", answer.replacen(",", ",\n", 1)).into_bytes(),
        format!("{{\n  {}\n", &answer[1..]).into_bytes(),
    ]
}

/// With notifications, records of a log and lines for people between its lines.
fn with_lines_between(pretty: &str, note: &str) -> String {
    let mut lines: Vec<&str> = pretty.lines().collect();
    for between in [note, r#"{"level":30,"id":5,"msg":"x"}"#, "INFO 5\" disk"] {
        lines.insert(2, between);
    }
    lines.join("\n")
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_one_line_is_read() {
    let answer = json!({"content": [{"type": "text", "text": "a \"b\" }{"}], "structuredContent": {"x": [{}]}});
    for nth in 0..misplaced(r#"{"a":1,"b":[1]}"#).len() {
        let (connection, mut server) = Server::connected();
        let script = async {
            server.discovered().await;
            server.listed().await;
            let request = server.next().await;
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": answer});
            let written = &misplaced(&answer.to_string())[nth];
            server.writer.write_all(written).await.unwrap();
            server.listed().await;
        };
        let call = async {
            let tools = connection.list_tools().await.unwrap();
            let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
            assert!(format!("{called:?}").contains("structuredContent"), "{nth}: {called:?}");
            connection.list_tools().await.unwrap();
        };
        let both = tokio::time::timeout(std::time::Duration::from_secs(20), async { tokio::join!(call, script) });
        both.await.unwrap_or_else(|_| panic!("nothing after the form {nth}"));
    }
}

/// Of programs that print what they work with.
#[tokio::test]
async fn what_a_good_server_prints_besides_ends_no_call() {
    let noise = [
        "{'id': 3, 'title': 'Issue'}",
        "{'status': 500, 'error': 'x'}",
        r#"{"id":3,"title":"Issue"}"#,
        r#"{"level":"error","error":"x","msg":"y"}"#,
        r#"LSP <- {"jsonrpc":"2.0","id":9999,"result":{"foo":1}}"#,
        r#"{"jsonrpc":"2.0","id":9999,"result":{"foo":1}}"#,
        "{\n  a: 1,\n  b: { c: [ 1 ] }\n}",
        "{",
        r#"{"level":"warn","id":"job-a1","error":"retrying"}"#,
        r#"{"level":"warn","id":null,"error":"retrying"}"#,
        r#"{"time":1,"id":42,"event":"job","result":"ok"}"#,
        r#"{"jsonrpc":"2.0","id":12345,"msg":"request done"}"#,
        "{'jsonrpc': '2.0', 'id': 5, 'result': None}",
        "[{'id': 5, 'name': 'a'}, {'id': 6}]",
        r#"[{"v":NaN}]"#,
        "[{} items] loaded",
        // Of the true answer, which follows.
        "{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}",
        "{'id': ID,\n 'jsonrpc': '2.0',\n 'result': {'content': []}}",
        r#"{"level":20,"out":{"jsonrpc":"2.0","id":ID,"result":{}}}"#,
        r#"DEBUG out={"jsonrpc":"2.0","id":ID,"result":"[Object]"}"#,
        r#"debug: sending {"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"WRONG"}}"#,
        r#"debug: got {"jsonrpc":"2.0","method":"tools/call","params":{},"id":ID}"#,
    ];
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        for _ in noise {
            let request = server.next().await;
            for line in noise {
                server
                    .writer
                    .write_all(&with_id(line.as_bytes(), &request))
                    .await
                    .unwrap();
            }
            server
                .answer(&request, json!({"content": [{"type": "text", "text": "true"}]}))
                .await;
        }
    };
    let call = async {
        let tools = connection.list_tools().await.unwrap();
        for _ in noise {
            let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
            assert!(format!("{called:?}").contains("true"), "{called:?}");
        }
    };
    tokio::join!(call, script);
}

/// A server that answers notifications, which it may not: the calls that run are not meant.
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_notification_ends_no_call() {
    for answer in [
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found: notifications/cancelled"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "?"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "?"}}),
        json!({"jsonrpc": "2.0", "id": null, "result": {}}),
        json!({"jsonrpc": "2.0", "result": {}}),
    ] {
        let (connection, mut server) = Server::connected();
        let (cancelled, over) = tokio::sync::oneshot::channel();
        let script = async {
            server.discovered().await;
            server.listed().await;
            let calls = [server.next().await, server.next().await];
            cancelled.send(()).unwrap();
            assert_eq!(server.next().await["method"], "notifications/cancelled");
            server.send(&answer).await;
            // Longer than a better answer is waited for.
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            let other = calls.iter().find(|call| call["params"]["arguments"]["n"] == 2).unwrap();
            server.answer(other, json!({"content": []})).await;
        };
        let calls = async {
            let tools = connection.list_tools().await.unwrap();
            let call = async |n: u32| {
                let arguments = Map::from_iter([("n".to_owned(), n.into())]);
                connection.call_tool(&tools[0], &arguments, &mut |_| {}).await
            };
            let first = async {
                tokio::select! {
                    _ = call(1) => panic!("it was not answered"),
                    _ = over => {}
                }
            };
            tokio::join!(first, call(2)).1
        };
        let (called, ()) = tokio::join!(calls, script);
        assert!(called.is_ok(), "{answer}: {called:?}");
    }
}

/// What a server writes when it is killed is no answer: the call may be made again.
#[tokio::test]
async fn an_answer_that_was_cut_is_a_lost_connection() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let request = server.next().await;
        let cut = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":["#, request["id"]);
        server.writer.write_all(cut.as_bytes()).await.unwrap();
        drop(server);
    };
    let call = async {
        let tools = connection.list_tools().await.unwrap();
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
    };
    let (called, ()) = tokio::join!(call, script);
    assert!(
        matches!(called, Err(RequestError::Unreachable { connected: true, .. })),
        "{called:?}"
    );
}

/// Each may be the answer, and is not: progress follows, or the true answer is on its way.
#[tokio::test(start_paused = true)]
async fn what_may_be_an_answer_is_none_if_the_call_goes_on() {
    let doubtful = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"a refresh has failed"}}"#,
        r#"[up] <- {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#,
        "{'jsonrpc': '2.0', 'id': ID, 'result': {'content': []}}",
    ];
    for line in doubtful {
        for is_written_slowly in [false, true] {
            let (connection, mut server) = Server::connected();
            let script = async {
                server.discovered().await;
                server.listed().await;
                let request = server.next().await;
                server
                    .writer
                    .write_all(&with_id(line.as_bytes(), &request))
                    .await
                    .unwrap();
                let answer = json!({"content": [{"type": "text", "text": "true"}]});
                if is_written_slowly {
                    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": answer}).to_string();
                    let (begin, end) = answer.split_at(40);
                    server.writer.write_all(begin.as_bytes()).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
                    server.writer.write_all(format!("{end}\n").as_bytes()).await.unwrap();
                } else {
                    let token = &request["params"]["_meta"]["progressToken"];
                    let params = json!({"progressToken": token, "progress": 1});
                    server
                        .send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                        .await;
                    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                    server.answer(&request, answer).await;
                }
            };
            let call = async {
                let tools = connection.list_tools().await.unwrap();
                connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
            };
            let (called, ()) = tokio::join!(call, script);
            assert!(format!("{called:?}").contains("true"), "{line}: {called:?}");
        }
    }
}

/// Such as a server that sends its progress from another thread: what was an answer is taken for one in the end.
#[tokio::test(start_paused = true)]
async fn progress_behind_the_only_answer_does_not_lose_it() {
    for (line, expected) in [
        (r#"> {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#, "Ok("),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"boom"}}"#,
            "boom",
        ),
    ] {
        let (connection, mut server) = Server::connected();
        let script = async {
            server.discovered().await;
            server.listed().await;
            let request = server.next().await;
            let line = with_id(line.as_bytes(), &request);
            server.writer.write_all(&line).await.unwrap();
            let params = json!({"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1});
            server
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                .await;
            server.next().await
        };
        let call = async {
            let tools = connection.list_tools().await.unwrap();
            let called = connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
            assert!(format!("{called:?}").contains(expected), "{called:?}");
        };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(300), async {
            tokio::select! {
                () = call => {}
                more = script => panic!("{more}"),
            }
        });
        ended.await.unwrap_or_else(|_| panic!("nothing after {line}"));
    }
}

/// A draft in a log, whose answer comes late once, and then soon.
#[tokio::test(start_paused = true)]
async fn a_mentioned_answer_that_was_wrong_is_not_believed_again() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        for seconds in [6, 1] {
            let request = server.next().await;
            let draft = br#"DEBUG: {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#;
            server.writer.write_all(&with_id(draft, &request)).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
            let answer = json!({"content": [{"type": "text", "text": "true"}]});
            server.answer(&request, answer).await;
        }
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async || connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
        let first = call().await;
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        (first, call().await)
    };
    let ((_, second), ()) = tokio::join!(calls, script);
    assert!(format!("{second:?}").contains("true"), "{second:?}");
}

/// A record within an answer may be an answer of the same id.
#[tokio::test(start_paused = true)]
async fn a_response_within_an_answer_over_several_lines_is_not_the_answer() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let request = server.next().await;
        let lines = b"{\n \"jsonrpc\":\"2.0\",\n \"id\":ID,\n \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"true\"}],\"seen\":\n  {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}\n }\n}";
        server.writer.write_all(&with_id(lines, &request)).await.unwrap();
    };
    let call = async {
        let tools = connection.list_tools().await.unwrap();
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
    };
    let (called, ()) = tokio::join!(call, script);
    assert!(format!("{called:?}").contains("true"), "{called:?}");
}

/// Of a server with threads.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_notification_ends_no_call() {
    let (connection, mut server) = Server::connected();
    let (cancelled, over) = tokio::sync::oneshot::channel();
    let script = async {
        server.discovered().await;
        server.listed().await;
        server.next().await;
        cancelled.send(()).unwrap();
        // Each comes from a task of its own.
        let mut both = [server.next().await, server.next().await];
        both.sort_by_key(|message| message["method"] == "tools/call");
        assert_eq!(both[0]["method"], "notifications/cancelled");
        server.answer(&both[1], json!({"content": []})).await;
        let third = server.next().await;
        let answer = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "?"}});
        server.send(&answer).await;
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        server.answer(&third, json!({"content": []})).await;
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async || connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
        tokio::select! {
            _ = call() => panic!("it was not answered"),
            _ = over => {}
        }
        call().await.unwrap();
        call().await
    };
    let (called, ()) = tokio::join!(calls, script);
    assert!(called.is_ok(), "{called:?}");
}

/// Only the first time: then it is known how this server writes.
#[tokio::test(start_paused = true)]
async fn answers_behind_words_are_held_once() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        for _ in 0..3 {
            let request = server.next().await;
            let answer = br#"> {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#;
            server.writer.write_all(&with_id(answer, &request)).await.unwrap();
        }
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let mut held = Vec::new();
        for _ in 0..3 {
            let begun = tokio::time::Instant::now();
            connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
            held.push(begun.elapsed() >= std::time::Duration::from_secs(1));
        }
        held
    };
    let (held, ()) = tokio::join!(calls, script);
    assert_eq!(held, [true, false, false]);
}
