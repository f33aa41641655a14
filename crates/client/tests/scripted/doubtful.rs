//! What may be an answer on a pipe: the true one is waited for, and every call ends.
#![expect(clippy::disallowed_methods, reason = "real pipes and processes are not simulated")]

use crate::{pipe::Server, unframed::with_id};
use serde_json::{Map, json};
use tokio::io::AsyncWriteExt as _;

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

/// A draft in a log, whose answer comes late once: the next draft is not believed at once.
#[tokio::test(start_paused = true)]
async fn a_mentioned_answer_that_was_wrong_is_not_believed_again() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let draft = br#"DEBUG: {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}"#;
        let answer = json!({"content": [{"type": "text", "text": "true"}]});
        let first = server.next().await;
        server.writer.write_all(&with_id(draft, &first)).await.unwrap();
        let second = server.next().await;
        server.writer.write_all(&with_id(draft, &second)).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        server.answer(&second, answer.clone()).await;
        server.answer(&first, answer).await;
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async || connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await.unwrap();
        call().await;
        call().await
    };
    let (second, ()) = tokio::join!(calls, script);
    assert!(format!("{second:?}").contains("true"), "{second:?}");
}

/// It may compute what it writes.
#[tokio::test(start_paused = true)]
async fn an_answer_over_several_lines_may_pause() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let request = server.next().await;
        for lines in [
            &b"{\n \"jsonrpc\":\"2.0\",\n \"id\":ID,\n \"result\":{"[..],
            b"  \"content\":[{\"type\":\"text\",\"text\":\"true\"}]",
            b" }\n}",
        ] {
            server.writer.write_all(&with_id(lines, &request)).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        }
    };
    let call = async {
        let tools = connection.list_tools().await.unwrap();
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
    };
    let (called, ()) = tokio::join!(call, script);
    assert!(format!("{called:?}").contains("true"), "{called:?}");
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
        // It was opened behind the notification, and its answer says that none of that will come.
        let third = server.next().await;
        server.answer(&third, json!({"content": []})).await;
        let fourth = server.next().await;
        let answer = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "?"}});
        server.send(&answer).await;
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        server.answer(&fourth, json!({"content": []})).await;
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async || connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
        tokio::select! {
            _ = call() => panic!("it was not answered"),
            _ = over => {}
        }
        call().await.unwrap();
        call().await.unwrap();
        call().await
    };
    let (called, ()) = tokio::join!(calls, script);
    assert!(called.is_ok(), "{called:?}");
}

/// Of a server that knows no notifications, and takes long to say so: requests have ids, and their methods are looked up at once.
#[tokio::test(start_paused = true)]
async fn an_unknown_method_is_not_that_of_a_call_before_the_notification() {
    let (connection, mut server) = Server::connected();
    let (cancelled, over) = tokio::sync::oneshot::channel();
    let (begun, is_open) = tokio::sync::oneshot::channel();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let long = server.next().await;
        begun.send(()).unwrap();
        server.next().await;
        cancelled.send(()).unwrap();
        // Each comes from a task of its own.
        let mut both = [server.next().await, server.next().await];
        both.sort_by_key(|message| message["method"] == "tools/call");
        server.answer(&both[1], json!({"content": []})).await;
        // It was opened behind the notification.
        let quick = server.next().await;
        server.answer(&quick, json!({"content": []})).await;
        tokio::time::sleep(std::time::Duration::from_secs(7)).await;
        let unknown = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "?"}});
        server.send(&unknown).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        server.answer(&long, json!({"content": []})).await;
    };
    let tools = async { connection.list_tools().await.unwrap() };
    let calls = async {
        let tools = tools.await;
        let call = async || connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await;
        let others = async {
            is_open.await.unwrap();
            tokio::select! {
                _ = call() => panic!("it was not answered"),
                _ = over => {}
            }
            call().await.unwrap();
            call().await.unwrap();
        };
        tokio::join!(call(), others).0
    };
    let (called, ()) = tokio::join!(calls, script);
    assert!(called.is_ok(), "{called:?}");
}

/// Only twice: then it is known how this server writes.
#[tokio::test(start_paused = true)]
async fn answers_behind_words_are_held_twice() {
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
    assert_eq!(held, [true, true, false]);
}
