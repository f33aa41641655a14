//! What may be served and is hardly meant.

use super::{folder_with_server, folder_with_tool, load_in, warnings_in};
use std::{fs, os::unix::fs::PermissionsExt as _};
use tempfile::TempDir;

/// What is said about these keys of a tool.
fn of_tool(keys: &str) -> Vec<String> {
    warnings_in(&folder_with_tool(keys))
}

/// Each line has what is expected of it, and nothing else is said.
#[track_caller]
fn assert_said(found: &[String], expected: &[&str]) {
    let all_fit = found
        .iter()
        .zip(expected)
        .all(|(found, expected)| found.contains(expected));
    assert!(found.len() == expected.len() && all_fit, "{expected:?}: {found:#?}");
}

#[track_caller]
fn assert_warned(folder: &TempDir, part: &str, is_warned: bool, row: &str) {
    let found = warnings_in(folder);
    let has_part = found.iter().any(|found| found.contains(part));
    assert_eq!(has_part, is_warned, "{row}: {found:?}");
}

#[test]
fn a_concurrency_key_without_an_argument_is_pointed_out() {
    let of_key = |key: &str| {
        let input = "command = [\"true\", \"--branch={branch}\"]\ninput = { branch = { type = \"string\" } }";
        of_tool(&format!("{input}\nconcurrency_key = \"{key}\"\n"))
    };
    assert_said(
        &of_key("branch"),
        &["`concurrency_key`: `branch` has no argument in it, so all calls have the same value"],
    );
    assert_said(&of_key("{branch}"), &[]);
}

#[test]
fn a_number_that_can_be_taken_for_an_option_is_pointed_out() {
    let at = |schema: &str, argument: &str| {
        let input = format!("input = {{ n = {schema} }}");
        of_tool(&format!("command = [\"true\", \"{argument}\"]\n{input}\n"))
    };
    let negative = "jobs.toml:6: `command`: `n` may be negative by its schema and begins an argument here: a number such as -3 is refused, because the program would take it for an option; set `minimum = 0`, write `--n={n}` if the program accepts that, or add it to `allow_leading_dash`";
    let integer = r#"{ type = "integer" }"#;
    for schema in [
        integer,
        r#"{ type = "number" }"#,
        r#"{ type = ["integer", "null"], minimum = -1 }"#,
        r#"{ type = "number", exclusiveMinimum = -1 }"#,
        r#"{ type = "array", items = { type = "integer" } }"#,
        r#"{ type = "integer", enum = [1, -1] }"#,
    ] {
        assert_eq!(at(schema, "{n}").len(), 1, "{schema}");
    }
    assert_eq!(at(integer, "{n}"), [negative]);
    for never in [
        r#"{ type = "integer", minimum = 0 }"#,
        r#"{ type = "integer", exclusiveMinimum = -1 }"#,
        r#"{ type = "number", exclusiveMinimum = 0 }"#,
        r#"{ type = "integer", enum = [1, 2] }"#,
        r#"{ type = "boolean" }"#,
        r#"{ type = "string" }"#,
    ] {
        assert_eq!(at(never, "{n}"), [""; 0], "{never}");
    }
    assert_eq!(at(integer, "--n={n}"), [""; 0]);
    let input = format!("input = {{ n = {integer} }}\n");
    let allowed = "command = [\"true\", \"{n}\"]\nallow_leading_dash = [\"n\"]\n";
    for sound in [allowed, "command = [\"true\"]\nstdin = \"{n}\"\n"] {
        assert_eq!(of_tool(&format!("{sound}{input}")), [""; 0], "{sound}");
    }
}

