//! Lists, switches, JSON and files in a command, and its standard input.

use crate::{definition, expand, names, with_elements};
use longhaul_command::CommandArgumentError;
use serde_json::{Value, json};

#[test]
fn a_list_stands_or_falls_with_its_values_and_repeats_for_an_array() {
    for (elements, given, expected) in [
        (
            json!([["--tag", "{maybe}"], "{x}"]),
            json!({"maybe": "a", "x": "b"}),
            json!(["--tag", "a", "b"]),
        ),
        (json!([["--tag", "{maybe}"], "{x}"]), json!({"x": "b"}), json!(["b"])),
        (
            json!([["--tag", "{maybe}"], "{x}"]),
            json!({"maybe": null, "x": "b"}),
            json!(["b"]),
        ),
        (
            json!([["--tag", "{maybe}"]]),
            json!({"maybe": ""}),
            json!(["--tag", ""]),
        ),
        (json!([["--tag", "{x}-{maybe}"]]), json!({"x": 1}), json!([])),
        (
            json!([["--tag", "{x}-{maybe}"]]),
            json!({"x": 1, "maybe": true}),
            json!(["--tag", "1-true"]),
        ),
        (
            json!([["--x", "{l}"]]),
            json!({"l": ["a", "b"]}),
            json!(["--x", "a", "--x", "b"]),
        ),
        (
            json!([["--x={l}"]]),
            json!({"l": ["a", 2, ""]}),
            json!(["--x=a", "--x=2", "--x="]),
        ),
        (json!([["--x", "{l}"], "end"]), json!({"l": []}), json!(["end"])),
        (
            json!([["{l}", "{x}", "{l}"]]),
            json!({"l": ["a", "b"], "x": 0}),
            json!(["a", "0", "a", "b", "0", "b"]),
        ),
        (json!([["--x", "{l}", "{maybe}"]]), json!({"l": ["a"]}), json!([])),
        (json!([["--x", "{l:json}"]]), json!({"l": []}), json!(["--x", "[]"])),
        (
            json!([["{l}", "{l:json}"]]),
            json!({"l": [1.0, 2]}),
            json!(["1.0", "[1,2]", "2", "[1,2]"]),
        ),
    ] {
        let argv = expand(with_elements(elements.clone()), &given.to_string())
            .unwrap()
            .argv;
        assert_eq!(json!(argv[1..]), expected, "{elements} {given}");
    }
    use CommandArgumentError::*;
    for (elements, given, expected) in [
        (json!([["--tag", "{x}"]]), json!({}), Missing("x".into())),
        (
            json!([["{l}", "-n"]]),
            json!({"l": ["a", "-rf"]}),
            LeadingDash("l".into()),
        ),
        (json!([["--l", "{l}"]]), json!({"l": [["a"]]}), NotAWord("l".into())),
        (
            json!([["{l}", "{m}"]]),
            json!({"l": ["a"], "m": ["b"]}),
            ArrayInside("m".into()),
        ),
    ] {
        let found = expand(with_elements(elements.clone()), &given.to_string());
        assert_eq!(found.err(), Some(expected), "{elements} {given}");
    }
}

#[test]
fn a_switch_chooses_by_a_boolean() {
    let both = json!([{"if": "maybe", "then": ["-v", "{x}"], "else": ["-q"]}, "end"]);
    let argv = |elements: &Value, given: Value| {
        let expanded = expand(with_elements(elements.clone()), &given.to_string());
        expanded.map(|invocation| json!(invocation.argv[1..]))
    };
    for (given, expected) in [
        (json!({"maybe": true, "x": "a"}), json!(["-v", "a", "end"])),
        (json!({"maybe": false}), json!(["-q", "end"])),
        (json!({"maybe": null}), json!(["end"])),
        (json!({}), json!(["end"])),
    ] {
        assert_eq!(argv(&both, given.clone()), Ok(expected), "{given}");
    }
    let text = argv(&both, json!({"maybe": "true"}));
    assert_eq!(text, Err(CommandArgumentError::NotABoolean("maybe".into())));
    let required = argv(&json!([{"if": "x", "then": ["-v"]}]), json!({}));
    assert_eq!(required, Err(CommandArgumentError::Missing("x".into())));
}

#[test]
fn values_are_passed_as_json_and_as_files() {
    let mut wanted = with_elements(json!([
        "{x:json}",
        "--in=@{y:file}",
        "{maybe:file}",
        "{y:file}",
        "{z:file}"
    ]));
    wanted.stdin = "{y:json}\n".into();
    let given =
        r#"{"x": { "a\\\"" : [ 1.0, 1e2, 1.50, 1e300, "1.0 { ", null ] }, "y": "-rf\n\u0000", "z": [ true, 5.0 ]}"#;
    let found = expand(wanted, given).unwrap();
    let x = r#"{"a\\\"":[1,100,1.50,1e300,"1.0 { ",null]}"#;
    assert_eq!(
        found.argv[1..],
        [
            x,
            "--in=@/attempt/argument.1",
            "/attempt/argument.1",
            "/attempt/argument.2"
        ]
    );
    assert_eq!(found.stdin, "\"-rf\\n\\u0000\"\n");
    let files: Vec<_> = found.files.iter().map(|file| (&*file.name, &*file.contents)).collect();
    assert_eq!(files, [("argument.1", "-rf\n\0"), ("argument.2", "[true,5]\n")]);
    use CommandArgumentError::*;
    for (element, given, expected) in [
        ("{x:json}", "-3", Negative("x".into())),
        ("--x={x:json}", "[3.14159265358979323846]", Imprecise("x".into())),
        ("{x:file}", r#""\ud800""#, NotText("x".into())),
    ] {
        let found = expand(definition(&["p", element]), &format!(r#"{{"x": {given}}}"#));
        assert_eq!(found.err(), Some(expected), "{element} {given}");
    }
}

#[test]
fn all_arguments_with_their_defaults_can_be_the_standard_input() {
    let mut wanted = definition(&["p", "{n}", "{maybe}"]);
    wanted.stdin_json = true;
    wanted.integers = names(&["n"]);
    wanted.defaults = [("n".to_owned(), json!(5.0)), ("maybe".to_owned(), json!("d"))].into();
    for (given, argv, stdin) in [
        ("{}", &["5", "d"][..], r#"{"maybe":"d","n":5}"#),
        (r#"{"maybe": null, "n": 1e2}"#, &["100"], r#"{"maybe":null,"n":100}"#),
        (
            r#"{"maybe": "x", "o": { "b\"": [ 7.0 ] }}"#,
            &["5", "x"],
            r#"{"maybe":"x","n":5,"o":{"b\"":[7]}}"#,
        ),
    ] {
        let found = expand(wanted.clone(), given).unwrap();
        assert_eq!(found.argv[1..], *argv, "{given}");
        assert_eq!(found.stdin, format!("{stdin}\n"), "{given}");
    }
}
