//! What a server offers: handshakes and lists, in both generations.

use crate::{
    fixture::{FRESH, respond, server_info},
    schema,
};
use longhaul_core::{Json, TaskPolicy};
use longhaul_wire::{
    Generation, ListCapability, ListKind, OutputSchema, RelayedCapabilities, ResourcesCapability, ServerCapabilities,
    ToolEntry, Version, legacy, modern,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn legacy_versions() -> impl Iterator<Item = Version> {
    let legacy = |version: &Version| version.generation() == Generation::Legacy;
    Version::ALL.into_iter().filter(legacy)
}

fn listed() -> impl Strategy<Value = Option<ListCapability>> {
    proptest::option::of(any::<bool>().prop_map(|list_changed| ListCapability { list_changed }))
}

fn features() -> impl Strategy<Value = ServerCapabilities> {
    let watched = |(list_changed, subscribe)| ResourcesCapability {
        list_changed,
        subscribe,
    };
    let resources = proptest::option::of(any::<(bool, bool)>().prop_map(watched));
    let parts = (
        listed(),
        resources,
        listed(),
        any::<(bool, bool, bool, (bool, Option<u64>))>(),
        0..3_usize,
    );
    parts.prop_map(
        |(
            tools,
            resources,
            prompts,
            (completions, logging, tasks, (idempotency, idempotency_retention)),
            extensions,
        )| {
            let extension = |nth| (format!("com.example/{nth}").into(), Json::from(json!({"nth": nth})));
            ServerCapabilities {
                tools,
                resources,
                prompts,
                completions,
                logging,
                tasks,
                task_list: tasks,
                idempotency,
                idempotency_retention,
                extensions: (0..extensions).map(extension).collect(),
                relayed: RelayedCapabilities::default(),
            }
        },
    )
}

/// The shared capabilities as the schemas describe them.
fn expected(features: &ServerCapabilities) -> Value {
    let flag = |object: &mut Value, name: &str, set: bool| {
        if set {
            object[name] = json!(true);
        }
    };
    let mut capabilities = json!({});
    for (name, kind) in [("tools", features.tools), ("prompts", features.prompts)] {
        if let Some(kind) = kind {
            capabilities[name] = json!({});
            flag(&mut capabilities[name], "listChanged", kind.list_changed);
        }
    }
    if let Some(kind) = features.resources {
        capabilities["resources"] = json!({});
        flag(&mut capabilities["resources"], "listChanged", kind.list_changed);
        flag(&mut capabilities["resources"], "subscribe", kind.subscribe);
    }
    for (name, offered) in [("completions", features.completions), ("logging", features.logging)] {
        if offered {
            capabilities[name] = json!({});
        }
    }
    capabilities
}

/// The extensions of Longhaul and of the author, with those of MCP. The time is an integer that every client can read.
fn extensions(features: &ServerCapabilities, of_mcp: Value) -> Value {
    let mut extensions = json!({});
    for (name, settings) in features.extensions.iter() {
        extensions[&**name] = serde_json::from_str(settings.as_str()).unwrap();
    }
    if features.tasks {
        extensions["dev.longhaul/deletion"] = json!({});
        extensions
            .as_object_mut()
            .unwrap()
            .extend(of_mcp.as_object().unwrap().clone());
    }
    if features.tasks && features.idempotency {
        extensions["dev.longhaul/idempotency"] = match features.idempotency_retention {
            Some(retention) => json!({"cancel": true, "retentionMs": retention.min(9_007_199_254_740_991)}),
            None => json!({"cancel": true}),
        };
    }
    extensions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Exactly what is offered is declared, tasks in each generation's own way.
    #[test]
    fn both_handshakes_declare_exactly_what_is_offered(features in features()) {
        for version in legacy_versions() {
            let got = respond(|out| legacy::handshake::write_initialize(out, version, &features, &server_info()));
            schema::check("25:res:InitializeResult", &got);
            let mut expected = expected(&features);
            if features.tasks || !features.extensions.is_empty() {
                expected["experimental"] = extensions(&features, json!({}));
            }
            if features.tasks && version == Version::V2025_11_25 {
                expected["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            }
            prop_assert_eq!(&got["result"]["capabilities"], &expected);
        }
        let got = respond(|out| modern::handshake::write_discover(out, &features, FRESH, &server_info()));
        schema::check("26:res:DiscoverResult", &got);
        let mut expected = expected(&features);
        if features.tasks || !features.extensions.is_empty() {
            expected["extensions"] = extensions(&features, json!({"io.modelcontextprotocol/tasks": {}}));
        }
        prop_assert_eq!(&got["result"]["capabilities"], &expected);
    }
}

/// One tool as each generation is shown it.
#[test]
fn tools_are_listed_with_all_members() {
    let full = ToolEntry {
        name: "t",
        title: Some("T"),
        description: Some("d"),
        input_schema: r#"{"type":"object"}"#,
        output_schema: OutputSchema::OfTool(r#"{"type":"array"}"#),
        annotations: Some(r#"{"readOnlyHint":true}"#),
        icons: Some(r#"[{"src":"https://acme.example/t.png","sizes":["48x48"]}]"#),
        meta: Some(r#"{"com.acme/k":1}"#),
        listed: None,
        policy: TaskPolicy::Always,
    };
    let shared = json!({
        "name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
        "icons": [{"src": "https://acme.example/t.png", "sizes": ["48x48"]}], "_meta": {"com.acme/k": 1},
    });
    for version in legacy_versions() {
        let got = respond(|out| legacy::tools::write_list(out, &[full, full], Some("c"), version));
        schema::check("25:res:ListToolsResult", &got);
        let mut expected = shared.clone();
        if version == Version::V2025_11_25 {
            expected["execution"] = json!({"taskSupport": "required"});
        }
        assert_eq!(got["result"], json!({"tools": [expected, expected], "nextCursor": "c"}));
    }
    let got = respond(|out| modern::tools::write_list(out, &[full, full], Some(""), FRESH, &server_info()));
    schema::check("26:res:ListToolsResult", &got);
    let mut expected = shared;
    expected["outputSchema"] = json!({"type": "array"});
    assert_eq!(got["result"]["tools"], json!([expected, expected]));
    assert_eq!(got["result"]["nextCursor"], "", "an empty cursor is one too");
}

/// Invariant 8: a tool of another server keeps every byte but its name and `execution`, in both generations.
#[test]
fn invariant_8_a_listed_tool_is_written_unchanged() {
    let members = r#""inputSchema": {"type":"object", "x": 1E2},"com.acme/later":[0.50,{"a" :null}]"#;
    let cases = [
        ("", r#","outputSchema":{"type":"object","n":1.0}"#, true),
        ("", r#","outputSchema":{"type":"array"}"#, false),
        (r#","execution":{"taskSupport":"forbidden","later":1}"#, "", false),
    ];
    for (execution, output, is_object) in cases {
        let listed = format!(r#"{{"name":"theirs"{execution},{members}{output}}}"#);
        let entry = ToolEntry {
            name: "ours",
            title: Some("not shown"),
            description: Some("not shown"),
            input_schema: r#"{"type":"object"}"#,
            output_schema: output
                .strip_prefix(r#","outputSchema":"#)
                .map_or(OutputSchema::None, OutputSchema::OfTool),
            annotations: None,
            icons: None,
            meta: None,
            listed: Some(&listed),
            policy: TaskPolicy::After(5),
        };
        let name = r#""name":"ours""#;
        // Who may get a hand-off is shown none.
        let hidden = ToolEntry {
            output_schema: OutputSchema::None,
            ..entry
        };
        let mut out = String::new();
        modern::tools::write_list(&mut out, &[hidden], None, FRESH, &server_info());
        assert!(out.contains(members) && !out.contains("outputSchema"), "{out}");
        let shown_to_legacy = if is_object { output } else { "" };
        for version in legacy_versions() {
            let mut out = String::new();
            legacy::tools::write_list(&mut out, &[entry, entry], None, version);
            let ours = r#""execution":{"taskSupport":"optional"}"#;
            let tool = match (version == Version::V2025_11_25, execution) {
                (true, "") => format!("{{{name},{members}{shown_to_legacy},{ours}}}"),
                (true, _) => format!("{{{name},{ours},{members}{shown_to_legacy}}}"),
                (false, _) => format!("{{{name},{members}{shown_to_legacy}}}"),
            };
            assert_eq!(out, format!(r#"{{"tools":[{tool},{tool}]}}"#));
        }
        let mut out = String::new();
        modern::tools::write_list(&mut out, &[entry], None, FRESH, &server_info());
        let tool = format!("{{{name},{members}{output}}}");
        assert!(out.contains(&format!(r#""tools":[{tool}]"#)), "{out}");
    }
}

/// Whole objects go out as they are, in both generations.
#[test]
fn list_entries_are_written_unchanged() {
    let resource = r#"{"uri":"acme://a","name":"a", "size":1E2,"icons":[],"annotations":{"priority":0.50}}"#;
    let template = r#"{"uriTemplate":"acme://{x}","name":"x","title":"X","mimeType":"text/plain","_meta":{}}"#;
    let prompt = r#"{"name":"p","arguments":[{"name":"q","required":true,"title":"Q"}]}"#;
    for (listing, definition, member, entry) in [
        (ListKind::Resources, "ListResourcesResult", "resources", resource),
        (
            ListKind::ResourceTemplates,
            "ListResourceTemplatesResult",
            "resourceTemplates",
            template,
        ),
        (ListKind::Prompts, "ListPromptsResult", "prompts", prompt),
    ] {
        for (entries, next) in [(&[][..], None), (&[entry][..], None), (&[entry, entry], Some("\"c\""))] {
            let plain = respond(|out| legacy::list::write(out, listing, entries, next));
            schema::check(&format!("25:res:{definition}"), &plain);
            let fresh = respond(|out| modern::list::write(out, listing, entries, next, FRESH, &server_info()));
            schema::check(&format!("26:res:{definition}"), &fresh);
            for got in [&plain["result"], &fresh["result"]] {
                assert_eq!(got[member].as_array().unwrap().len(), entries.len());
                assert_eq!(got.get("nextCursor").and_then(Value::as_str), next);
            }
            assert_eq!(
                (&fresh["result"]["ttlMs"], &fresh["result"]["cacheScope"]),
                (&json!(5), &json!("private"))
            );
        }
        let mut out = String::new();
        legacy::list::write(&mut out, listing, &[entry], None);
        assert!(out.contains(entry), "byte for byte: {out}");
    }
}
