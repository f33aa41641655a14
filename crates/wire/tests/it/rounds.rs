//! Rounds of questions on a request itself (MRTR).

use crate::{
    fixture::{respond, server_info},
    schema,
};
use longhaul_wire::modern;
use serde_json::{Value, json};

/// Questions, a state, both, and never neither.
#[test]
fn a_round_has_input_requests_or_a_state() {
    let elicit = r#"{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let sample = r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}"#;
    let roots = r#"{"method":"roots/list"}"#;
    let both = [("a", elicit), ("b\"", sample), ("c", roots)];
    for (requests, state) in [
        (&both[..], Some("v1.\"x\"")),
        (&both[..1], None),
        (&[], Some("")),
        (&[], None),
    ] {
        let got = respond(|out| {
            modern::input_required::write(out, requests.iter().copied(), state, &server_info());
        });
        schema::check("26:res:InputRequiredResult", &got);
        let result = &got["result"];
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "acme-tasks"
        );
        assert_eq!(result.get("requestState").and_then(|state| state.as_str()), state);
        let shown = result.get("inputRequests");
        assert_eq!(shown.is_some(), !requests.is_empty() || state.is_none());
        let shown = shown.map_or(json!({}), Clone::clone);
        schema::check("26:msg:InputRequests", &shown);
        assert_eq!(shown.as_object().unwrap().len(), requests.len());
        for (key, request) in requests {
            assert_eq!(shown[key], serde_json::from_str::<Value>(request).unwrap());
        }
    }
}
