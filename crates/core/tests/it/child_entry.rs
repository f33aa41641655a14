//! What a parent's journal says of a child is read as it was written.

use longhaul_core::{ChildEntry, Failure, Json, MAX_ENTRY_BYTES, Outcome, RpcFailure};

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

/// To the byte: what has room is there, what has not is said to be too long.
#[test]
fn an_end_is_kept_as_long_as_an_entry_may_be() {
    let task = "t1".parse().unwrap();
    let frame = ChildEntry::of_ended(&task, &result_of(0)).as_str().len();
    let whole = result_of(MAX_ENTRY_BYTES - frame);
    let kept = ChildEntry::of_ended(&task, &whole);
    assert_eq!(kept.as_str().len(), MAX_ENTRY_BYTES);
    assert_eq!(ChildEntry::from_json(&kept).unwrap().outcome, Some(whole));
    let bytes = MAX_ENTRY_BYTES + 1;
    let told = ChildEntry::from_json(&ChildEntry::of_ended(&task, &result_of(bytes - frame))).unwrap();
    assert_eq!(told.outcome, Some(Failure::TooLongForParent { bytes }.into()));
}

fn result_of(letters: usize) -> Outcome {
    Outcome::tool_error(&"x".repeat(letters))
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
