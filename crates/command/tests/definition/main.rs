//! Definitions and templates: what is refused and where, and what hostile arguments become.
#![allow(clippy::unwrap_used)]

mod elements;
mod secrets;
mod variables;

use longhaul_command::{
    Arguments, CommandArgumentError, CommandDefinition, CommandElement, CommandTool, DEFINITION_VERSION,
    DefinitionError, Invocation, OutputKind, StopSignal,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

fn definition(command: &[&str]) -> CommandDefinition {
    CommandDefinition {
        version: DEFINITION_VERSION,
        command: command.iter().map(|word| (*word).into()).collect(),
        env: [("TOKEN".to_owned(), "secret".to_owned())].into(),
        env_templates: Default::default(),
        env_from: Default::default(),
        env_file: None,
        cwd: "/tmp".into(),
        cwd_template: None,
        stdin: String::new(),
        stdin_json: false,
        defaults: Default::default(),
        allow_leading_dash: names(&["dash"]),
        secrets: Default::default(),
        integers: Default::default(),
        optional: names(&["maybe"]),
        allow_placeholders_in_scripts: false,
        output: OutputKind::Text,
        output_schema: None,
        progress: None,
        max_output: 1024,
        max_log: 4096,
        success: Default::default(),
        timeout_ms: None,
        stop: Default::default(),
        artifacts: None,
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn expand(definition: CommandDefinition, arguments: &str) -> Result<Invocation, CommandArgumentError> {
    CommandTool::new(definition, None)
        .unwrap()
        .expand(&Arguments::parse(arguments)?, Path::new("/attempt"))
}

fn argv(arguments: &[&str], given: serde_json::Value) -> Result<Vec<String>, CommandArgumentError> {
    let command = [&["program"], arguments].concat();
    let invocation = expand(definition(&command), &given.to_string())?;
    Ok(invocation.argv[1..].to_vec())
}

/// A definition with these elements behind the program.
fn with_elements(elements: Value) -> CommandDefinition {
    let mut wanted = definition(&["program"]);
    let elements: Vec<CommandElement> = serde_json::from_value(elements).unwrap();
    wanted.command.extend(elements);
    wanted
}

fn with_variables(variables: &[(&str, &str)]) -> CommandDefinition {
    let pairs = variables.iter();
    CommandDefinition {
        env_templates: pairs
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
        ..definition(&["cat"])
    }
}

fn refused(definition: CommandDefinition) -> String {
    let names = names(&["path", "maybe", "dash"]);
    CommandTool::new(definition, Some(&names)).err().unwrap().to_string()
}

#[test]
fn substitution_is_by_the_letter() {
    let table: &[(&[&str], serde_json::Value, &[&str])] = &[
        (
            &["{path}", "-type", "f", "{{}}", "+"],
            json!({"path": "/a b"}),
            &["/a b", "-type", "f", "{}", "+"],
        ),
        (&["--in={path}"], json!({"path": "-x y"}), &["--in=-x y"]),
        (&["a{x}b{x}c"], json!({"x": 1}), &["a1b1c"]),
        (&["--n={x}", "{dash}"], json!({"x": -3, "dash": -4}), &["--n=-3", "-4"]),
        (
            &["{x}", "{y}", "{z}"],
            json!({"x": 1.5, "y": true, "z": false}),
            &["1.5", "true", "false"],
        ),
        (&["{path}"], json!({"path": ""}), &[""]),
        (
            &["{list}", "end"],
            json!({"list": ["a", 2, true]}),
            &["a", "2", "true", "end"],
        ),
        (&["{list}", "end"], json!({"list": []}), &["end"]),
        (&["-n", "--with={maybe}", "{maybe}", "end"], json!({}), &["-n", "end"]),
        (&["{maybe}", "end"], json!({"maybe": null}), &["end"]),
        (
            &["{dash}", "{dash}"],
            json!({"dash": "-delete"}),
            &["-delete", "-delete"],
        ),
        (&["{dash}"], json!({"dash": ["-a", "b"]}), &["-a", "b"]),
        (&["{{{path}}}"], json!({"path": "x"}), &["{x}"]),
        (
            &["{path}"],
            json!({"path": "{other} $(id) ; `id` \n\"'\\"}),
            &["{other} $(id) ; `id` \n\"'\\"],
        ),
    ];
    for (arguments, given, expected) in table {
        assert_eq!(
            argv(arguments, given.clone()).as_deref(),
            Ok(&*expected.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()),
            "{arguments:?}"
        );
    }
}

#[test]
fn what_could_harm_is_refused() {
    use CommandArgumentError::*;
    let table: &[(&[&str], serde_json::Value, CommandArgumentError)] = &[
        (&["{path}"], json!({"path": "-delete"}), LeadingDash("path".into())),
        (&["{path}"], json!({"path": -5}), Negative("path".into())),
        (&["{path}"], json!({"path": [1, -5]}), Negative("path".into())),
        (&["{path}"], json!({"path": "-5"}), Negative("path".into())),
        (&["{path}"], json!({"path": "-.5e3"}), Negative("path".into())),
        (&["{path}"], json!({"path": "-inf"}), LeadingDash("path".into())),
        (&["{path}"], json!({"path": "-5.tar"}), LeadingDash("path".into())),
        (&["{path}"], json!({"path": ["a", "-exec"]}), LeadingDash("path".into())),
        // Whoever stands first in an argument makes it an option.
        (
            &["{path}.tar"],
            json!({"path": "--checkpoint-action=exec=id "}),
            LeadingDash("path".into()),
        ),
        (&["{a}{b}"], json!({"a": "", "b": "-x"}), LeadingDash("b".into())),
        (&["{path}"], json!({}), Missing("path".into())),
        (&["{path}"], json!({"path": null}), Missing("path".into())),
        (&["{path}"], json!({"path": {"a": 1}}), NotAWord("path".into())),
        (&["{path}"], json!({"path": [["a"]]}), NotAWord("path".into())),
        (&["{path}"], json!({"path": [null]}), NotAWord("path".into())),
        (&["{path}"], json!({"path": "a\0b"}), NotText("path".into())),
        (&["{path}"], json!({"path": ["a\0b"]}), NotText("path".into())),
        (&["--x={path}"], json!({"path": ["a"]}), ArrayInside("path".into())),
        (&["{path}"], json!([]), NotAnObject),
    ];
    for (arguments, given, expected) in table {
        assert_eq!(
            argv(arguments, given.clone()).as_ref(),
            Err(expected),
            "{arguments:?} {given}"
        );
    }
}

#[test]
fn numbers_keep_their_text() {
    let invocation = expand(definition(&["p", "{n}"]), r#"{"n": 12345678901234.10e1}"#).unwrap();
    assert_eq!(invocation.argv[1], "12345678901234.10e1");
}

/// What becomes of a number on its way to the command.
fn number(text: &str) -> Result<String, CommandArgumentError> {
    let given = format!(r#"{{"n": {text}}}"#);
    expand(definition(&["p", "n={n}"]), &given).map(|mut invocation| invocation.argv.remove(1))
}

/// The schema judges a 64-bit integer or a double: what the text says beyond that would pass unchecked.
#[test]
fn a_number_is_passed_as_it_was_checked_or_refused() {
    for exact in [
        "0",
        "-0",
        "0.0",
        "0e-99999999",
        "1",
        "1.50",
        "1e2",
        "100",
        "0.1",
        "-3",
        "1E+2",
        "18446744073709551615",
        "-9223372036854775808",
        "1e300",
        "5e-324",
        "0.30000000000000004",
        "123456789012345.6",
    ] {
        assert_eq!(number(exact), Ok(format!("n={exact}")));
    }
    for lossy in [
        "100.0000000000000000001",
        "1e-400",
        "18446744073709551616",
        "-9223372036854775809",
        "3.14159265358979323846",
        "123456789012345678901234567890",
        "0.1000000000000000000001",
        "1e-99999999999999999999",
        "9007199254740993.0",
    ] {
        assert_eq!(
            number(lossy),
            Err(CommandArgumentError::Imprecise("n".into())),
            "{lossy}"
        );
    }
    let listed = expand(definition(&["p", "{n}"]), r#"{"n": [1, 100.0000000000000000001]}"#);
    assert_eq!(listed, Err(CommandArgumentError::Imprecise("n".into())));
}

#[test]
fn stdin_is_a_template_too() {
    let mut wanted = definition(&["cat"]);
    wanted.stdin = "{{{text}}}\n{maybe}".into();
    assert_eq!(expand(wanted.clone(), r#"{"text": "-a"}"#).unwrap().stdin, "{-a}\n");
    assert_eq!(
        expand(wanted, r#"{"text": ["a"]}"#),
        Err(CommandArgumentError::ArrayInside("text".into()))
    );
}

#[test]
fn a_wrong_definition_is_refused_with_its_place() {
    for (elements, expected) in [
        (json!(["a", []]), "`command` element 3: an empty list gives no argument"),
        (
            json!([["-a", "b"]]),
            "`command` element 2: a list appears only if its placeholders have a value, and this one has no placeholder: write \"-a\", \"b\" without the brackets",
        ),
        (
            json!([["-a", "{nobody}"]]),
            "`command` element 2, column 1: `{nobody}` names no property",
        ),
        (json!([{"if": "nobody", "then": ["a"]}]), "`if` names `nobody`"),
        (json!([{"if": "path"}]), "`command` element 2: a switch needs arguments"),
    ] {
        let said = refused(with_elements(elements));
        assert!(said.starts_with(expected), "{said}");
    }
    let at = |command: &[&str]| refused(definition(command));
    assert_eq!(
        at(&["find", "{path}", "x{pth}"]),
        "`command` element 3, column 2: `{pth}` names no property of the input; there is `dash`, `maybe`, `path`"
    );
    assert_eq!(
        at(&["find", "äö{path"]),
        "`command` element 2, column 3: `{` is never closed; write `{name}` for a property, `{{` for a literal brace"
    );
    assert_eq!(
        at(&["find", "path}"]),
        "`command` element 2, column 5: `}` closes nothing; write `}}` for a literal brace"
    );
    assert_eq!(
        at(&["find", "{}"]),
        "`command` element 2, column 1: `{}` names no property; write `{name}` for a property, `{{}}` for literal braces"
    );
    assert_eq!(
        at(&["curl", "-d", "{\"a\": 1}"]),
        "`command` element 3, column 1: `{\"a\": 1}` names no property of the input; for braces as they stand write `{{\"a\": 1}}`"
    );
    assert_eq!(
        at(&["{path}"]),
        "`command` element 1: the program is taken literally, so `{path}` would not be replaced; name a program"
    );
    assert_eq!(at(&[]), "`command` needs a program: its first element, a text");
    assert!(at(&["find", "a\0"]).contains("NUL"));
    assert_eq!(
        refused(CommandDefinition {
            stdin: "{nobody}".into(),
            ..definition(&["cat"])
        }),
        "`stdin`, column 1: `{nobody}` names no property of the input; there is `dash`, `maybe`, `path`"
    );
    assert!(
        refused(CommandDefinition {
            allow_leading_dash: names(&["nobody"]),
            ..definition(&["cat"])
        })
        .starts_with("`allow_leading_dash` names `nobody`")
    );
    assert!(
        refused(CommandDefinition {
            optional: names(&["nobody"]),
            ..definition(&["cat"])
        })
        .starts_with("`optional` names `nobody`")
    );
    assert!(
        refused(CommandDefinition {
            cwd: "here".into(),
            ..definition(&["cat"])
        })
        .contains("absolute")
    );
    assert!(
        refused(CommandDefinition {
            env: [("A=B".into(), "c".into())].into(),
            ..definition(&["cat"])
        })
        .starts_with("`env`")
    );
    assert!(
        refused(CommandDefinition {
            progress: Some("(".into()),
            ..definition(&["cat"])
        })
        .starts_with("`progress`")
    );
    assert!(
        refused(CommandDefinition {
            progress: Some(r"\d".into()),
            ..definition(&["cat"])
        })
        .contains("`current`")
    );
    assert_eq!(
        refused(with_variables(&[("A", "{nobody}")])),
        "`env.A`, column 1: `{nobody}` names no property of the input; there is `dash`, `maybe`, `path`"
    );
    for wrong in [
        CommandDefinition {
            cwd_template: Some("{nobody}".into()),
            ..definition(&["cat"])
        },
        CommandDefinition {
            env_file: Some("here".into()),
            ..definition(&["cat"])
        },
        CommandDefinition {
            env_from: names(&["A=B"]),
            ..definition(&["cat"])
        },
    ] {
        let said = refused(wrong);
        assert!(
            ["`cwd`, column 1", "`env_file` must be", "`env`: the name `A=B`"]
                .iter()
                .any(|part| said.starts_with(part)),
            "{said}"
        );
    }
    let schema = Some(json!({"type": "object"}));
    assert!(
        refused(CommandDefinition {
            output_schema: schema,
            ..definition(&["cat"])
        })
        .contains("output = \"json\"")
    );
    let schema = Some(json!({"type": 5}));
    assert!(
        refused(CommandDefinition {
            output: OutputKind::Json,
            output_schema: schema,
            ..definition(&["cat"])
        })
        .starts_with("`output_schema`")
    );
}

#[test]
fn a_definition_survives_storage_and_a_newer_one_is_refused_whole() {
    let mut stored = definition(&["find", "{path}"]);
    assert_eq!(CommandDefinition::from_json(&stored.to_json()).unwrap(), stored);
    // Equal to what an earlier release stored, which did not know these.
    let text = stored.to_json();
    assert!(
        ["success", "timeout", "stop"].iter().all(|key| !text.contains(key)),
        "{text}"
    );
    stored.success = [0, 3].into_iter().collect();
    stored.timeout_ms = Some(600_000);
    stored.stop.signal = StopSignal::Int;
    assert_eq!(CommandDefinition::from_json(&stored.to_json()).unwrap(), stored);
    stored.output = OutputKind::Json;
    stored.output_schema = Some(json!({"type": "object"}));
    stored.progress = Some("(?<current>x)".into());
    stored.stdin = "{path}".into();
    stored.env_templates = [("A".to_owned(), "{path}".to_owned())].into();
    stored.env_from = names(&["TOKEN"]);
    stored.env_file = Some("/tmp/env".into());
    stored.cwd_template = Some("{path}".into());
    assert_eq!(CommandDefinition::from_json(&stored.to_json()).unwrap(), stored);
    let mut elements =
        with_elements(json!([["-t", "{path}"], {"if": "maybe", "then": ["-v"]}, {"if": "maybe", "else": ["-q"]}]));
    elements.stdin_json = true;
    elements.defaults = [("path".to_owned(), json!([1, null]))].into();
    assert_eq!(CommandDefinition::from_json(&elements.to_json()).unwrap(), elements);
    let as_written =
        r#""command":["program",["-t","{path}"],{"if":"maybe","then":["-v"]},{"if":"maybe","else":["-q"]}]"#;
    assert!(elements.to_json().contains(as_written), "{}", elements.to_json());

    let mut newer: serde_json::Value = serde_json::from_str(&stored.to_json()).unwrap();
    newer["sandbox"] = json!("strict");
    let same_version = CommandDefinition::from_json(&newer.to_string());
    assert!(
        matches!(same_version, Err(DefinitionError::Malformed(_))),
        "an unknown field is not dropped"
    );
    newer["version"] = json!(2);
    newer["command"] = json!("find");
    assert!(matches!(
        CommandDefinition::from_json(&newer.to_string()),
        Err(DefinitionError::NewerVersion { found: 2 })
    ));
}

/// Tasks of earlier releases are stored with this text.
#[test]
fn a_definition_without_new_keys_has_the_text_that_it_always_had() {
    let text = r#"{"version":1,"command":["find","{path}"],"env":{"TOKEN":"secret"},"cwd":"/tmp","stdin":"json","allow_leading_dash":["dash"],"optional":["maybe"],"output":"text","max_output":1024,"max_log":4096}"#;
    let mut expected = definition(&["find", "{path}"]);
    expected.stdin = "json".into();
    assert_eq!(CommandDefinition::from_json(text).unwrap(), expected);
    assert_eq!(expected.to_json(), text);
    assert_eq!(expand(expected, r#"{"path": "a"}"#).unwrap().stdin, "json");
}

proptest! {
    /// However hostile the values: each stays in the one argument it was meant for, whole, and never makes an option of it.
    #[test]
    fn values_stay_in_their_place(
        before in "[ -~]{0,8}", value in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..5), after in "[ -~]{0,8}",
    ) {
        let escape = |text: &str| text.replace('{', "{{").replace('}', "}}");
        let template = format!("{}{{v}}{}", escape(&before), escape(&after));
        let given = json!({"v": value, "list": list});
        let hostile = |text: &str, first: bool| text.contains('\0') || (first && text.starts_with('-'));
        let refused = hostile(&value, before.is_empty()) || list.iter().any(|element| hostile(element, true));
        match argv(&[&template, "fixed", "{list}"], given) {
            Ok(words) => {
                prop_assert!(!refused);
                let expected = [format!("{before}{value}{after}"), "fixed".to_owned()].into_iter().chain(list).collect::<Vec<_>>();
                prop_assert_eq!(words, expected);
            }
            Err(_) => prop_assert!(refused),
        }
    }

    /// A list appears once for each element, whole, and its values are as they are beside it.
    #[test]
    fn lists_repeat_for_each_element_whatever_it_is(
        list in proptest::collection::vec("[ -~é]{0,6}", 0..5), given in proptest::option::of("[ -~é]{0,6}"),
    ) {
        let wanted = with_elements(json!([["--l", "x{l}"], ["--m", "y{maybe}"], ["{dash}", "={l}={maybe}"]]));
        let arguments = json!({"l": list, "maybe": given, "dash": "-"}).to_string();
        let argv = expand(wanted, &arguments).unwrap().argv;
        let mut expected = vec!["program".to_owned()];
        expected.extend(list.iter().flat_map(|element| ["--l".to_owned(), format!("x{element}")]));
        if let Some(given) = given {
            expected.extend(["--m".to_owned(), format!("y{given}")]);
            expected.extend(list.iter().flat_map(|element| ["-".to_owned(), format!("={element}={given}")]));
        }
        prop_assert_eq!(argv, expected);
    }

    /// JSON keeps its value, and loses the blanks outside of its strings.
    #[test]
    fn json_keeps_its_value(text in any::<String>(), whole in any::<i32>(), integer in any::<i64>()) {
        let value = json!({"a": [text, f64::from(whole), integer, [], {}], (&*text): null});
        let given = format!(r#"{{"v": {}}}"#, serde_json::to_string_pretty(&value).unwrap());
        let found = expand(definition(&["p", "x={v:json}"]), &given).unwrap().argv.remove(1);
        let expected = json!({"a": [text, whole, integer, [], {}], (&*text): null});
        let read: Value = serde_json::from_str(&found[2..]).unwrap();
        prop_assert_eq!(read, expected.clone());
        prop_assert_eq!(found.len(), 2 + expected.to_string().len());
    }

    /// Every number that a program writes in its shortest form is one.
    #[test]
    fn what_is_written_to_be_read_again_is_passed(bits in any::<u64>(), signed in any::<i64>()) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        for text in ["1242835330320970.2".to_owned(), "1242835330320970.3".to_owned(), format!("{double:e}"), json!(double).to_string(), signed.to_string(), bits.to_string()] {
            prop_assert_eq!(number(&text), Ok(format!("n={text}")));
        }
    }

    /// What is passed has, digit for digit, the value that the schema has seen.
    #[test]
    fn what_is_passed_is_what_the_schema_has_seen(text in "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,22})?(e[+-]?[0-9]{1,3})?") {
        if number(&text).is_ok() {
            let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
            let digits = |text: &str| {
                let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
                let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
                let digits = format!("{whole}{fraction}").trim_start_matches('-').trim_start_matches('0').to_owned();
                let exponent = exponent.parse::<i64>().unwrap() - fraction.len() as i64;
                let significant = digits.trim_end_matches('0').to_owned();
                let place = if significant.is_empty() { 0 } else { exponent + (digits.len() - significant.len()) as i64 };
                (significant, place)
            };
            let as_seen = match seen.as_i64().map(|seen| seen.to_string()).or(seen.as_u64().map(|seen| seen.to_string())) {
                Some(integer) => integer,
                None => format!("{:e}", seen.as_f64().unwrap()),
            };
            prop_assert!(digits(&text) == digits(&as_seen) || digits(&text) == digits(&seen.to_string()), "{text} is {seen}");
        }
    }

    #[test]
    fn any_text_is_a_template_or_refused(text in "[{}a-c\0 é]{0,16}") {
        if let Ok(template) = longhaul_command::Template::parse(&text) {
            prop_assert!(template.properties().all(|name| !name.is_empty() && text.contains(name)));
        }
    }
}