#[test]
fn a_program_that_is_missing_is_pointed_out() {
    let at = |program: &str, more: &str| of_tool(&format!("command = [\"{program}\"]\n{more}"));
    for (program, more, why) in [
        ("sha265sum", "", "6: `command`: there is no program `sha265sum` in PATH"),
        ("./x.sh", "", "6: `command`: the program ./x.sh does not exist"),
        ("true", "cwd = \"nowhere\"\n", "7: `cwd`: nowhere is not a folder"),
    ] {
        let told = format!("jobs.toml:{why}, so every call would fail");
        assert_eq!(at(program, more), [told]);
    }
    let told = "jobs.toml:6: `command`: the program ./jobs.toml is not executable, so every call would fail";
    assert_eq!(at("./jobs.toml", ""), [told]);
    assert_eq!(at("sh", "env = { PATH = \"/nowhere\" }\n").len(), 1);
    assert_eq!(at("sh", ""), [""; 0]);
    assert_eq!(at("/bin/sh", ""), [""; 0]);
}

/// The system says of them only when they are started that something is missing.
#[test]
fn a_program_that_cannot_be_started_is_pointed_out() {
    let warned = |first_line: &str, program: &str| {
        let folder = folder_with_tool(&format!("command = [\"{program}\"]\n"));
        let script = folder.path().join("x.sh");
        fs::write(&script, format!("{first_line}\necho done\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let warnings = load_in(&folder).unwrap().warnings;
        warnings
            .first()
            .map(|warning| warning.message.clone())
            .unwrap_or_default()
    };
    let carriage_return = "its interpreter `/bin/sh` is followed by a carriage return: save ";
    let folder = "the program /etc/../etc is a folder, so every call would fail";
    let no_interpreter = "x.sh cannot be started: its interpreter /nowhere/python3 does not exist";
    for (first_line, program, expected) in [
        ("#!/bin/sh\r", "./x.sh", carriage_return),
        ("#!/bin/sh\r", "/etc/../etc", folder),
        ("#!/nowhere/python3 -u", "./x.sh", no_interpreter),
    ] {
        let said = warned(first_line, program);
        assert!(said.contains(expected), "{said}");
    }
    for sound in ["#!/bin/sh", "#! /usr/bin/env nothing", "no script"] {
        assert_eq!(warned(sound, "./x.sh"), "", "{sound}");
    }
}

#[test]
fn a_missing_program_is_reported_beside_a_bad_template() {
    let folder = folder_with_tool("command = [\"sha265sum\", \"{undefined}\"]\n");
    let error = load_in(&folder).unwrap_err();
    assert!(error.to_string().contains("`{undefined}` is not a property"), "{error}");
    let warnings: Vec<_> = error.warnings.iter().map(|warning| warning.at("jobs.toml")).collect();
    let missing = "jobs.toml:6: `command`: there is no program `sha265sum` in PATH, so every call would fail";
    assert_eq!(warnings, [missing]);
}

/// Who comes in that is hardly meant to, and who does not.
#[test]
fn what_is_open_on_this_machine_and_what_has_no_name_is_pointed_out() {
    const EVERY_USER: &str = "every user of this machine may call every tool";
    const NO_NAME: &str = "requests that name this server by a host name get 403";
    let plain = "plain_http = \"others on the network can read tokens and results\"";
    let (keys, anyone) = ("api_keys = true", "unauthenticated = \"anyone may call every tool\"");
    let exposed = format!("listen = \"0.0.0.0:7411\"\n{plain}");
    let named = format!("{exposed}\nallowed_hosts = [\"box.example\"]");
    let public_url = "public_url = \"https://box.example/mcp\"";
    let public = format!("{exposed}\n{public_url}");
    let proxy = "trusted_proxies = [\"10.0.0.1\"]";
    let public_proxy = format!("{proxy}\n{public_url}");
    for (server, auth, expected) in [
        ("", anyone, Some(EVERY_USER)),
        ("", "same_user = true", None),
        ("", "same_user = false\napi_keys = true", None),
        (&*exposed, keys, Some(NO_NAME)),
        (&*named, keys, None),
        (&*public, keys, None),
        (proxy, keys, Some(NO_NAME)),
        (&*public_proxy, keys, None),
    ] {
        let mut found = warnings_in(&folder_with_server(&format!("{server}\n[server.auth]\n{auth}")));
        found.retain(|warning| [EVERY_USER, NO_NAME].iter().any(|text| warning.contains(text)));
        assert_said(&found, expected.as_slice());
    }
}

/// With a certificate and its key.
fn folder_with_tls(certified: &rcgen::CertifiedKey<rcgen::KeyPair>, keys: &str) -> TempDir {
    let folder = folder_with_server(&format!("{keys}\ntls = {{ cert = \"cert.pem\", key = \"key.pem\" }}"));
    fs::write(folder.path().join("cert.pem"), certified.cert.pem()).unwrap();
    fs::write(folder.path().join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    folder
}

#[test]
fn a_public_url_without_tls_of_a_server_with_tls_is_pointed_out() {
    let certified = rcgen::generate_simple_self_signed(["box.example".to_owned()]).unwrap();
    for (scheme, warned) in [("http", true), ("https", false)] {
        let folder = folder_with_tls(&certified, &format!("public_url = \"{scheme}://box.example/mcp\""));
        assert_warned(&folder, "`public_url` begins with http://", warned, scheme);
    }
}

#[test]
fn a_certificate_for_another_host_than_that_of_clients_is_pointed_out() {
    let names = ["box.example", "*.lan.example", "192.0.2.7"].map(str::to_owned);
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    for (host, more, warned) in [
        ("box.example", "", false),
        ("a.lan.example:8443", "", false),
        ("192.0.2.7", "", false),
        ("mcp.example", "", true),
        ("192.0.2.8:7411", "", true),
        // Clients see the certificate of the proxy.
        ("mcp.example", "trusted_proxies = [\"192.0.2.1\"]", false),
    ] {
        let folder = folder_with_tls(&certified, &format!("public_url = \"https://{host}/mcp\"\n{more}"));
        let found = warnings_in(&folder);
        let is_warned = found
            .iter()
            .any(|found| found.contains("is not for ") && found.contains("box.example, *.lan.example"));
        assert_eq!(is_warned, warned, "{host} {found:?}");
    }
}

/// An issuer of tokens, for a file with this mode beside the configuration.
#[cfg(unix)]
fn folder_with_issuer(keys: &str, file: &str, text: &str, mode: u32) -> TempDir {
    let folder = folder_with_server(&format!(
        "public_url = \"https://box.example/mcp\"\n[[server.auth.issuer]]\nissuer = \"https://login.example\"\n{keys}"
    ));
    let file = folder.path().join(file);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    folder
}

#[cfg(unix)]
#[test]
fn files_of_an_issuer_that_every_user_can_read_or_replace_are_pointed_out() {
    let by_secret =
        "introspection = \"https://login.example/introspect\"\nclient_id = \"mcp\"\nclient_secret_file = \"secret\"";
    for (mode, warned) in [
        (0o644, true),
        (0o604, true),
        (0o662, true),
        (0o640, false),
        (0o600, false),
    ] {
        let folder = folder_with_issuer(by_secret, "secret", "s3cret\n", mode);
        let row = format!("{mode:o}");
        assert_warned(&folder, "every user of this machine can read", warned, &row);
    }
    let key = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
    for (mode, warned) in [(0o666, true), (0o646, true), (0o664, false), (0o644, false)] {
        let folder = folder_with_issuer("jwks = \"keys.json\"", "keys.json", key, mode);
        assert_warned(&folder, "can put a key into", warned, &format!("{mode:o}"));
    }
}

#[test]
fn issuers_that_some_clients_cannot_log_in_at_are_pointed_out() {
    let issuer = |name: &str, more: &str| {
        format!("[[server.auth.issuer]]\nissuer = \"https://{name}\"\njwks = \"https://{name}/keys\"\n{more}\n")
    };
    let upstream = |name: &str| {
        format!(
            "[upstream.a]\nurl = \"https://u.example/mcp\"\nauth = {{ client_id = \"x\", client_secret = \"y\", issuer = \"https://{name}\" }}\n"
        )
    };
    let two = |more: &str| issuer("one.example", "") + &issuer("two.example", more);
    let private = "is an address of a private network";
    let scopes = "the issuers have different `scopes`";
    for (sections, warned) in [
        (issuer("login.example", ""), None),
        (issuer("10.0.0.5", ""), Some(private)),
        (issuer("[fd00::1]", ""), Some(private)),
        (two(""), None),
        (two("scopes = false"), Some(scopes)),
        (upstream("login.example"), None),
        (upstream("127.0.0.1:9"), None),
        (upstream("192.168.1.2"), Some(private)),
    ] {
        let folder = folder_with_server(&format!("public_url = \"https://box.example/mcp\"\n{sections}"));
        assert_said(&warnings_in(&folder), warned.as_slice());
    }
}

#[test]
fn a_socket_that_others_may_open_without_credentials_is_pointed_out() {
    let (anybody, group) = ("every user of this machine", "every user of the socket's group");
    for (mode, who) in [
        ("0666", Some(anybody)),
        ("0602", Some(anybody)),
        ("0660", Some(group)),
        ("0644", None),
        ("0600", None),
    ] {
        let told = who.map(|who| format!(": `socket_mode`: {who} may call every tool"));
        let at = |auth: &str| {
            warnings_in(&folder_with_server(&format!(
                "listen = \"unix:mcp.sock\"\nsocket_mode = \"{mode}\"\n[server.auth]\n{auth}"
            )))
        };
        assert_said(
            &at("unauthenticated = \"anyone may call every tool\""),
            told.as_deref().as_slice(),
        );
        // They need a key, whatever the mode is.
        assert_eq!(at("api_keys = true"), [""; 0], "{mode}");
    }
}

#[test]
fn a_tool_that_ends_the_default_hand_off_is_pointed_out() {
    let tools = "command = [\"true\"]\n[[tool]]\nname = \"task_wait\"\ndescription = \"d\"\ncommand = [\"true\"]\n";
    let told = "no call is handed off to clients without tasks, since the server's own tool `task_wait` is needed for that: rename this one, or set handoff = \"0s\" for all tools";
    assert_eq!(of_tool(tools), [format!("jobs.toml:7: {told}")]);
    let off = "handoff = \"0s\"\n";
    assert_eq!(of_tool(&[off, tools, off].concat()), [""; 0]);
}

#[test]
fn an_option_that_may_lose_its_value_is_pointed_out() {
    let at = |command: &str, more: &str| {
        let input = r#"input = { tag = { type = "string" }, all = { type = "array", items = { type = "string" } }, path = { type = "string" } }"#;
        of_tool(&format!("command = [\"true\", {command}]\n{input}\n{more}"))
    };
    let optional = "optional = [\"tag\"]\n";
    let lost = "jobs.toml:6: `command`: `tag` may be absent, and then `--tag`, if it is an option with a value, takes the next argument for it: write the list [\"--tag\", \"{tag}\"], which is left out with it";
    let of_tag = |element: &str| format!(r#"{element}, "{{path}}", "{{all}}""#);
    assert_eq!(at(&of_tag(r#""--tag", "{tag}""#), optional), [lost]);
    assert!(at(&of_tag(r#""-t", "{tag}""#), optional)[0].contains("write the list [\"-t\", \"{tag}\"]"));
    for lost in [
        r#""--tag", ["{tag}", "{path}"]"#,
        r#""--tag", "{tag:json}""#,
        r#""--tag", "a{tag}""#,
    ] {
        assert_said(&at(&of_tag(lost), optional), &["`tag` may be absent, and then `--tag`"]);
    }
    let array = at(r#""--all", "{all}", "{tag}", "{path}""#, "");
    assert_said(
        &array,
        &[
            "`all` may be an empty array, and then `--all`, if it is an option with a value, takes the next argument for it: write the list [\"--all\", \"{all}\"], which repeats `--all` for each element, or set `minItems = 1`",
        ],
    );
    let many = at(r#"["--all", "{all}"], "{tag}", "{path}""#, "");
    assert_eq!(many, [""; 0]);
    for sound in [
        r#""--tag={tag}""#,
        r#""--", "{tag}""#,
        r#""tag", "{tag}""#,
        r#"["--tag", "{tag}"]"#,
        r#""--flag", "--tag={tag}""#,
        r#""--flag", ["--tag", "{tag}"]"#,
    ] {
        assert_eq!(at(&of_tag(sound), optional), [""; 0], "{sound}");
    }
    assert_eq!(at(&of_tag(r#""--tag", "{tag}""#), ""), [""; 0]);
    let joined = |schema: &str, command: &str| {
        let input = format!("input = {{ t = {schema}, u = {{ type = \"string\" }} }}");
        of_tool(&format!("command = [\"true\", {command}]\n{input}\n"))
    };
    let (text, before) = (r#"{ type = "string" }"#, r#""-t{t}", "--", "{u}""#);
    let empty = "jobs.toml:6: `command`: `t` may be an empty text, and then `-t`, if it is an option with a value, takes the next argument for it: set `minLength = 1`";
    assert_eq!(joined(text, before), [empty]);
    for (schema, command) in [
        (r#"{ type = "string", minLength = 1 }"#, before),
        (r#"{ type = "string", enum = ["a"] }"#, before),
        (r#"{ type = "integer", minimum = 0 }"#, before),
        (text, r#""--t={t}", "--", "{u}""#),
        (text, r#""{u}", "-t{t}""#),
        (text, r#""--", "-t{t}", "{u}""#),
    ] {
        assert_eq!(joined(schema, command), [""; 0], "{schema} {command}");
    }
}

#[test]
fn what_only_a_shell_would_replace_or_do_is_pointed_out() {
    let at = |elements: &str| of_tool(&format!("command = [\"echo\", {elements}]\n"));
    for (element, named) in [
        ("$HOME/a", "`$HOME`"),
        ("--dir=${{MY_DIR}}/x", "`${{MY_DIR}}`"),
        ("~/a", "`~`"),
        ("a", ""),
        ("~a", ""),
        ("$(date)", "`$(date)`"),
        ("--day=$(date +%F)", "`$(date +%F)`"),
        ("`date`", "``date``"),
        ("*.txt", "`*.txt`"),
        ("dir/*", "`dir/*`"),
        ("-*.txt", ""),
        ("SELECT * FROM t", ""),
        ("a `b` c", ""),
        ("cost: 5$", ""),
        ("$x", ""),
    ] {
        let expected = Some(named).filter(|named| !named.is_empty());
        assert_said(&at(&format!("\"{element}\"")), expected.as_slice());
    }
    for operator in ["|", "&&", ">", "2>&1"] {
        let found = at(&format!("\"a\", \"{operator}\", \"b\""));
        let passed = format!("`{operator}` is passed to echo as an argument");
        assert!(found[0].contains(&passed), "{found:?}");
    }
    for joined in ["a;b", "a;", "a&", "a&&b", "<in", ">out.txt", "2>/dev/null"] {
        assert_eq!(at(&format!("\"{joined}\"")).len(), 1, "{joined}");
    }
    for text in ["<b>", ">=1.0", "http://h/x?a=1&b=2", "text/html;charset=utf-8", "-a;b"] {
        assert_eq!(at(&format!("\"{text}\"")), [""; 0], "{text}");
    }
    let stdin = |program: &str| of_tool(&format!("command = [\"{program}\"]\nstdin = \"$HOME\"\n"));
    assert!(stdin("cat")[0].contains("`stdin`: `$HOME` is passed as it stands"));
    assert_eq!(stdin("sh"), [""; 0]);
    for sound in [
        r#""find", ".", "-name", "*.txt""#,
        r#""sh", "-c", "echo $HOME | cat > ~/x""#,
        r#""find", ".", "-exec", "true", "{{}}", ";""#,
        r#""expr", "1", ">", "2""#,
    ] {
        assert_eq!(of_tool(&format!("command = [{sound}]\n")), [""; 0], "{sound}");
    }
    let env = "command = [\"echo\", \"{x}\"]\ninput = { x = { type = \"string\" } }\nenv = { A = \"a{x}\", B = \"s3cret${HOME:-}$(id)\", C = \"$PATH:/x\", D = \"~/y\", E = \"${{T}}\" }\n";
    let found = of_tool(env);
    let expected = ["`env.B`: `$(id)`", "`env.C`: `$PATH`", "`env.D`: `~`"];
    assert_said(&found, &expected);
    assert!(!found.concat().contains("s3cret"), "{found:?}");
}

#[test]
fn what_a_schema_lets_pass_or_refuses_is_pointed_out() {
    let command = "command = [\"echo\", \"--x={x}\"]";
    let at = |schema: &str| of_tool(&format!("{command}\ninput = {{ x = {schema} }}\n"));
    let schemas = r#"
        { pattern = "^a$" } => `x`: `pattern` binds values of the type string only
        { minLength = 1 } => an array passes
        { maximum = 5 } => add type = "number"
        { allOf = [{ pattern = "a" }] } => `pattern`
        { type = "string", format = "emial" } => the format `emial` is not known
    "#;
    for row in schemas.trim().lines() {
        let (schema, named) = row.trim().split_once(" => ").unwrap();
        assert_said(&at(schema), &[named]);
    }
    for sound in [
        r#"{ type = "string", pattern = "^a$" }"#,
        r#"{ type = "string", allOf = [{ pattern = "a" }, { pattern = "b" }] }"#,
        r#"{ anyOf = [{ type = "string" }, { type = "integer" }], minLength = 2 }"#,
        r#"{ enum = ["a", "b"], default = "a" }"#,
        r#"{ type = "string", format = "date", default = "2026-01-01" }"#,
    ] {
        assert_eq!(at(sound), [""; 0], "{sound}");
    }
    for (stdin, warned) in [("JSON", 1), ("json\\n", 1), (" json", 1), ("json", 0), ("a json", 0)] {
        let found = of_tool(&format!("command = [\"cat\"]\nstdin = \"{stdin}\"\n"));
        let expected = ["the word that stands for all arguments as JSON is exactly \"json\""];
        assert_said(&found, &expected[..warned]);
    }
    let used = "command = [\"echo\", { if = \"x\", then = [\"-n\"] }]\ninput = { x = { type = \"boolean\" } }\n";
    let as_json = "command = [\"cat\"]\nstdin = \"json\"\ninput = { x = { type = \"boolean\" } }\n";
    for sound in [used, as_json] {
        assert_eq!(of_tool(sound), [""; 0], "{sound}");
    }
    let unused = "jobs.toml:7: `input`: `x` is used by none of `command`, `stdin`, `env` and `cwd`, so the command does not get it";
    let tool = "command = [\"echo\"]\ninput = { x = { type = \"string\" } }\n";
    assert_eq!(of_tool(tool), [unused]);
}

#[test]
fn attempts_that_say_less_than_they_seem_to_are_pointed_out() {
    for (keys, expected) in [
        (
            "retry = { attempts = 2, on = [\"error\", \"exit:75\"] }",
            vec!["7: `on`: \"error\" includes the exit code 75 already"],
        ),
        ("retry = { attempts = 2, on = [\"crash\", \"exit:75\"] }", vec![]),
        (
            "timeout = \"1h\"\ndeadline = \"1h\"",
            vec!["7: `timeout` is not shorter than `deadline`"],
        ),
        ("timeout = \"59m\"\ndeadline = \"1h\"", vec![]),
    ] {
        assert_said(&of_tool(&format!("command = [\"true\"]\n{keys}\n")), &expected);
    }
}
