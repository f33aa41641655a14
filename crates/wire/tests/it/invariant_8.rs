//! Invariant 8: JSON we do not understand is spliced around, never re-serialized.

use crate::fixture::{FRESH, NINE, done, request, server_info, task};
use longhaul_core::{Json, Outcome};
use longhaul_wire::{legacy, modern};
use proptest::prelude::*;

/// JSON as other programs write it: odd blanks, odd escapes, odd numbers, members in any order, one of them twice.
fn foreign_members() -> impl Strategy<Value = Vec<String>> {
    let blank = || prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("\r\n  ")];
    let value = prop_oneof![
        Just(r#""\u00e9\/\ud83d\ude00""#.to_owned()),
        Just("\"é😀\"".to_owned()),
        Just("1.0E+2".to_owned()),
        Just("-0".to_owned()),
        Just("100000000000000000000000000000001".to_owned()),
        Just("0.10000000000000000000".to_owned()),
        Just(r#"{ "z" : 1 , "a" : [ ] , "z" : null }"#.to_owned()),
        Just(r#"[ "}" , "\"," , {"_meta":{"io.modelcontextprotocol/related-task":1}} ]"#.to_owned()),
        "[ -~]{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let member = ("(x|y|content|isError|\\\\u0078|Meta)", blank(), blank(), value, blank())
        .prop_map(|(key, a, b, value, c)| format!("{a}\"{key}\"{b}:{c}{value}"));
    proptest::collection::vec(member, 0..6)
}

proptest! {
    #[test]
    fn invariant_8_what_we_do_not_understand_survives_byte_for_byte(
        outer in foreign_members(),
        inner in foreign_members(),
        place in any::<prop::sample::Index>(),
        has_meta in any::<bool>(),
        has_related in any::<bool>(),
    ) {
        let mut inner_members = inner.clone();
        if has_related {
            inner_members.insert(place.index(inner.len() + 1), r#""io.modelcontextprotocol/related-task":{"taskId":"foreign"}"#.into());
        }
        let mut members = outer.clone();
        if has_meta {
            members.insert(place.index(outer.len() + 1), format!("\"_meta\" : {{{}}}", inner_members.join(",")));
        }
        let stored = format!("{{{}}}", members.join(" ,"));
        let outcome = Outcome::result(Json::parse(&stored).unwrap());
        let record = done(task("tsk_1", 60_000), outcome.clone());
        let asking = request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);

        let mut payload = String::new();
        legacy::tasks::write_payload(&mut payload, asking.id, &record.task.id, None, &outcome);
        let mut called = String::new();
        modern::tools::write_called(&mut called, asking.id, &Json::trusted(stored.as_str()), &server_info());
        let given = Json::trusted(stored.as_str());
        let mut read = String::new();
        modern::result::write(&mut read, asking.id, &given, Some(FRESH), &server_info());
        let mut plain = String::new();
        legacy::result::write_cacheable(&mut plain, asking.id, &given);
        let mut got = String::new();
        modern::tasks::write_get(&mut got, &record, None, &server_info(), NINE);

        for (written, where_) in [(&payload, "payload"), (&called, "called"), (&got, "got"), (&read, "read"), (&plain, "plain")] {
            prop_assert!(serde_json::from_str::<serde_json::Value>(written).is_ok(), "{} {}", where_, written);
            let mut from = 0;
            let pieces = if has_meta { [&outer[..], &inner[..]].concat() } else { outer.clone() };
            for piece in &pieces {
                prop_assert!(written.contains(piece.trim_start()), "{} lost {:?}: {}", where_, piece, written);
            }
            // And in their order.
            for piece in &outer {
                let found = written[from..].find(piece.trim_start());
                prop_assert!(found.is_some(), "{} moved {:?}: {}", where_, piece, written);
                from += found.unwrap_or(0);
            }
        }
        let tied = payload.contains(r#""io.modelcontextprotocol/related-task":{"taskId":"tsk_1"}"#);
        prop_assert!(tied, "{}", payload);
        prop_assert!(!payload.contains("foreign"));
        prop_assert!(!got.contains("foreign"));
    }
}

#[test]
fn invariant_8_untouched_results_are_the_same_bytes() {
    let stored = r#"{ "content" : [ ] , "x":1.0E+2,"resultType":"complete", "_meta" : { "io.modelcontextprotocol/serverInfo" : 1 } }"#;
    let asking = request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    let mut out = String::new();
    modern::tools::write_called(&mut out, asking.id, &Json::trusted(stored), &server_info());
    assert_eq!(out, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{stored}}}"#));
}
