//! Results of handlers on their way to each generation.

use crate::{
    fixture::{FRESH, detailed_server_info, request, respond, server_info, short_info, written},
    schema,
};
use longhaul_core::{Json, RpcFailure};
use longhaul_wire::{
    CacheHints, ContentBody, ContentPage, LogPage, OutputPage, RequestId, ResourceContent, completion, legacy, modern,
};
use serde_json::{Value, json};

fn asking() -> RequestId<'static> {
    request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).id
}

#[test]
fn a_tools_result_matches_the_schemas() {
    let odd = Json::trusted(r#"{"content":[],"structuredContent":[1],"resultType":"complete","_meta":{"k":1}}"#);
    let got = written(|out| legacy::tools::write_called(out, asking(), &odd));
    schema::check("25:res:CallToolResult", &got);
    assert_eq!(got["result"], json!({"content": [], "_meta": {"k": 1}}));
    let plain = Json::trusted(r#"{"content":[],"structuredContent":[1]}"#);
    let got = written(|out| modern::tools::write_called(out, asking(), &plain, &server_info()));
    schema::check("26:res:CallToolResult", &got);
    assert_eq!(got["result"]["structuredContent"], json!([1]));
    let named = &got["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    assert_eq!(named, "acme-tasks");
}

/// Codes that only legacy revisions know stay there.
#[test]
fn a_tools_failure_keeps_its_code() {
    let failure = RpcFailure {
        code: -32042,
        message: "m".into(),
        data: None,
    };
    let legacy_code = written(|out| legacy::tools::write_failed(out, asking(), &failure));
    let modern_code = written(|out| modern::tools::write_failed(out, asking(), &failure));
    assert_eq!(
        (&legacy_code["error"]["code"], &modern_code["error"]["code"]),
        (&json!(-32042), &json!(-32603))
    );
}

#[test]
fn a_result_that_is_not_an_object_is_an_internal_error() {
    let broken = Json::trusted("[]");
    for answer in [
        written(|out| legacy::tools::write_called(out, asking(), &broken)),
        written(|out| modern::tools::write_called(out, asking(), &broken, &server_info())),
        written(|out| legacy::result::write(out, asking(), &broken)),
        written(|out| modern::result::write(out, asking(), &broken, Some(FRESH), &server_info())),
    ] {
        schema::check("25:msg:JSONRPCErrorResponse", &answer);
        assert_eq!(answer["error"]["code"], -32603);
    }
}

/// What a handler gave is what arrives, with what each generation adds or does not know.
#[test]
fn a_handlers_result_is_written_for_both_eras() {
    let prompt =
        json!({"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "Summarise."}}]});
    let contents = json!({"contents": [{"uri": "acme://a", "text": "x"}, {"uri": "acme://b", "blob": "AA=="}]});
    let completion = json!({"completion": {"values": ["a", "b"], "total": 2, "hasMore": false}});
    for (definition, given, cache) in [
        ("GetPromptResult", prompt, None),
        ("ReadResourceResult", contents, Some(FRESH)),
        ("CompleteResult", completion, None),
    ] {
        let modern = |given: &Value, cache: Option<CacheHints>| {
            let server_info = detailed_server_info();
            written(|out| modern::result::write(out, asking(), &Json::from(given), cache, &server_info))
        };
        let write = match cache {
            Some(_) => legacy::result::write_cacheable,
            None => legacy::result::write,
        };
        let legacy = |given: &Value| written(|out| write(out, asking(), &Json::from(given)));
        let got = legacy(&given);
        schema::check(&format!("25:res:{definition}"), &got);
        assert_eq!(got["result"], given);

        let got = modern(&given, cache);
        schema::check(&format!("26:res:{definition}"), &got);
        let mut expected = given.clone();
        expected["resultType"] = json!("complete");
        expected["_meta"] = json!({"io.modelcontextprotocol/serverInfo": short_info()});
        if cache.is_some() {
            expected["ttlMs"] = json!(5);
            expected["cacheScope"] = json!("private");
        }
        assert_eq!(got["result"], expected);

        // Modern members that a handler wrote are kept; a legacy client never gets them. In results without caching they have no
        // meaning, so they are left alone.
        let mut own = given.clone();
        own["ttlMs"] = json!(7);
        own["cacheScope"] = json!("public");
        let kept = if cache.is_some() { given } else { own.clone() };
        own["resultType"] = json!("complete");
        assert_eq!(legacy(&own)["result"], kept);
        assert_eq!(modern(&own, Some(FRESH))["result"]["ttlMs"], 7);
        assert_eq!(modern(&own, Some(FRESH))["result"]["cacheScope"], "public");
    }
}

#[test]
fn contents_have_their_position_in_what_they_are_of() {
    let content = ResourceContent {
        uri: "longhaul://task/a/log",
        mime_type: Some("text/plain"),
        body: ContentBody::Text("\u{0}\u{fffd}"),
        page: Some(ContentPage::Log(LogPage {
            offset: 3,
            next: u64::MAX,
            total: 0,
        })),
    };
    let got = respond(|out| legacy::resources::write_content(out, &content));
    schema::check("25:res:ReadResourceResult", &got);
    let got = respond(|out| modern::resources::write_content(out, &content, FRESH, &server_info()));
    schema::check("26:res:ReadResourceResult", &got);
    assert_eq!(
        got["result"]["contents"][0]["_meta"]["dev.longhaul/log"],
        json!({"offset": 3, "next": u64::MAX, "total": 0})
    );
    let content = ResourceContent {
        uri: "longhaul://task/a/artifacts/x",
        mime_type: None,
        body: ContentBody::Blob(b"\xff\0"),
        page: Some(ContentPage::Artifact {
            page: LogPage {
                offset: 0,
                next: 2,
                total: 9,
            },
            sha256: "ab",
        }),
    };
    let got = respond(|out| legacy::resources::write_content(out, &content));
    schema::check("25:res:ReadResourceResult", &got);
    let read = &got["result"]["contents"][0];
    let expected = json!({"offset": 0, "next": 2, "total": 9, "sha256": "ab"});
    assert_eq!(
        (&read["blob"], &read["_meta"]["dev.longhaul/artifact"]),
        (&json!("/wA="), &expected)
    );
}

/// A hundred values are enough, and the result says when there are more.
#[test]
fn a_completion_has_at_most_a_hundred_values() {
    let values: Vec<String> = (0..250).map(|nth| format!("\"{nth}\"")).collect();
    let none: [&str; 0] = [];
    let many = json!({"values": values[..100], "total": 250, "hasMore": true});
    for (result, expected) in [
        (completion::build_result(&values), many),
        (
            completion::build_result(&values[..100]),
            json!({"values": values[..100]}),
        ),
        (completion::build_result(&none), json!({"values": []})),
    ] {
        let got = written(|out| modern::result::write(out, asking(), &result, None, &server_info()));
        schema::check("26:res:CompleteResult", &got);
        assert_eq!(got["result"]["completion"], expected);
        let got = written(|out| legacy::result::write(out, asking(), &result));
        schema::check("25:res:CompleteResult", &got);
        assert_eq!(got["result"], json!({"completion": expected}));
    }
}

#[test]
fn a_tasks_output_is_read_block_by_block() {
    let task = "tsk_1".parse().unwrap();
    let blocks = [
        (2, r#"{"type":"text","text":"a \"b\""}"#),
        (3, r#"{"type":"audio","data":"AQID","mimeType":"audio/wav"}"#),
        (5, r#"{"type":"resource","resource":{"uri":"file:///a","text":"x"}}"#),
        (8, r#"{"type":"resource_link","uri":"file:///a","name":"a"}"#),
        (9, r#"{"type":"text","text":7}"#),
    ];
    let page = OutputPage {
        task: &task,
        blocks: &blocks,
        next: 9,
        total: 12,
    };
    let legacy = respond(|out| legacy::resources::write_output(out, &page));
    schema::check("25:res:ReadResourceResult", &legacy);
    let modern = respond(|out| modern::resources::write_output(out, &page, FRESH, &server_info()));
    schema::check("26:res:ReadResourceResult", &modern);
    assert!(modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    let at = |after| format!("longhaul://task/tsk_1/output?after={after}&limit=1");
    let as_json =
        |nth: usize| json!({"uri": at(blocks[nth].0 - 1), "mimeType": "application/json", "text": blocks[nth].1});
    for got in [legacy, modern] {
        assert_eq!(
            got["result"]["_meta"]["dev.longhaul/output"],
            json!({"next": 9, "total": 12})
        );
        assert_eq!(
            got["result"]["contents"],
            json!([
                {"uri": at(1), "mimeType": "text/plain", "text": "a \"b\""},
                {"uri": at(2), "mimeType": "audio/wav", "blob": "AQID"},
                {"uri": "file:///a", "text": "x"},
                as_json(3),
                as_json(4),
            ])
        );
    }
}
