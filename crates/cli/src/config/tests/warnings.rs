//! What may be served and is hardly meant.

use super::{SERVER, TOOL, environment, folder_with};
use crate::config::load;
use std::{fs, os::unix::fs::PermissionsExt as _};

/// What is said about a tool, without the folder.
fn warnings_in(tool: &str) -> Vec<String> {
    let folder = folder_with(&format!("{SERVER}{TOOL}{tool}"));
    let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
    let warnings = config.warnings.iter().map(|warning| warning.at("jobs.toml"));
    let prefix = format!("{}/", folder.path().display());
    warnings.map(|line| line.replace(&prefix, "")).collect()
}

#[test]
fn a_number_that_can_be_taken_for_an_option_is_pointed_out() {
    let at = |schema: &str, argument: &str| {
        warnings_in(&format!(
            "command = [\"true\", \"{argument}\"]\ninput = {{ n = {schema} }}\n"
        ))
    };
    assert_eq!(
        at("{ type = \"integer\" }", "{n}"),
        [
            "jobs.toml:6: `command`: `n` may be negative by its schema and begins an argument here: a number such as -3 is refused, because the program would take it for an option; set `minimum = 0`, write `--n={n}` if the program accepts that, or add it to `allow_leading_dash`"
        ]
    );
    for negative in [
        "{ type = \"number\" }",
        "{ type = [\"integer\", \"null\"], minimum = -1 }",
        "{ type = \"number\", exclusiveMinimum = -1 }",
        "{ type = \"array\", items = { type = \"integer\" } }",
        "{ type = \"integer\", enum = [1, -1] }",
    ] {
        assert_eq!(at(negative, "{n}").len(), 1, "{negative}");
    }
    for never in [
        "{ type = \"integer\", minimum = 0 }",
        "{ type = \"integer\", exclusiveMinimum = -1 }",
        "{ type = \"number\", exclusiveMinimum = 0 }",
        "{ type = \"integer\", enum = [1, 2] }",
        "{ type = \"boolean\" }",
        "{ type = \"string\" }",
    ] {
        assert_eq!(at(never, "{n}"), [""; 0], "{never}");
    }
    assert_eq!(at("{ type = \"integer\" }", "--n={n}"), [""; 0]);
    assert_eq!(
        warnings_in(
            "command = [\"true\", \"{n}\"]\ninput = { n = { type = \"integer\" } }\nallow_leading_dash = [\"n\"]\n"
        ),
        [""; 0]
    );
    assert_eq!(
        warnings_in("command = [\"true\"]\nstdin = \"{n}\"\ninput = { n = { type = \"integer\" } }\n"),
        [""; 0]
    );
}

#[test]
fn a_program_that_is_missing_is_pointed_out() {
    let at = |program: &str, more: &str| warnings_in(&format!("command = [\"{program}\"]\n{more}"));
    assert_eq!(
        at("sha265sum", ""),
        ["jobs.toml:6: `command`: there is no program `sha265sum` in PATH, so every call would fail"]
    );
    assert_eq!(
        at("./x.sh", ""),
        ["jobs.toml:6: `command`: the program ./x.sh does not exist, so every call would fail"]
    );
    assert_eq!(
        at("true", "cwd = \"nowhere\"\n"),
        ["jobs.toml:7: `cwd`: nowhere is not a folder, so every call would fail"]
    );
    assert_eq!(
        at("./jobs.toml", ""),
        ["jobs.toml:6: `command`: the program ./jobs.toml is not executable, so every call would fail"]
    );
    assert_eq!(at("sh", "env = { PATH = \"/nowhere\" }\n").len(), 1);
    assert_eq!(at("sh", ""), [""; 0]);
    assert_eq!(at("/bin/sh", ""), [""; 0]);
}

