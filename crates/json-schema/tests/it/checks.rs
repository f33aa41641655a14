//! Checks of values, at once and away from other work.

use longhaul_json_schema::{Schema, SchemaAuthor, Unchecked, Violation, off_thread, text_len};
use serde_json::{Map, Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{sync::Semaphore, task::JoinSet};

const OLD: &str = "http://json-schema.org/draft-07/schema#";
const NEW: &str = "https://json-schema.org/draft/2020-12/schema";

fn all(violations: &mut dyn Iterator<Item = Violation<'_>>) -> Vec<String> {
    violations
        .map(|violation| format!("{}: {violation}", violation.instance_path()))
        .collect()
}

fn at_once(schema: &Value, value: &Value) -> Option<Result<(), Vec<String>>> {
    let schema = Schema::compile(schema, SchemaAuthor::Own).expect("a usable schema");
    schema.check_now(value, text_len(value), all)
}

#[test]
fn guarded_references_mean_what_they_meant() {
    for draft in [OLD, NEW] {
        let schema = json!({"$schema": draft, "type": "object", "additionalProperties": false,
            "properties": {"list": {"$ref": "#/definitions/list"}, "$ref": {"const": {"$ref": "#"}}},
            "definitions": {"list": {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/pair"}]},
                "pair": {"type": "object", "required": ["head"], "properties": {"head": {"type": "integer"}, "tail": {"$ref": "#/definitions/list"}}}}});
        for value in [
            json!({}),
            json!({"list": null}),
            json!({"list": {"head": 1, "tail": {"head": 2}}}),
            json!({"$ref": {"$ref": "#"}}),
        ] {
            assert_eq!(at_once(&schema, &value), Some(Ok(())), "{value}");
        }
        for value in [
            json!({"list": 1}),
            json!({"list": {"head": 1, "tail": {"head": "x"}}}),
            json!({"$ref": 1}),
            json!({"more": 1}),
        ] {
            assert!(matches!(at_once(&schema, &value), Some(Err(_))), "{value}");
        }
    }
    // Beside a reference, only later drafts look at anything.
    let beside = |draft: &str| json!({"$schema": draft, "$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": {"type": "integer"}}});
    assert_eq!(at_once(&beside(OLD), &json!(1)), Some(Ok(())));
    assert!(matches!(at_once(&beside(NEW), &json!(1)), Some(Err(_))));
    assert_eq!(
        at_once(
            &json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}),
            &json!({"a": "x"})
        ),
        Some(Err(vec!["/a: \"x\" is not of type \"number\"".to_owned()]))
    );
}

/// Doubles at each step, so that 2^40 steps are asked for.
fn doubling(draft: &str) -> Value {
    let step = |n: usize| json!({"anyOf": [{"$ref": format!("#/definitions/a{}", n + 1)}, {"$ref": format!("#/definitions/a{}", n + 1)}]});
    let mut definitions: Map<_, _> = (0..40).map(|n| (format!("a{n}"), step(n))).collect();
    definitions.insert("a40".to_owned(), json!({"minLength": 5}));
    json!({"$schema": draft, "$ref": "#/definitions/a0", "definitions": definitions})
}

#[test]
fn a_check_that_would_not_end_is_ended() {
    for draft in [OLD, NEW] {
        let schema = Schema::compile(&doubling(draft), SchemaAuthor::Foreign).unwrap();
        assert_eq!(schema.check_now(&json!("x"), 3, all), None);
        assert_eq!(schema.check(&json!("x"), 3, all), Err(Unchecked));
    }
    // Whether a value fits is remembered for each part of it; what does not fit is not, so only its description would not end.
    let recursive = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]},
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["z"]},
    ]}}});
    let deep = (0..100).fold(json!({}), |inner, _| json!({"x": inner}));
    let schema = Schema::compile(&recursive, SchemaAuthor::Foreign).unwrap();
    assert_eq!(schema.check(&deep, text_len(&deep), all), Ok(Err(Vec::new())));
}

#[test]
fn a_check_that_needs_much_stack_is_ended() {
    let mut definitions: Map<_, _> = (0..900)
        .map(|n| (format!("a{n}"), json!({"$ref": format!("#/definitions/a{}", n + 1)})))
        .collect();
    definitions.insert(
        "a900".to_owned(),
        json!({"properties": {"x": {"$ref": "#/definitions/a0"}}}),
    );
    let deep = (0..100).fold(json!({}), |inner, _| json!({"x": inner}));
    for draft in [OLD, NEW] {
        let schema = json!({"$schema": draft, "$ref": "#/definitions/a0", "definitions": definitions});
        let schema = Schema::compile(&schema, SchemaAuthor::Own).unwrap();
        assert_eq!(schema.check_now(&deep, text_len(&deep), all), None);
        assert_eq!(schema.check(&deep, text_len(&deep), all), Err(Unchecked));
    }
}

