//! What a client does with the definition of a tool: headers that mirror arguments, and the schema of results.

use crate::{changes::ManualClock, peer::Peer};
use longhaul_client::{CallResponse, Client, Outcome, RequestError};
use serde_json::{Map, Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A modern server with one tool, which returns `result`, as a task if `is_task`.
fn server(tool: Value, result: Value, is_task: bool) -> Peer {
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        })),
        "tools/list" => seen.result(json!({"tools": [tool]})),
        "tools/call" if is_task => {
            seen.result(json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": null}))
        }
        "tools/call" => seen.result(result.clone()),
        _ => seen.result(json!({
            "resultType": "complete", "taskId": "t", "status": "completed", "ttlMs": null, "result": result,
        })),
    })
}

async fn call(peer: &Peer) -> Result<Outcome, RequestError> {
    let (connection, _) = peer.connection_with(|options| options.max_response = 10 << 20);
    let tools = connection.list_tools().await?;
    match connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await? {
        CallResponse::Done(outcome) => Ok(outcome),
        CallResponse::Task(task) => task.wait(&mut |_| {}).await,
    }
}

/// An error names what is wrong, and carries the result; nothing is fetched for a schema.
#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_is_an_error_with_the_result() {
    let library = Peer::start(|seen| seen.result(Value::Null));
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let remote = json!({"$ref": library.url()});
    let deep = json!({"allOf": vec![number.clone(); 10_000]});
    let look_around = json!({"type": "object", "properties": {"n": {"pattern": "(?=.*[A-Z])(?=.*\\d).{8,}"}}});
    // Asks for 2^40 steps.
    let step =
        |n: usize| json!({"anyOf": [{"$ref": format!("#/$defs/a{}", n + 1)}, {"$ref": format!("#/$defs/a{}", n + 1)}]});
    let mut steps: Map<_, _> = (0..40).map(|n| (format!("a{n}"), step(n))).collect();
    steps.insert("a40".to_owned(), json!({"minLength": 5}));
    let endless = json!({"properties": {"n": {"$ref": "#/$defs/a0"}}, "$defs": steps});
    let long = "a".repeat(200_000);
    let cases: [(&Value, Value, Option<&str>); 13] = [
        (&number, json!({"structuredContent": {"n": 1}}), None),
        (
            &number,
            json!({"structuredContent": {"n": "one"}}),
            Some("\"one\" is not of type \"integer\" at /n"),
        ),
        (
            &number,
            json!({"structuredContent": {}}),
            Some("\"n\" is a required property"),
        ),
        (
            &number,
            json!({"structuredContent": null}),
            Some("it has no `structuredContent`"),
        ),
        (&number, json!({}), Some("it has no `structuredContent`")),
        (&number, json!({"isError": true}), None),
        (&remote, json!({"structuredContent": {}}), None),
        (&deep, json!({"structuredContent": {}}), None),
        (&Value::Null, json!({}), None),
        (&look_around, json!({"structuredContent": {"n": long}}), None),
        (&endless, json!({"structuredContent": {"n": "x"}}), None),
        (&number, json!({"structuredContent": {"n": 1, "more": long}}), None),
        (
            &number,
            json!({"structuredContent": {"n": "one", "more": long}}),
            Some("\"one\" is not of type \"integer\" at /n"),
        ),
    ];
    for (schema, mut result, expected) in cases {
        result["content"] = json!([]);
        for is_task in [false, true] {
            let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema});
            match (call(&server(tool, result.clone(), is_task)).await, expected) {
                (Ok(Outcome::Result { json, .. }), None) => {
                    assert_eq!(serde_json::from_str::<Value>(json.as_str()).unwrap(), result);
                }
                (
                    Err(RequestError::InvalidOutput {
                        reason,
                        result: carried,
                    }),
                    Some(expected),
                ) => {
                    assert_eq!(reason, expected);
                    assert_eq!(serde_json::from_str::<Value>(carried.as_str()).unwrap(), result);
                }
                (other, _) => panic!("{result}: {other:?}"),
            }
        }
    }
    assert!(library.seen().is_empty());
}