/// The system says of them only when they are started that something is missing.
#[test]
fn a_program_that_cannot_be_started_is_pointed_out() {
    let warned = |first_line: &str, program: &str| {
        let folder = folder_with(&format!("{SERVER}{TOOL}command = [\"{program}\"]\n"));
        let script = folder.path().join("x.sh");
        fs::write(&script, format!("{first_line}\necho done\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let mut warnings = config.warnings.iter().map(|warning| warning.message.clone());
        warnings.next().unwrap_or_default()
    };
    for program in ["./x.sh", "/etc/../etc"] {
        let said = warned("#!/bin/sh\r", program);
        let expected = match program {
            "./x.sh" => "its interpreter `/bin/sh` is followed by a carriage return: save ",
            _ => "the program /etc/../etc is a folder, so every call would fail",
        };
        assert!(said.contains(expected), "{said}");
    }
    let said = warned("#!/nowhere/python3 -u", "./x.sh");
    assert!(
        said.contains("x.sh cannot be started: its interpreter /nowhere/python3 does not exist"),
        "{said}"
    );
    for sound in ["#!/bin/sh", "#! /usr/bin/env nothing", "no script"] {
        assert_eq!(warned(sound, "./x.sh"), "", "{sound}");
    }
}

#[test]
fn a_missing_program_is_reported_beside_a_bad_template() {
    let folder = folder_with(&format!("{SERVER}{TOOL}command = [\"sha265sum\", \"{{undefined}}\"]\n"));
    let error = load(&folder.path().join("jobs.toml"), &environment()).unwrap_err();
    assert!(error.to_string().contains("`{undefined}` is not a property"), "{error}");
    let warnings: Vec<_> = error.warnings.iter().map(|warning| warning.at("jobs.toml")).collect();
    assert_eq!(
        warnings,
        ["jobs.toml:6: `command`: there is no program `sha265sum` in PATH, so every call would fail"]
    );
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
    let public = format!("{exposed}\npublic_url = \"https://box.example/mcp\"");
    for (server, auth, expected) in [
        ("", anyone, Some(EVERY_USER)),
        ("", "same_user = true", None),
        ("", "same_user = false\napi_keys = true", None),
        (&*exposed, keys, Some(NO_NAME)),
        (&*named, keys, None),
        (&*public, keys, None),
        ("trusted_proxies = [\"10.0.0.1\"]", keys, Some(NO_NAME)),
        (
            "trusted_proxies = [\"10.0.0.1\"]\npublic_url = \"https://box.example/mcp\"",
            keys,
            None,
        ),
    ] {
        let text = format!("{SERVER}{server}\n[server.auth]\n{auth}\n{TOOL}command = [\"true\"]\n");
        let folder = folder_with(&text);
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found = config
            .warnings
            .iter()
            .filter(|warning| [EVERY_USER, NO_NAME].iter().any(|text| warning.message.contains(text)));
        let found: Vec<&str> = found.map(|warning| &*warning.message).collect();
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{server} {auth}: {found:?}"
        );
        assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{found:?}");
    }
}

#[test]
fn a_public_url_without_tls_of_a_server_with_tls_is_pointed_out() {
    let certified = rcgen::generate_simple_self_signed(["box.example".to_owned()]).unwrap();
    for (scheme, warned) in [("http", true), ("https", false)] {
        let folder = folder_with(&format!(
            "{SERVER}public_url = \"{scheme}://box.example/mcp\"\ntls = {{ cert = \"cert.pem\", key = \"key.pem\" }}\n{TOOL}command = [\"true\"]\n"
        ));
        fs::write(folder.path().join("cert.pem"), certified.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found: Vec<&str> = config.warnings.iter().map(|warning| &*warning.message).collect();
        let is_warned = found
            .iter()
            .any(|found| found.contains("`public_url` begins with http://"));
        assert_eq!(is_warned, warned, "{found:?}");
    }
}

#[test]
fn a_certificate_for_another_host_than_that_of_clients_is_pointed_out() {
    let names = [
        "box.example".to_owned(),
        "*.lan.example".to_owned(),
        "192.0.2.7".to_owned(),
    ];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    for (host, more, warned) in [
        ("box.example", "", false),
        ("a.lan.example:8443", "", false),
        ("192.0.2.7", "", false),
        ("mcp.example", "", true),
        ("192.0.2.8:7411", "", true),
        // Clients see the certificate of the proxy.
        ("mcp.example", "trusted_proxies = [\"192.0.2.1\"]\n", false),
    ] {
        let folder = folder_with(&format!(
            "{SERVER}public_url = \"https://{host}/mcp\"\n{more}tls = {{ cert = \"cert.pem\", key = \"key.pem\" }}\n{TOOL}command = [\"true\"]\n"
        ));
        fs::write(folder.path().join("cert.pem"), certified.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found: Vec<&str> = config.warnings.iter().map(|warning| &*warning.message).collect();
        let is_warned = found
            .iter()
            .any(|found| found.contains("is not for ") && found.contains("box.example, *.lan.example"));
        assert_eq!(is_warned, warned, "{host} {found:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_secret_that_every_user_can_read_is_pointed_out() {
    use std::os::unix::fs::PermissionsExt as _;
    for (mode, warned) in [
        (0o644, true),
        (0o604, true),
        (0o662, true),
        (0o640, false),
        (0o600, false),
    ] {
        let folder = folder_with(&format!(
            "{SERVER}public_url = \"https://box.example/mcp\"\n[[server.auth.issuer]]\nissuer = \"https://login.example\"\n\
             introspection = \"https://login.example/introspect\"\nclient_id = \"mcp\"\nclient_secret_file = \"secret\"\n\
             {TOOL}command = [\"true\"]\n"
        ));
        let secret = folder.path().join("secret");
        fs::write(&secret, "s3cret\n").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found: Vec<&str> = config.warnings.iter().map(|warning| &*warning.message).collect();
        let is_warned = found
            .iter()
            .any(|found| found.contains("every user of this machine can read"));
        assert_eq!(is_warned, warned, "{mode:o}: {found:?}");
    }
}

#[cfg(unix)]
#[test]
fn keys_of_an_issuer_that_every_user_can_replace_are_pointed_out() {
    use std::os::unix::fs::PermissionsExt as _;
    for (mode, warned) in [(0o666, true), (0o646, true), (0o664, false), (0o644, false)] {
        let folder = folder_with(&format!(
            "{SERVER}public_url = \"https://box.example/mcp\"\n[[server.auth.issuer]]\nissuer = \"https://login.example\"\njwks = \"keys.json\"\n\
             {TOOL}command = [\"true\"]\n"
        ));
        let keys = folder.path().join("keys.json");
        let key = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
        fs::write(&keys, key).unwrap();
        fs::set_permissions(&keys, fs::Permissions::from_mode(mode)).unwrap();
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found: Vec<&str> = config.warnings.iter().map(|warning| &*warning.message).collect();
        let is_warned = found.iter().any(|found| found.contains("can put a key into"));
        assert_eq!(is_warned, warned, "{mode:o}: {found:?}");
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
    let (private, scopes) = (
        "is an address of a private network",
        "the issuers have different `scopes`",
    );
    for (sections, warned) in [
        (issuer("login.example", ""), vec![]),
        (issuer("10.0.0.5", ""), vec![private]),
        (issuer("[fd00::1]", ""), vec![private]),
        (issuer("one.example", "") + &issuer("two.example", ""), vec![]),
        (
            issuer("one.example", "") + &issuer("two.example", "scopes = false"),
            vec![scopes],
        ),
        (upstream("login.example"), vec![]),
        (upstream("127.0.0.1:9"), vec![]),
        (upstream("192.168.1.2"), vec![private]),
    ] {
        let folder = folder_with(&format!(
            "{SERVER}public_url = \"https://box.example/mcp\"\n{sections}{TOOL}command = [\"true\"]\n"
        ));
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        let found: Vec<&str> = config.warnings.iter().map(|warning| &*warning.message).collect();
        assert_eq!(found.len(), warned.len(), "{sections}: {found:?}");
        assert!(
            warned.iter().zip(&found).all(|(warned, found)| found.contains(warned)),
            "{sections}: {found:?}"
        );
    }
}

#[test]
fn a_socket_that_others_may_open_without_credentials_is_pointed_out() {
    let at = |server: &str| {
        let folder = folder_with(&format!("{SERVER}{server}\n{TOOL}command = [\"true\"]\n"));
        let config = load(&folder.path().join("jobs.toml"), &environment()).unwrap();
        config
            .warnings
            .iter()
            .map(|warning| warning.message.clone())
            .collect::<Vec<_>>()
    };
    let open = "unauthenticated = \"anyone may call every tool\"";
    for (mode, who) in [
        ("0666", Some("every user of this machine")),
        ("0602", Some("every user of this machine")),
        ("0660", Some("every user of the socket's group")),
        ("0644", None),
        ("0600", None),
    ] {
        let listen = format!("listen = \"unix:mcp.sock\"\nsocket_mode = \"{mode}\"\n[server.auth]\n");
        let warnings = at(&format!("{listen}{open}"));
        assert_eq!(warnings.len(), usize::from(who.is_some()), "{mode}: {warnings:?}");
        for (warning, who) in warnings.iter().zip(who) {
            assert!(
                warning.starts_with(&format!("`socket_mode`: {who} may call every tool")),
                "{warning}"
            );
        }
        // They need a key, whatever the mode is.
        assert_eq!(at(&format!("{listen}api_keys = true")), [""; 0], "{mode}");
    }
}

#[test]
fn a_tool_that_ends_the_default_hand_off_is_pointed_out() {
    let tools = "command = [\"true\"]\n[[tool]]\nname = \"task_wait\"\ndescription = \"d\"\ncommand = [\"true\"]\n";
    let told = "no call is handed off to clients without tasks, since the server's own tool `task_wait` is needed for that: rename this one, or set handoff = \"0s\" for all tools";
    assert_eq!(warnings_in(tools), [format!("jobs.toml:7: {told}")]);
    let off = "handoff = \"0s\"\n";
    assert_eq!(warnings_in(&[off, tools, off].concat()), [""; 0]);
}

#[test]
fn an_option_that_may_lose_its_value_is_pointed_out() {
    let at = |command: &str, more: &str| {
        let input = "input = { tag = { type = \"string\" }, all = { type = \"array\", items = { type = \"string\" } }, path = { type = \"string\" } }";
        warnings_in(&format!("command = [\"true\", {command}]\n{input}\n{more}"))
    };
    let used = "\"{path}\", \"{all}\"";
    let optional = "optional = [\"tag\"]\n";
    assert_eq!(
        at(&format!("\"--tag\", \"{{tag}}\", {used}"), optional),
        [
            "jobs.toml:6: `command`: `tag` may be absent, and then `--tag`, if it is an option with a value, takes the next argument for it: write \"--tag={tag}\", which is left out with it"
        ]
    );
    assert!(at(&format!("\"-t\", \"{{tag}}\", {used}"), optional)[0].contains("write \"-t{tag}\""));
    let array = at("\"--all\", \"{all}\", \"{tag}\", \"{path}\"", "");
    assert!(
        array[0].contains("`all` may be an empty array") && array.len() == 1,
        "{array:?}"
    );
    for sound in [
        format!("\"--tag={{tag}}\", {used}"),
        format!("\"--\", \"{{tag}}\", {used}"),
        format!("\"tag\", \"{{tag}}\", {used}"),
    ] {
        assert_eq!(at(&sound, optional), [""; 0], "{sound}");
    }
    assert_eq!(at(&format!("\"--tag\", \"{{tag}}\", {used}"), ""), [""; 0]);
    let joined = |schema: &str, command: &str| {
        let input = format!("input = {{ t = {schema}, u = {{ type = \"string\" }} }}");
        warnings_in(&format!("command = [\"true\", {command}]\n{input}\n"))
    };
    let text = "{ type = \"string\" }";
    assert_eq!(
        joined(text, "\"-t{t}\", \"--\", \"{u}\""),
        [
            "jobs.toml:6: `command`: `t` may be an empty text, and then `-t`, if it is an option with a value, takes the next argument for it: set `minLength = 1`"
        ]
    );
    for (schema, command) in [
        ("{ type = \"string\", minLength = 1 }", "\"-t{t}\", \"--\", \"{u}\""),
        ("{ type = \"string\", enum = [\"a\"] }", "\"-t{t}\", \"--\", \"{u}\""),
        ("{ type = \"integer\", minimum = 0 }", "\"-t{t}\", \"--\", \"{u}\""),
        (text, "\"--t={t}\", \"--\", \"{u}\""),
        (text, "\"{u}\", \"-t{t}\""),
        (text, "\"--\", \"-t{t}\", \"{u}\""),
    ] {
        assert_eq!(joined(schema, command), [""; 0], "{schema} {command}");
    }
}

#[test]
fn what_only_a_shell_would_replace_or_do_is_pointed_out() {
    let at = |elements: &str| warnings_in(&format!("command = [\"echo\", {elements}]\n"));
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
        let found = at(&format!("\"{element}\""));
        assert_eq!(found.len(), usize::from(!named.is_empty()), "{found:?}");
        assert!(found.iter().all(|line| line.contains(named)), "{named}: {found:?}");
    }
    for operator in ["|", "&&", ">", "2>&1"] {
        let found = at(&format!("\"a\", \"{operator}\", \"b\""));
        assert!(
            found[0].contains(&format!("`{operator}` is passed to echo as an argument")),
            "{found:?}"
        );
    }
    for (argument, count) in [
        ("a;b", 1),
        ("a;", 1),
        ("a&", 1),
        ("a&&b", 1),
        ("<in", 1),
        (">out.txt", 1),
        ("2>/dev/null", 1),
        ("<b>", 0),
        (">=1.0", 0),
        ("http://h/x?a=1&b=2", 0),
        ("text/html;charset=utf-8", 0),
        ("-a;b", 0),
    ] {
        assert_eq!(at(&format!("\"{argument}\"")).len(), count, "{argument}");
    }
    let pattern = "command = [\"find\", \".\", \"-name\", \"*.txt\"]\n";
    assert_eq!(warnings_in(pattern), [""; 0]);
    let stdin = |program: &str| warnings_in(&format!("command = [\"{program}\"]\nstdin = \"$HOME\"\n"));
    assert!(stdin("cat")[0].contains("`stdin`: `$HOME` is passed as it stands"));
    assert_eq!(stdin("sh"), [""; 0]);
    let none = [""; 0];
    assert_eq!(
        warnings_in("command = [\"sh\", \"-c\", \"echo $HOME | cat > ~/x\"]\n"),
        none
    );
    assert_eq!(
        warnings_in("command = [\"find\", \".\", \"-exec\", \"true\", \"{{}}\", \";\"]\n"),
        none
    );
    assert_eq!(warnings_in("command = [\"expr\", \"1\", \">\", \"2\"]\n"), none);
    let env = "command = [\"echo\", \"{x}\"]\ninput = { x = { type = \"string\" } }\nenv = { A = \"a{x}\", B = \"s3cret${T}\", C = \"$PATH:/x\", D = \"~/y\", E = \"plain\" }\n";
    let found = warnings_in(env);
    let named = ["`env.A`: `{x}`", "`env.B`: `${T}`", "`env.C`: `$PATH`", "`env.D`: `~`"];
    assert_eq!(found.len(), named.len(), "{found:?}");
    for (line, named) in found.iter().zip(named) {
        assert!(line.contains(named) && !line.contains("s3cret"), "{line}");
    }
}

#[test]
fn what_a_schema_lets_pass_or_refuses_is_pointed_out() {
    let at = |schema: &str| {
        warnings_in(&format!(
            "command = [\"echo\", \"--x={{x}}\"]\ninput = {{ x = {schema} }}\n"
        ))
    };
    for (schema, named) in [
        (
            "{ pattern = \"^a$\" }",
            "`x`: `pattern` binds values of the type string only",
        ),
        ("{ minLength = 1 }", "an array passes"),
        ("{ maximum = 5 }", "add type = \"number\""),
        ("{ allOf = [{ pattern = \"a\" }] }", "`pattern`"),
        (
            "{ type = \"string\", format = \"emial\" }",
            "the format `emial` is not known",
        ),
        (
            "{ type = \"string\", enum = [\"a\"], default = \"b\" }",
            "its default is refused by its own schema",
        ),
        (
            "{ type = \"string\", format = \"date\", default = \"soon\" }",
            "its default is refused",
        ),
    ] {
        let found = at(schema);
        assert!(found.len() == 1 && found[0].contains(named), "{schema}: {found:?}");
    }
    for sound in [
        "{ type = \"string\", pattern = \"^a$\" }",
        "{ type = \"string\", allOf = [{ pattern = \"a\" }, { pattern = \"b\" }] }",
        "{ anyOf = [{ type = \"string\" }, { type = \"integer\" }], minLength = 2 }",
        "{ enum = [\"a\", \"b\"], default = \"a\" }",
        "{ type = \"string\", format = \"date\", default = \"2026-01-01\" }",
    ] {
        assert_eq!(at(sound), [""; 0], "{sound}");
    }
    let unused = warnings_in("command = [\"echo\"]\ninput = { x = { type = \"string\" } }\n");
    assert_eq!(
        unused,
        ["jobs.toml:7: `input`: `x` is used by neither `command` nor `stdin`, so the command does not get it"]
    );
}