#[test]
fn large_values_and_heavy_schemas_are_not_for_now() {
    let plain = Schema::compile(&json!({"type": "string"}), SchemaAuthor::Own).unwrap();
    assert!(plain.is_quick(60_000) && !plain.is_quick(100_000));
    let heavy = Schema::compile(&json!({"pattern": "^.{1,1000}$"}), SchemaAuthor::Own).unwrap();
    assert!(heavy.is_quick(200) && !heavy.is_quick(20_000));
    let long = json!("?".repeat(100_000));
    let pattern = Schema::compile(
        &json!({"items": {"type": "string"}, "pattern": "^[a-z]*$"}),
        SchemaAuthor::Own,
    )
    .unwrap();
    assert_eq!(pattern.check_now(&long, 100_002, all), None);
    // One violation, since a million of them would take much memory.
    let ones = Value::from(vec![1; 100_000]);
    let found = pattern.check(&ones, text_len(&ones), all).unwrap().unwrap_err();
    assert_eq!(found, ["/0: 1 is not of type \"string\""]);
    let alternatives = Schema::compile(
        &json!({"anyOf": [{"items": {"type": "string"}}]}),
        SchemaAuthor::Foreign,
    )
    .unwrap();
    assert_eq!(alternatives.check(&ones, text_len(&ones), all), Ok(Err(Vec::new())));
    assert_eq!(alternatives.check(&ones, 1 << 30, all), Err(Unchecked));
}

/// The pattern of a password, and a value for which a backtracking engine takes hours.
#[test]
fn long_texts_take_linear_time() {
    let schema = json!({"allOf": [{"pattern": "[A-Z]"}, {"pattern": r"\d"}, {"pattern": "(a|a)*b"}], "minLength": 8});
    let schema = Schema::compile(&schema, SchemaAuthor::Own).unwrap();
    let long = json!("a".repeat(2_000_000));
    assert_eq!(schema.check(&long, 2_000_002, all).unwrap().unwrap_err().len(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn long_checks_run_beside_other_work() {
    let schema = Arc::new(Schema::compile(&doubling(NEW), SchemaAuthor::Own).unwrap());
    let checks: Vec<_> = (0..3)
        .map(|_| Box::pin(off_thread(&schema, |schema| schema.check(&json!("x"), 3, all))))
        .collect();
    for check in checks {
        assert_eq!(check.await, Ok(Err(Unchecked)));
    }
    assert_eq!(off_thread(&schema, |_| 1).await, Ok(1));
}

/// Many slow checks against one schema, and then one against another.
#[tokio::test]
async fn checks_against_one_schema_do_not_hold_up_those_against_others() {
    let slow = Arc::new(Schema::compile(&doubling(NEW), SchemaAuthor::Own).unwrap());
    let other = Arc::new(Schema::compile(&json!({}), SchemaAuthor::Own).unwrap());
    let (ended, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let mut checks = JoinSet::new();
    for _ in 0..8 {
        let (slow, ended, started) = (Arc::clone(&slow), Arc::clone(&ended), Arc::clone(&started));
        checks.spawn(async move {
            let checked = off_thread(&slow, move |slow| {
                started.add_permits(1);
                slow.check(&json!("x"), 3, all)
            });
            assert_eq!(checked.await, Ok(Err(Unchecked)));
            ended.fetch_add(1, Ordering::SeqCst);
        });
    }
    let _ = started.acquire_many(2).await.unwrap();
    tokio::task::yield_now().await;
    let checked = off_thread(&other, |other| other.check(&json!("x"), 3, all)).await;
    assert_eq!(checked, Ok(Ok(Ok(()))));
    let before = ended.load(Ordering::SeqCst);
    assert!(before <= 4, "{before} slow checks came first");
    checks.abort_all();
    // Those that wait for no caller any more do not run; a panic is told to its own caller.
    let panicked = off_thread(&other, |_| -> u8 { panic!("as a test wants") }).await;
    assert!(panicked.is_err());
    assert_eq!(off_thread(&other, |_| 1).await, Ok(1));
}
