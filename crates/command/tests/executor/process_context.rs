//! The environment and the folder of an attempt.

use super::support::{Server, create, outcome, result, text};
use longhaul_command::OutputKind;
use longhaul_core::{Retry, RetryOn};
use serde_json::json;
use std::{fs, os::unix::fs::symlink};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_come_from_the_caller_a_file_and_the_server() {
    let mut server = Server::running("echo \"$OWN|$FILE|$GIVEN|$CARGO_PKG_NAME|${CARGO_MANIFEST_DIR-unset}\"");
    let file = server.file("deploy.env");
    fs::write(&file, "FILE='from the file'\nOWN=overridden\nGIVEN=of the file\n").unwrap();
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    server.definition.env = [variable("OWN", "{literal}")].into();
    server.definition.env_templates = [variable("GIVEN", "{word}")].into();
    server.definition.env_from = ["CARGO_PKG_NAME".to_owned()].into();
    server.definition.env_file = Some(file.clone());
    let stored = server.definition.to_json();
    assert!(
        !stored.contains("from the file") && !stored.contains("longhaul-command"),
        "{stored}"
    );

    let expected = "{literal}|from the file|a; b $(id)|longhaul-command|unset\n";
    let found = text(&server.run(json!({"word": "a; b $(id)"})).await);
    assert_eq!(found, (expected.to_owned(), false));
    // A variable that its caller leaves out is as if the tool did not set it, and the file is read again.
    fs::write(&file, "FILE=new\nGIVEN=of the file\n").unwrap();
    let found = text(&server.run(json!({})).await);
    assert_eq!(found.0, "{literal}|new|of the file|longhaul-command|unset\n");

    fs::write(&file, "FILE='hunter2\n").unwrap();
    let (said, is_error) = text(&server.run(json!({})).await);
    let expected = format!("{}, the `env_file` of this tool: line 1: ", file.display());
    assert!(
        is_error && said.starts_with(&expected) && !said.contains("hunter2"),
        "{said}"
    );
    server.definition.env_file = None;
    server.definition.env_from = ["NOT_SET_ANYWHERE".to_owned()].into();
    let (said, is_error) = text(&server.run(json!({})).await);
    let expected =
        "the variable NOT_SET_ANYWHERE, which `env_from` of this tool names, is not set in the server's environment";
    assert_eq!((said.as_str(), is_error), (expected, true));
}

/// What is missing may be there in the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_without_its_file_is_retried_as_an_error() {
    let mut server = Server::running("echo $A");
    let file = server.file("late.env");
    server.definition.env_file = Some(file.clone());
    server.retry = Retry {
        attempts: 1000,
        backoff: 1,
        on: vec![RetryOn::Error],
    };
    let engine = server.start().await;
    let task = create(&engine, json!({})).await;
    let failed = |record: &longhaul_core::store::Record| record.task.attempts_used > 1;
    super::support::becomes(&engine, &task.id, failed).await;
    fs::write(&file, "A=there\n").unwrap();
    assert_eq!(text(&outcome(&engine, &task.id).await), ("there\n".to_owned(), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_chooses_a_folder_within_the_one_that_the_tool_names() {
    let mut server = Server::running("pwd");
    let root = server.definition.cwd.clone();
    let within = root.join("repos");
    fs::create_dir_all(within.join("web/src")).unwrap();
    fs::create_dir_all(root.join("secret")).unwrap();
    fs::write(within.join("file"), "").unwrap();
    symlink(within.join("web"), within.join("link")).unwrap();
    symlink(root.join("secret"), within.join("out")).unwrap();
    // A path to it with a link in it is as good.
    symlink(&within, root.join("also")).unwrap();
    server.definition.cwd = root.join("also");
    server.definition.cwd_template = Some("{word}".to_owned());
    let shown = |folder: &str| format!("{}\n", within.join(folder).display());
    for (given, folder) in [
        (json!({"word": "web"}), "web"),
        (json!({"word": "web/../web/src"}), "web/src"),
        (json!({"word": "link/src"}), "web/src"),
        (json!({"word": within.join("web")}), "web"),
    ] {
        assert_eq!(text(&server.run(given).await), (shown(folder), false));
    }
    let (found, is_error) = text(&server.run(json!({})).await);
    assert_eq!((found, is_error), (format!("{}\n", within.display()), false));
    // What lies outside is not told from what is not there.
    for given in ["..", "../secret", "../nowhere", "/", "out", "nowhere", "file", "~"] {
        let (said, is_error) = text(&server.run(json!({"word": given})).await);
        let expected = format!(
            "there is no folder {given:?} within {}, where this tool runs; name one that lies there",
            root.join("also").display()
        );
        assert_eq!((said, is_error), (expected, true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_output_keeps_its_bytes() {
    let raw = |script: &str| {
        let mut server = Server::running(script);
        server.definition.output = OutputKind::Raw;
        server
    };
    let (value, is_error) = result(&raw(r"printf 'a\tb\r\033[1mc\r\n'").run(json!({})).await);
    assert!(!is_error);
    assert_eq!(
        value["content"],
        json!([{"type": "text", "text": "a\tb\r\u{1b}[1mc\r\n"}])
    );
    for (script, blob) in [(r"printf '\377\000a'", "/wBh"), (r"printf 'a\000'", "YQA=")] {
        let (value, is_error) = result(&raw(script).run(json!({})).await);
        assert!(!is_error);
        let resource = json!({"uri": "longhaul:stdout", "mimeType": "application/octet-stream", "blob": blob});
        assert_eq!(value["content"], json!([{"type": "resource", "resource": resource}]));
    }
    // A part of it would not be its bytes.
    let (said, is_error) = text(&raw("head -c 1001 /dev/zero").run(json!({})).await);
    let expected = "the command succeeded, but its output has 1001 bytes, and raw output of more than 1000 bytes is not kept whole";
    assert!(is_error && said.starts_with(expected), "{said}");
    let (said, is_error) = text(&raw("echo no; exit 3").run(json!({})).await);
    assert_eq!((said.as_str(), is_error), ("sh exited with code 3\n\nno", true));
}
