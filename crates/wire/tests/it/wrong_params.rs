//! Params with a mistake, and what is said about it.

use longhaul_wire::{Params, RpcError};
use serde_json::json;

#[test]
fn errors_about_params_name_the_member_and_the_expected_type() {
    type View = fn(&Params<'_>) -> Result<(), RpcError>;
    let call: View = |params| params.call_tool().map(drop);
    let wish: View = |params| params.task_metadata().map(drop);
    let task: View = |params| params.task_id().map(drop);
    let update: View = |params| params.update_task().map(drop);
    let initialize: View = |params| params.initialize().map(drop);
    let cursor: View = |params| params.cursor().map(drop);
    let uri: View = |params| params.uri().map(drop);
    let cancelled: View = |params| params.cancelled().map(drop);
    let progress: View = |params| params.progress().map(drop);
    let prompt: View = |params| params.get_prompt().map(drop);
    let read: View = |params| params.read_resource().map(drop);
    let complete: View = |params| params.complete().map(drop);
    let level: View = |params| params.set_level().map(drop);
    let listen: View = |params| params.listen().map(drop);
    let levels = "params.level must be one of debug, info, notice, warning, error, critical, alert, emergency";
    let most = "params.notifications.taskIds must be an array of at most 1000 strings";
    let crowd: Vec<String> = (0..=1_000).map(|nth| format!("t{nth}")).collect();
    let cheer: serde_json::Map<_, _> = crowd.iter().map(|key| (key.clone(), json!({}))).collect();
    for (view, params, says) in [
        (call, json!({}), "params.name is missing: it must be a string"),
        (call, json!({"name": 5}), "params.name must be a string"),
        (
            call,
            json!({"name": "t", "arguments": [1]}),
            "params.arguments must be an object",
        ),
        (
            call,
            json!({"name": "t", "inputResponses": 1}),
            "params.inputResponses must be an object",
        ),
        (
            call,
            json!({"name": "t", "requestState": {}}),
            "params.requestState must be a string",
        ),
        (
            call,
            json!({"name": "t", "inputResponses": {"a": 1}}),
            "params.inputResponses.a must be an object",
        ),
        (
            update,
            json!({"taskId": "t", "inputResponses": cheer}),
            "params.inputResponses holds more than 1000 answers",
        ),
        (prompt, json!({}), "params.name is missing: it must be a string"),
        (
            prompt,
            json!({"name": "p", "arguments": ["a"]}),
            "params.arguments must be an object",
        ),
        (
            prompt,
            json!({"name": "p", "arguments": {"a": "1", "b": 2}}),
            "params.arguments.b must be a string",
        ),
        (
            prompt,
            json!({"name": "p", "requestState": 1}),
            "params.requestState must be a string",
        ),
        (read, json!({}), "params.uri is missing: it must be a string"),
        (
            read,
            json!({"uri": "a:b", "inputResponses": []}),
            "params.inputResponses must be an object",
        ),
        (
            level,
            json!({}),
            &levels.replace("level must", "level is missing: it must"),
        ),
        (level, json!({"level": "loud"}), levels),
        (level, json!({"level": "Debug"}), levels),
        (level, json!({"level": 7}), levels),
        (complete, json!({}), "params.argument is missing: it must be an object"),
        (
            complete,
            json!({"argument": {"name": "a", "value": ""}}),
            "params.ref is missing: it must be an object",
        ),
        (
            complete,
            json!({"argument": {"name": "a"}, "ref": {"type": "ref/prompt", "name": "p"}}),
            "params.argument.value is missing: it must be a string",
        ),
        (
            complete,
            json!({"argument": {"name": "a", "value": ""}, "ref": {"type": "ref/tool", "name": "p"}}),
            "params.ref.type must be ref/prompt or ref/resource",
        ),
        (
            complete,
            json!({"argument": {"name": "a", "value": ""}, "ref": {"type": "ref/resource", "name": "p"}}),
            "params.ref.uri is missing: it must be a string",
        ),
        (
            complete,
            json!({"argument": {"name": "a", "value": ""}, "ref": {"type": "ref/prompt", "name": "p"}, "context": {"arguments": {"b": {}}}}),
            "params.context.arguments.b must be a string",
        ),
        (
            listen,
            json!({}),
            "params.notifications is missing: it must be an object",
        ),
        (
            listen,
            json!({"notifications": {"toolsListChanged": 1}}),
            "params.notifications.toolsListChanged must be true or false",
        ),
        (
            listen,
            json!({"notifications": {"resourceSubscriptions": "a:b"}}),
            "params.notifications.resourceSubscriptions must be an array of at most 1000 strings",
        ),
        (listen, json!({"notifications": {"taskIds": ["t", 5]}}), most),
        (listen, json!({"notifications": {"taskIds": crowd}}), most),
        (wish, json!({"task": true}), "params.task must be an object"),
        (
            wish,
            json!({"task": {"ttl": -1}}),
            "params.task.ttl must be a whole number of milliseconds, 0 or more",
        ),
        (
            wish,
            json!({"task": {"ttl": "1h"}}),
            "params.task.ttl must be a whole number of milliseconds, 0 or more",
        ),
        (
            task,
            json!({"taskId": null}),
            "params.taskId is missing: it must be a string",
        ),
        (task, json!({"taskId": ["t"]}), "params.taskId must be a string"),
        (
            update,
            json!({"taskId": "t"}),
            "params.inputResponses is missing: it must be an object",
        ),
        (
            update,
            json!({"taskId": "t", "inputResponses": []}),
            "params.inputResponses must be an object",
        ),
        (
            update,
            json!({"taskId": "t", "inputResponses": {"in-1": "yes"}}),
            "params.inputResponses.in-1 must be an object",
        ),
        (
            update,
            json!({"inputResponses": {}}),
            "params.taskId is missing: it must be a string",
        ),
        (
            initialize,
            json!({"protocolVersion": "2025-11-25"}),
            "params.capabilities is missing: it must be an object",
        ),
        (
            initialize,
            json!({"protocolVersion": "2025-11-25", "capabilities": "all"}),
            "params.capabilities must be an object",
        ),
        (
            initialize,
            json!({"capabilities": {}}),
            "params.protocolVersion is missing: it must be a string",
        ),
        (cursor, json!({"cursor": 7}), "params.cursor must be a string"),
        (uri, json!({"uri": {}}), "params.uri must be a string"),
        (
            cancelled,
            json!({}),
            "params.requestId is missing: it must be a string or an integer",
        ),
        (
            cancelled,
            json!({"requestId": 1.5}),
            "params.requestId must be a string or an integer",
        ),
        (
            progress,
            json!({"progressToken": 1, "progress": "half"}),
            "params.progress must be a number",
        ),
        (
            progress,
            json!({"progressToken": 1, "progress": 1, "total": []}),
            "params.total must be a number",
        ),
    ] {
        let raw = serde_json::value::to_raw_value(&params).unwrap();
        let error = view(&Params::read(Some(&raw)).unwrap()).unwrap_err();
        assert_eq!((error.code(), error.message()), (-32602, says));
    }
    for (text, says) in [
        (r#"{"taskId":"a","taskId":"b"}"#, "params holds taskId twice"),
        (
            r#"{"taskId":"a","inputResponses":{"k":{},"k":{}}}"#,
            "params.inputResponses answers k twice",
        ),
        (r#"{"task":{"ttl":1,"ttl":2}}"#, "params.task holds ttl twice"),
    ] {
        let raw = serde_json::from_str(text).unwrap();
        let read = Params::read(Some(raw));
        let error = read
            .and_then(|params| params.task_metadata().and(params.update_task().map(drop)))
            .unwrap_err();
        assert_eq!((error.code(), error.message()), (-32602, says));
    }
    // What is null counts as absent; what a tool does not read cannot be wrong.
    let raw = serde_json::from_str(r#"{"name":"t","arguments":null,"task":null,"cursor":null,"message":7}"#).unwrap();
    let params = Params::read(Some(raw)).unwrap();
    assert!(params.call_tool().unwrap().arguments.is_none() && params.task_metadata().unwrap().is_none());
    assert!(params.cursor().unwrap().is_none());
}