#[tokio::test]
async fn arguments_are_mirrored_in_the_headers_that_the_server_wants_now() {
    let annotated = |header: &str| {
        let property = json!({"type": "string", "x-mcp-header": header});
        json!({"name": "t", "inputSchema": {"type": "object", "properties": {"place": property}}})
    };
    let (before, after) = (annotated("Region"), annotated("Zone"));
    let listed = Arc::new(AtomicUsize::new(0));
    let peer = Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        "tools/list" if listed.fetch_add(1, Ordering::Relaxed) == 0 => seen.result(json!({"tools": [before]})),
        "tools/list" => seen.result(json!({"tools": [after]})),
        _ if seen.header("mcp-param-zone") == Some("=?base64?Z3LDtsOfZQ==?=") => seen.result(json!({"content": []})),
        _ => seen.error(400, -32020, Value::Null),
    });
    let (connection, _) = peer.connection();
    let tool = connection.list_tools().await.unwrap().remove(0);
    let arguments = |place: &str| Map::from_iter([("place".to_owned(), place.into())]);
    connection
        .call_tool(&tool, &arguments("größe"), &mut |_| {})
        .await
        .unwrap();
    let calls = peer.calls_of("tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].header("mcp-param-region"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(calls[1].header("mcp-param-region"), None);

    // What is refused with the right headers, too, is an error; and so is what the list has no other headers for.
    for (tool, calls) in [(tool, 4), (connection.list_tools().await.unwrap().remove(0), 5)] {
        let refused = connection
            .call_tool(&tool, &arguments("x"), &mut |_| {})
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, RequestError::Rpc(failure) if failure.code == -32020),
            "{refused}"
        );
        assert_eq!(peer.calls_of("tools/call").len(), calls);
    }
}

/// A server whose tool has another header in each list, and which says this of its lists. It accepts the header of the latest list alone.
fn changing(hints: Value) -> Peer {
    let listed = AtomicUsize::new(0);
    Peer::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({"supportedVersions": ["2026-07-28"]})),
        "tools/list" => {
            let header = format!("Place-{}", listed.fetch_add(1, Ordering::SeqCst));
            let property = json!({"type": "string", "x-mcp-header": header});
            let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"place": property}}});
            let mut list = hints.clone();
            list["tools"] = json!([tool]);
            seen.result(list)
        }
        _ => {
            let wanted = format!("mcp-param-place-{}", listed.load(Ordering::SeqCst) - 1);
            match seen.header(&wanted) {
                Some(_) => seen.result(json!({"content": []})),
                None => seen.error(400, -32020, Value::Null),
            }
        }
    })
}

/// [`Client`] uses the tools that its connection has listed, and no others.
#[tokio::test]
async fn a_client_and_its_connection_have_one_list_of_tools() {
    let peer = changing(json!({}));
    let client = Client::new(peer.connection().0);
    let call = async || client.call("t", json!({"place": "x"})).await.unwrap();
    let counts = || (peer.calls_of("tools/list").len(), peer.calls_of("tools/call").len());
    call().await;
    call().await;
    assert_eq!(counts(), (1, 2), "the list is used again");
    // Listed by the connection, the tool has another header, which the client uses at once.
    client.connection().list_tools().await.unwrap();
    call().await;
    assert_eq!(counts(), (2, 3));
    assert!(client.connection().tool("other").await.unwrap().is_none());
    assert_eq!(counts(), (3, 3), "an unknown tool may be new");
    call().await;
    assert_eq!(counts(), (3, 4));
}

/// The list is used for as long as the server allows, also by [`Client`].
#[tokio::test]
async fn a_client_lists_the_tools_again_when_their_time_is_over() {
    let peer = changing(json!({"ttlMs": 5_000}));
    let clock = Arc::new(ManualClock::default());
    let (connection, _) = peer.connection_with(|options| options.clock = clock.clone());
    let client = Client::new(connection);
    let call = async || client.call("t", json!({"place": "x"})).await.unwrap();
    for (now, lists) in [(0, 1), (4_999, 1), (5_000, 2), (9_999, 2), (10_000, 3)] {
        clock.set(now);
        call().await;
        assert_eq!(peer.calls_of("tools/list").len(), lists, "at {now}");
    }
    assert_eq!(peer.calls_of("tools/call").len(), 5);
}
