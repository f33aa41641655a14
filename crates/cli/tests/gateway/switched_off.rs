//! What another client's file switches off is neither served nor called.

use crate::{hang_up, support::*};
use std::fs;

#[test]
fn tools_that_a_file_switches_off_are_neither_served_nor_called() {
    let folder = folder();
    let folder = folder.path();
    let file = format!(
        r#"{{"mcpServers": {{"one": {{
            "command": "{LONGHAUL}", "args": ["stdio", "upstream.toml"], "cwd": "{path}",
            "tools": {{"one-gate": {{"enabled": false}}}}, "disabledTools": ["no_such"], "includeEnv": ["A"]
        }}}}}}"#,
        path = folder.display()
    );
    fs::write(folder.join("mcp.json"), &file).unwrap();
    let gateway = serve_with_log(folder, &["--mcp-config", "mcp.json", "--listen", "127.0.0.1:0"]);
    let served = done(folder, &["tools", &gateway.url]);
    assert!(served.contains("greet") && !served.contains("gate"), "{served}");
    let log = fs::read_to_string(folder.join("log")).unwrap();
    assert!(log.contains("its `includeEnv` is not known here"), "{log}");
    log.has("it has no tool `no_such`").lacks("no tool `one-gate`");

    let listed = done(folder, &["tools", "--mcp-config", "mcp.json", "one"]);
    assert!(listed.contains("greet") && !listed.contains("gate"), "{listed}");
    fs::write(folder.join("lines"), "{\"tool\": \"gate\"}\n").unwrap();
    for words in [
        &["one", "gate"][..],
        &["one", "--batch", "lines"],
        &["one", "gate", "--batch", "lines"],
    ] {
        let refused = run(folder, &[&["call", "--mcp-config", "mcp.json"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("`gate` is switched off"), "{said}");
    }
    assert_eq!(
        done(folder, &["call", "--mcp-config", "mcp.json", "one", "greet"]),
        "Hello"
    );
    assert!(!folder.join("starts").exists());

    // While it is served. Another server is not understood.
    let off = r#"{"mcpServers": {"one": {"command": "x", "disabled": true}, "other": {"command": 5}}}"#;
    // The others say of all servers what is not understood, or have none.
    let not_understood = file.replacen('{', r#"{"mcp": {"enabled": false}, "#, 1);
    for off in [
        off,
        &not_understood,
        "{}",
        r#"{"mcpServers": {"one": {}}, "mcpServers": null}"#,
    ] {
        fs::write(folder.join("mcp.json"), off).unwrap();
        hang_up(folder, &gateway, "removed upstreams: one");
        let refused = run(folder, &["call", &gateway.url, "greet"]);
        assert_ne!(refused.status.code(), Some(0), "{off}: {refused:?}");
        fs::write(folder.join("mcp.json"), &file).unwrap();
        hang_up(folder, &gateway, "new upstreams: one");
    }
    // Half written: what its user wants is not known.
    fs::write(folder.join("mcp.json"), &file[..40]).unwrap();
    hang_up(folder, &gateway, "nothing has changed");
    assert_eq!(done(folder, &["call", &gateway.url, "greet"]), "Hello");
}
