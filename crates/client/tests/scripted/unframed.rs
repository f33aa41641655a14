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

pub(crate) fn with_id(line: &[u8], request: &Value) -> Vec<u8> {
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
        let both = tokio::time::timeout(std::time::Duration::from_secs(60), async { tokio::join!(call, script) });
        both.await
            .unwrap_or_else(|_| panic!("nothing after {}", String::from_utf8_lossy(line)));
    }
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
        // What it is asked.
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{},"id":ID}"#,
        "recv {\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"method\": \"tools/call\"\n}",
        "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"method\": \"tools/call\"\n}",
        "if (ready) {",
        // What it works with.
        "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"result\": {\"content\": []}\n}",
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

/// A client of 2025-11-25 answers requests, and these are its own.
#[tokio::test]
async fn a_request_that_its_server_prints_is_not_answered() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.initialized().await;
        server.listed().await;
        for _ in 0..2 {
            let request = server.next().await;
            assert_eq!(request["method"], "tools/call");
            server.send(&request).await;
            server.answer(&request, json!({"content": []})).await;
        }
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        for _ in 0..2 {
            connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
        }
    };
    tokio::join!(calls, script);
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
