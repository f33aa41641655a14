//! What a parent's journal says of a child is read as it was written.

use longhaul_core::{ChildEntry, Failure, Json, Outcome, RpcFailure};

#[test]
fn an_entry_is_read_as_it_was_written() {
    let error = |data: Option<&str>| {
        Outcome::RpcError(RpcFailure {
            code: -32_000,
            message: "not \"here\"\n\u{1F40C}".into(),
            data: data.map(Json::trusted),
        })
    };
    let outcomes = [
        None,
        Some(Outcome::Cancelled),
        // As the tool gave it, byte for byte (invariant 8).
        Some(Outcome::result(Json::trusted("{\"content\" : [ ],  \"n\":1.50e1}"))),
        Some(Outcome::tool_error("no")),
        Some(error(None)),
        Some(error(Some(r#"{ "why": [1, 2] }"#))),
        Some(Failure::Interrupted.into()),
    ];
    for outcome in outcomes {
        let written = ChildEntry {
            task: "t1".parse().unwrap(),
            outcome,
        };
        let json = written.to_json();
        assert_eq!(Json::parse(json.as_str()).as_ref(), Ok(&json));
        assert_eq!(ChildEntry::from_json(&json).unwrap(), written, "{}", json.as_str());
    }
}

#[test]
fn what_is_no_entry_is_refused() {
    for text in [
        "null",
        "{}",
        r#"{"task":""}"#,
        r#"{"task":"t1","ended":"lost"}"#,
        r#"{"task":"t1","ended":{"error":{}}}"#,
    ] {
        assert!(ChildEntry::from_json(&Json::trusted(text)).is_err(), "{text}");
    }
}
