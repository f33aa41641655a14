//! The questions of `longhaul init`, in a terminal.

use crate::{
    support::*,
    terminal::{Keys, Terminal},
};
use std::fs;

const NAME: &str = "[letters, digits";
const COMMAND: &str = "[nothing for an example";
const PLACE: &str = "type to filter]";

#[test]
fn three_questions_make_a_file_that_can_be_served() {
    let served = served();
    let mut terminal = Terminal::new(&served, "init");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.toml");
    let path = file.to_str().unwrap();

    let mut init = terminal.begin(&["init", path]);
    // What is in brackets is there as long as a question is.
    init.until(NAME);
    init.press("my server\r");
    init.until("cannot be called");
    init.until(NAME);
    init.press("box\r");
    init.until(COMMAND);
    init.press("echo 'open\r");
    init.until("the quote ' is not closed");
    init.until(COMMAND);
    init.press("'' x\r");
    init.until("must be a program");
    init.until(COMMAND);
    init.press("echo \"a b\" {who} {} größe\r");
    init.until(PLACE);
    init.press(Keys::DOWN);
    init.until("> only by MCP hosts");
    init.press(Keys::ENTER);
    init.ends(0);
    terminal.clear();

    let text = fs::read_to_string(&file).unwrap();
    text.has("name = \"box\"").has("listen = \"unix:");
    let command = r#"command = ["echo", "a b", "{who}", "{{}}", "größe"]"#;
    assert!(text.contains(command), "{text}");
    let checked = served.run(&["check", path, "--json"]);
    let checked: serde_json::Value = serde_json::from_str(exit(&checked, 0).as_str()).unwrap();
    assert_eq!(checked["warnings"], serde_json::json!([]), "{text}");
    assert_eq!(checked["tools"][0]["name"], "echo");

    // Given up in the middle.
    let other = folder.path().join("other.toml");
    for (key, status) in [(Keys::ESC.to_owned(), 1), (Keys::ctrl('c'), 130)] {
        let mut init = terminal.begin(&["init", other.to_str().unwrap()]);
        init.until(NAME);
        init.press(&key);
        init.ends(status);
        terminal.clear();
        assert!(!other.exists());
    }

    // Enter alone takes the example.
    let mut init = terminal.begin(&["init", other.to_str().unwrap()]);
    for question in [NAME, COMMAND, PLACE] {
        init.until(question);
        init.press(Keys::ENTER);
    }
    init.ends(0);
    assert!(fs::read_to_string(&other).unwrap().contains("name = \"count\""));
}
