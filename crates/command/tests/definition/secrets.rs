//! Secrets of a definition and of its arguments.

use crate::{definition, expand, names, with_elements};
use longhaul_command::{CommandDefinition, CommandTool};
use serde_json::json;

#[test]
fn secrets_are_not_printed() {
    let printed = format!(
        "{:?} {:?}",
        definition(&["p", "hush"]),
        expand(definition(&["p", "hush"]), "{}").unwrap()
    );
    assert!(!printed.contains("secret") && !printed.contains("hush"), "{printed}");
}

#[test]
fn secrets_are_apart_from_what_is_written_down() {
    let secret = |definition| CommandDefinition {
        secrets: names(&["token", "key"]),
        optional: names(&["note"]),
        ..definition
    };
    let tool = secret(CommandDefinition {
        env_templates: [("TOKEN", "{token}"), ("NOTE", "{note}")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
        stdin_json: true,
        ..definition(&["deploy", "{key:file}", "{note:file}"])
    });
    let invocation = expand(tool, r#"{"token":"t-1","key":"k-1","note":"n"}"#).unwrap();
    assert_eq!(invocation.argv, ["deploy", "/attempt/secret.1", "/attempt/argument.2"]);
    assert_eq!(invocation.env, [("NOTE".to_owned(), "n".to_owned())].into());
    assert_eq!((invocation.stdin.as_str(), invocation.files.len()), ("", 1));
    let secrets = &invocation.secret;
    assert_eq!(secrets.env, [("TOKEN".to_owned(), "t-1".to_owned())].into());
    assert_eq!(secrets.files, [("secret.1".to_owned(), "k-1".to_owned())].into());
    let stdin = secrets.stdin.as_deref().unwrap();
    assert_eq!(stdin, "{\"key\":\"k-1\",\"note\":\"n\",\"token\":\"t-1\"}\n");

    let in_folder = CommandDefinition {
        cwd_template: Some("x/{token}".to_owned()),
        ..definition(&["deploy"])
    };
    for (exposed, place) in [
        (
            definition(&["deploy", "--token={token}"]),
            "`command` element 2: `token` is secret",
        ),
        (
            with_elements(json!([["--key", "{key}"]])),
            "`command` element 2: `key` is secret",
        ),
        (in_folder, "`cwd`: `token` is secret"),
    ] {
        let Err(error) = CommandTool::new(secret(exposed), None) else {
            panic!("{place} was accepted")
        };
        assert!(error.to_string().starts_with(place), "{error}");
    }
}
