//! Variables and the folder of a command.

use crate::{expand, names, with_variables};
use longhaul_command::{CommandArgumentError, CommandDefinition, HarmlessValues};
use serde_json::json;

#[test]
fn a_variable_can_hold_json() {
    let definition = with_variables(&[("SPEC", "{spec:json}")]);
    let made = expand(definition, r#"{"spec": {"a": [1, {}]}, "path": "x"}"#).unwrap();
    assert_eq!(made.env["SPEC"], r#"{"a":[1,{}]}"#);
}

#[test]
fn variables_and_the_folder_are_made_of_arguments() {
    let variables = [
        ("WHOLE", "{maybe}"),
        ("PART", "v{maybe}/{path}"),
        ("BRACES", "{{{path}}}"),
    ];
    let made = |cwd: &str, given: serde_json::Value| {
        let definition = CommandDefinition {
            cwd_template: Some(cwd.to_owned()),
            ..with_variables(&variables)
        };
        let invocation = expand(definition, &given.to_string())?;
        Ok((invocation.env.into_iter().collect::<Vec<_>>(), invocation.cwd.unwrap()))
    };
    let pairs = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect::<Vec<_>>()
    };
    // No program takes a value of a variable for an option.
    let (env, cwd) = made("{path}/sub", json!({"path": "-a$(id)", "maybe": 1})).unwrap();
    assert_eq!(
        env,
        pairs(&[("BRACES", "{-a$(id)}"), ("PART", "v1/-a$(id)"), ("WHOLE", "1")])
    );
    assert_eq!(cwd, "-a$(id)/sub");
    let (env, cwd) = made("{maybe}/sub", json!({"path": "x", "maybe": null})).unwrap();
    assert_eq!(env, pairs(&[("BRACES", "{x}"), ("PART", "v/x")]));
    assert_eq!(cwd, "");
    for (given, refusal) in [
        (json!({}), CommandArgumentError::Missing("path".into())),
        (json!({"path": "a\0b"}), CommandArgumentError::NotText("path".into())),
        (json!({"path": ["a"]}), CommandArgumentError::ArrayInside("path".into())),
    ] {
        assert_eq!(made("{path}", given), Err(refusal));
    }
}

#[test]
fn variables_by_which_programs_load_code_take_no_free_values() {
    let free = HarmlessValues::default();
    let fixed = HarmlessValues {
        fixed: names(&["path"]),
        words: names(&["path"]),
    };
    let words = HarmlessValues {
        fixed: names(&[]),
        ..fixed.clone()
    };
    for name in [
        "PATH",
        "HOME",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "BASH_FUNC_ls%%",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_KEY_0",
        "npm_config_script_shell",
    ] {
        let definition = with_variables(&[(name, "x{path}")]);
        for harmless in [&free, &words] {
            let refused = definition.check_scripts(harmless).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("`env.{name}`: `{{path}}` stands in")),
                "{refused}"
            );
        }
        assert!(definition.check_scripts(&fixed).is_ok(), "{name}");
        let accepted = CommandDefinition {
            allow_placeholders_in_scripts: true,
            ..definition
        };
        assert!(accepted.check_scripts(&free).is_ok(), "{name}");
        assert!(with_variables(&[(name, "x")]).check_scripts(&free).is_ok(), "{name}");
    }
    assert!(
        with_variables(&[("TAG", "{path}"), ("GIT_AUTHOR_NAME", "{path}")])
            .check_scripts(&free)
            .is_ok()
    );
}

/// A definition that an earlier release has stored: its variables are literal, whatever they look like.
#[test]
fn stored_variables_keep_their_meaning() {
    let stored = r#"{"version":1,"command":["cat"],"env":{"FORMAT":"{path} ${HOME} {"},"cwd":"/tmp/{path}","output":"text","max_output":1,"max_log":1}"#;
    let definition = CommandDefinition::from_json(stored).unwrap();
    assert_eq!(definition.to_json(), stored);
    let invocation = expand(definition.clone(), "{}").unwrap();
    assert_eq!((invocation.env.len(), invocation.cwd), (0, None));
    assert_eq!(definition.env["FORMAT"], "{path} ${HOME} {");
}
