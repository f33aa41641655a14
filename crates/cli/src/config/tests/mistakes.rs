//! Bad files, and what is said about each.

use super::{SERVER, TOOL, environment, folder_with};
use crate::config::load;
use std::fs;
use tempfile::TempDir;

/// What is wrong with `text`, one line each, without the folder.
fn problems_in(folder: &TempDir) -> Vec<String> {
    let prefix = format!("{}/", folder.path().display());
    let error = load(&folder.path().join("jobs.toml"), &environment())
        .unwrap_err()
        .to_string();
    error.lines().map(|line| line.replace(&prefix, "")).collect()
}

/// Each file, after `[server]` and `[[tool]]` where it has neither, and every line said about it.
#[test]
fn bad_files_are_explained() {
    let table: &[(&str, &[&str])] = &[
        // The document.
        (
            "",
            &[
                "jobs.toml: the section [server] is missing; it needs at least name = \"...\"",
                "jobs.toml: there is no [[tool]] and no [upstream.NAME], so there is nothing to serve",
            ],
        ),
        (
            "[server]\nname = \nlisten = [1,,2]\n",
            &[
                "jobs.toml:2: string values must be quoted, expected literal string",
                "jobs.toml:3: extra comma in array, expected value",
            ],
        ),
        (
            "\u{feff}// of a host\n{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
            &[
                "jobs.toml: this is JSON, and a configuration is TOML. `longhaul serve` and `longhaul check` read an `mcpServers` file with --mcp-config; for its server other commands take the data directory, which `longhaul serve` shows when it starts",
            ],
        ),
        (
            "[sever]\nname = \"x\"\n+tool",
            &[
                "jobs.toml: the section [server] is missing; it needs at least name = \"...\"",
                "jobs.toml:1: unknown key `sever`; did you mean `server`?",
            ],
        ),
        (
            "+server\n[tool]\nname = \"x\"\n",
            &["jobs.toml:3: `tool` must be one or more sections [[tool]] (with two brackets), not a table"],
        ),
        // [admin]
        (
            "+server\n[admin]\nlisten = \"0.0.0.0:7412\"\n+tool",
            &[
                "jobs.toml:4: `listen`: 0.0.0.0:7412 can be reached from other machines, and keys would cross the network in the clear: listen on 127.0.0.1, and put a proxy with TLS in front of it",
            ],
        ),
        (
            "+server\n[admin]\nport = 7412\nsame_user = \"yes\"\n+tool",
            &[
                "jobs.toml:3: [admin] needs the key `listen`",
                "jobs.toml:4: unknown key `port` in [admin]; did you mean `listen`?",
                "jobs.toml:5: `same_user` must be true or false, not \"yes\"",
            ],
        ),
        (
            "+server\nlisten = \"127.0.0.1:7500\"\n[admin]\nlisten = \"localhost:7500\"\n+tool",
            &[
                "jobs.toml:5: `listen`: 127.0.0.1:7500 is where clients connect, as `listen` of [server] says; name another port",
            ],
        ),
        // [server]
        (
            "[server]\nlisten = \"127.0.0.1:80\"\n+tool",
            &["jobs.toml:1: [server] needs the key `name`"],
        ),
        (
            "[server]\nname = \"../x\"\n+tool",
            &[
                "jobs.toml:2: `name` must be 1 to 64 of A-Z a-z 0-9 _ - . and not start with a dot: it names a folder too",
            ],
        ),
        (
            "+server\nlisten = 7411\n+tool",
            &[
                "jobs.toml:3: `listen` must be an address such as \"127.0.0.1:7411\", or \"unix:/run/mcp.sock\", not 7411",
            ],
        ),
        (
            "+server\nlisten = \"7411\"\n+tool",
            &[
                "jobs.toml:3: `listen`: write an IP address and a port, for example \"127.0.0.1:7411\" or \"[::1]:7411\", or a Unix socket, for example \"unix:/run/mcp.sock\"",
            ],
        ),
        (
            "+server\nlisten = \"0.0.0.0:7411\"\n+tool",
            &[
                "jobs.toml:3: `listen`: other machines can reach this address, and nothing says who may call the tools. Set api_keys = true in [server.auth], and make keys with `longhaul keys add`; or name an issuer of tokens in [[server.auth.issuer]]; or listen on 127.0.0.1",
            ],
        ),
        (
            "+server\notlp = \"127.0.0.1:4318\"\n+tool",
            &["jobs.toml:3: `otlp` must be the URL of an OpenTelemetry collector, such as \"http://127.0.0.1:4318\""],
        ),
        (
            "+server\ndata_dir = \"~you/x\"\n+tool",
            &["jobs.toml:3: `data_dir`: only `~` and `~/...` stand for a home folder; write the path in full"],
        ),
        (
            "+server\nmax_running = 0\n+tool",
            &["jobs.toml:3: `max_running` must be a whole number from 1 to 10000, not 0"],
        ),
        (
            "+server\nmax_body = \"4 megs\"\n+tool",
            &[
                "jobs.toml:3: `max_body`: \"4 megs\" is not a size above 0; write for example \"64KiB\", \"4MiB\" or \"1GB\"",
            ],
        ),
        (
            "+server\ndisk_reserve = \"31MiB\"\n+tool",
            &["jobs.toml:3: `disk_reserve` must be \"32MiB\" at least, or \"none\""],
        ),
        (
            "+server\nmax_body = 4096\n+tool",
            &["jobs.toml:3: `max_body` must be a size such as \"64KiB\" or \"4MiB\", not 4096"],
        ),
        (
            "+server\nstrict_headers = \"yes\"\n+tool",
            &["jobs.toml:3: `strict_headers` must be true or false, not \"yes\""],
        ),
        (
            "+server\nallowed_origins = [\"*\", \"https://a\", \"b/c\"]\n+tool",
            &[
                "jobs.toml:3: `allowed_origins`: \"*\": an origin is a scheme and a host, for example \"https://app.example.com\": no path, no blanks, no *",
                "jobs.toml:3: `allowed_origins`: \"b/c\": an origin is a scheme and a host, for example \"https://app.example.com\": no path, no blanks, no *",
            ],
        ),
        (
            "+server\nqueue_timeout = \"1 day\"\n+tool",
            &[
                "jobs.toml:3: `queue_timeout`: `1 day` is not a duration; write for example \"500ms\", \"5s\", \"1h30m\" or \"7d\"",
            ],
        ),
        (
            "+server\nqueue_timeout = \"0s\"\n+tool",
            &["jobs.toml:3: `queue_timeout` must be longer than 0"],
        ),
        (
            "+server\nqueue_timout = \"1s\"\n+tool",
            &["jobs.toml:3: unknown key `queue_timout` in [server]; did you mean `queue_timeout`?"],
        ),
        // [[tool]]: what it is
        (
            "+server\n[[tool]]\nname = \"a\"\n",
            &[
                "jobs.toml:3: [[tool]] `a` needs the key `description`",
                "jobs.toml:3: [[tool]] `a` needs the key `command`",
            ],
        ),
        (
            "+server\n[[tool]]\ndescription = \"d\"\ncommand = [\"x\"]\n",
            &["jobs.toml:3: [[tool]] needs the key `name`"],
        ),
        (
            "+server\n[[tool]]\nname = \"a b\"\ndescription = \" \"\ncommand = [\"x\"]\n",
            &[
                "jobs.toml:4: \"a b\" is not a tool name: use 1 to 128 of the characters A-Z a-z 0-9 _ - .",
                "jobs.toml:5: `description` must not be empty",
            ],
        ),
        (
            "+server\n+tool+tool",
            &["jobs.toml:8: there is a tool `t` already, at line 4"],
        ),
        (
            "+tool\nretntion = \"1h\"\n",
            &["jobs.toml:7: unknown key `retntion` in [[tool]] `t`; did you mean `retention`?"],
        ),
        (
            "+tool\npostgres_url = \"x\"\n",
            &[
                "jobs.toml:7: unknown key `postgres_url` in [[tool]] `t`; there is `allow_leading_dash`, `allow_placeholders_in_scripts`, `annotations`, `command`, `concurrency`, `cwd`, `deadline`, `description` and 18 more",
            ],
        ),
        (
            "+tool\nschedule = \"0 3 * * *\"\nshell = true\n",
            &[
                "jobs.toml:7: unknown key `schedule` in [[tool]] `t`; a tool runs when it is called: have cron or a systemd timer start `longhaul call`",
                "jobs.toml:8: unknown key `shell` in [[tool]] `t`; no shell reads the command: write command = [\"sh\", \"-c\", \"…\"]",
            ],
        ),
        (
            "+tool\nmax_retries = 3\nafter = \"x\"\nscript = \"x\"\n",
            &[
                "jobs.toml:7: unknown key `max_retries` in [[tool]] `t`; did you mean `retry`?",
                "jobs.toml:8: unknown key `after` in [[tool]] `t`; calls do not wait for each other: run the steps in one script, or write a durable tool (docs/durable-tools.md)",
                "jobs.toml:9: unknown key `script` in [[tool]] `t`; no shell reads the command: write command = [\"sh\", \"-c\", \"…\"]",
            ],
        ),
        // Commands and templates
        (
            "+t\ncommand = [\"ls\", \"${HOME}/a\"]\n",
            &[
                "jobs.toml:6: `command`: variables such as `${HOME}` are not replaced, and `{HOME}` is not a property of the input: write the value itself, or in a script of a shell `${{HOME}}`",
            ],
        ),
        (
            "+t\ncommand = \"ls -l\"\n",
            &["jobs.toml:6: `command` must be an array of strings, not \"ls -l\""],
        ),
        (
            "+t\ncommand = []\n",
            &["jobs.toml:6: `command` must name a program, for example [\"sha256sum\", \"{path}\"]"],
        ),
        (
            "+t\ncommand = [\"\"]\n",
            &["jobs.toml:6: the first element of `command` must be a program"],
        ),
        (
            "+t\ncommand = [\n\"ls\",\n5]\n",
            &["jobs.toml:8: `command` must be an array of strings; an element is 5"],
        ),
        (
            "+t\ncommand = [\"ls\",\n\"{path\",\n\"a } b\"]\n",
            &[
                "jobs.toml:7: `command`: column 1: `{` is never closed; write `{name}` for a property, `{{` for a literal brace",
                "jobs.toml:8: `command`: column 3: `}` closes nothing; write `}}` for a literal brace",
            ],
        ),
        (
            "+t\ncommand = [\"ls\", \"{pth}\"]\ninput = { path = { type = \"string\" } }\n",
            &["jobs.toml:6: `command`: `{pth}` is not a property of the input; did you mean `path`?"],
        ),
        (
            "+t\ncommand = [\"ls\", \"{path}\"]\n",
            &[
                "jobs.toml:6: `command`: `{path}` is not a property of the input; declare it: input = { path = { type = \"string\" } }",
            ],
        ),
        (
            "+t\ncommand = [\"{path}\"]\ninput = { path = { type = \"string\" } }\n",
            &[
                "jobs.toml:6: the program must not contain a placeholder: `{path}` would not be replaced; use it in the arguments",
            ],
        ),
        // Scripts
        (
            "+t\ncommand = [\"sh\", \"-c\",\n\"echo hi {who}\"]\ninput = { who = { type = \"string\" } }\n",
            &[
                "jobs.toml:7: `command`: `{who}` stands in a script that `sh` runs, so a caller could run any code; pass it as an argument: [\"sh\", \"-c\", \"echo hi \\\"$1\\\"\", \"sh\", \"{who}\"]; `allow_placeholders_in_scripts = true` accepts it as it is",
            ],
        ),
        (
            "+t\ncommand = [\"sh\", \"-s\"]\nstdin = \"echo {who}\"\ninput = { who = { type = \"string\" } }\n",
            &[
                "jobs.toml:7: `stdin`: `{who}` stands in a script that `sh` runs, so a caller could run any code; put the script into `command` and the value into an argument of its own, or have the script read it from standard input as data; `allow_placeholders_in_scripts = true` accepts it as it is",
            ],
        ),
        (
            "+tool\nstdin = \"{}\"\n",
            &[
                "jobs.toml:7: `stdin`: column 1: `{}` names no property; write `{name}` for a property, `{{}}` for literal braces",
            ],
        ),
        (
            "+tool\nenv = { A = 1, \"B=C\" = \"secret\" }\n",
            &[
                "jobs.toml:7: `env.A` must be a string; put it in quotes",
                "jobs.toml:7: \"B=C\" is not an environment variable: its name must not be empty or contain `=`, and neither name nor value may contain a NUL",
            ],
        ),
        // Input
        (
            "+tool\ninput = { a = { type = \"string\" } }\ninput_schema = \"in.json\"\n",
            &["jobs.toml:8: give either `input` or `input_schema`, not both"],
        ),
        (
            "+tool\noptional = [\"a\"]\ninput_schema = \"in.json\"\n",
            &["jobs.toml:7: `optional` goes with `input`; a schema file says itself what is required"],
        ),
        (
            "+tool\ninput = { path = {}, text = {} }\noptional = [\"txt\", \"path\"]\n",
            &["jobs.toml:8: `optional` names the property `txt`, which the input does not have; did you mean `text`?"],
        ),
        (
            "+tool\nallow_leading_dash = [\"x\"]\n",
            &[
                "jobs.toml:7: `allow_leading_dash` names the property `x`, which the input does not have; the tool has no properties",
            ],
        ),
        (
            "+tool\ninput = { a = \"string\" }\n",
            &["jobs.toml:7: `input.a` must be a JSON Schema such as { type = \"string\" }"],
        ),
        (
            "+tool\n[tool.input]\na = { type = \"string\" }\nb = { type = \"strin\" }\n",
            &[
                "jobs.toml:9: `input` is not a JSON Schema: /properties/b/type: \"strin\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            ],
        ),
        (
            "+tool\ninput = { a = { pattern = \"(\" } }\n",
            &["jobs.toml:7: `input` is not a JSON Schema: /properties/a/pattern: \"(\" is not a \"regex\""],
        ),
        (
            "+tool\ninput = { a = { pattern = '(?=.*\\d).{8,}' } }\n",
            &[
                "jobs.toml:7: `input` is not a JSON Schema: /properties/a/pattern: the pattern `(?=.*\\d).{8,}` has look-around, which takes exponential time to match; write each condition as a pattern of its own under `allOf`, and lengths as `minLength` and `maxLength`: {\"minLength\": 8, \"allOf\": [{\"pattern\": \"[A-Z]\"}, {\"pattern\": \"[0-9]\"}]}; what must not match goes into `not`",
            ],
        ),
        (
            // Names of properties, not keywords.
            "+tool\ninput = { default = { \"$ref\" = \"https://example.com/s.json\" } }\n",
            &[
                "jobs.toml:7: `input` is not a JSON Schema: /properties/default/$ref: refers to \"https://example.com/s.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        (
            "+tool\ninput = { enum = { items = { \"$ref\" = \"other.json\" } } }\n",
            &[
                "jobs.toml:7: `input` is not a JSON Schema: /properties/enum/items/$ref: refers to \"other.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        (
            "+tool\ninput = { a = { \"$ref\" = \"https://example.com/s.json\" } }\n",
            &[
                "jobs.toml:7: `input` is not a JSON Schema: /properties/a/$ref: refers to \"https://example.com/s.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        (
            "+tool\ninput = { a = { const = 2026-01-01 } }\n",
            &["jobs.toml:7: `input.a` holds a date (put it in quotes), which JSON does not know"],
        ),
        (
            "+tool\ninput_schema = \"missing.json\"\n",
            &["jobs.toml:7: `input_schema`: missing.json cannot be read: No such file or directory (os error 2)"],
        ),
        (
            "+tool\ninput_schema = \"jobs.toml\"\n",
            &["jobs.toml:7: `input_schema`: jobs.toml is not JSON: expected value at line 1 column 2"],
        ),
        (
            "+tool\ninput_schema = \"array.json\"\n",
            &["jobs.toml:7: `input_schema`: the schema of arguments must say \"type\": \"object\""],
        ),
        (
            "+tool\ninput_schema = \"file_ref.json\"\n",
            &[
                "jobs.toml:7: `input_schema`: file_ref.json is not a JSON Schema: /$ref: refers to \"other.json\"; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
            ],
        ),
        // Output
        (
            "+tool\noutput = \"jsn\"\n",
            &["jobs.toml:7: `output` must be one of \"text\", \"json\", not \"jsn\""],
        ),
        (
            "+tool\noutput_schema = \"array.json\"\n",
            &["jobs.toml:7: `output_schema` needs output = \"json\""],
        ),
        (
            "+tool\nprogress = \"(\"\n",
            &["jobs.toml:7: `progress` is not a regular expression: unclosed group"],
        ),
        (
            "+tool\nprogress = '(\\d+)%'\n",
            &[
                "jobs.toml:7: `progress` needs a group `current`, and may have one `total`: '(?<current>\\d+)/(?<total>\\d+)'",
            ],
        ),
        // Running
        (
            "+tool\ntask = \"sometimes\"\n",
            &["jobs.toml:7: `task` must be one of \"never\", \"optional\", \"after\", \"always\", not \"sometimes\""],
        ),
        (
            "+tool\ntask_after = 5\n",
            &["jobs.toml:7: `task_after` must be a duration such as \"500ms\", \"5s\", \"1h\" or \"7d\", not 5"],
        ),
        (
            "+tool\nconcurrency = 0\n",
            &["jobs.toml:7: `concurrency` must be a whole number from 1 to 10000, not 0"],
        ),
        (
            "+tool\nretry = 3\n",
            &[
                "jobs.toml:7: `retry` must be a table such as { attempts = 3, backoff = \"10s\", on = [\"crash\"] }, not 3",
            ],
        ),
        (
            "+tool\nretry = { attempt = 3, on = [\"crsh\"] }\n",
            &[
                "jobs.toml:7: `retry` needs the key `attempts`",
                "jobs.toml:7: `on` must be one of \"crash\", \"error\", not \"crsh\"",
                "jobs.toml:7: unknown key `attempt` in `retry`; did you mean `attempts`?",
            ],
        ),
        (
            "+tool\nretry = { attempts = 2, on = [] }\n",
            &["jobs.toml:7: `on` must name \"crash\", \"error\" or both; leave out `retry` for no retries"],
        ),
        (
            "+tool\nhandoff = \"45s\"\n[[tool]]\nname = \"task_wait\"\ndescription = \"d\"\ncommand = [\"true\"]\n",
            &[
                "jobs.toml:8: the server adds a tool `task_wait` of its own, because a tool in this file has `handoff`: rename this one",
            ],
        ),
        (
            "+tool\nhandoff = \"45s\"\ntask = \"never\"\n",
            &[
                "jobs.toml:7: `handoff` tells a caller how to follow its call as a task, and task = \"never\" makes none: leave one of them out",
            ],
        ),
        (
            "+tool\nretention = \"2d\"\nmax_retention = \"1d\"\n",
            &[
                "jobs.toml:8: `max_retention` is shorter than `retention`: it is the longest time that a client can request, and `retention` is the time without a request",
            ],
        ),
        (
            "+tool\nretention = \"forever\"\nmax_retention = \"1d\"\n",
            &[
                "jobs.toml:8: `max_retention` is shorter than `retention`: it is the longest time that a client can request, and `retention` is the time without a request",
            ],
        ),
        (
            "+tool\ntimeout = \"45s\"\n[server.limits]\n",
            &["jobs.toml:7: unknown key `timeout` in [[tool]] `t`; did you mean `deadline`?"],
        ),
        // Values that no command line can hold
        (
            "+t\ncommand = [\"ls\", \"{o}\", \"{l}\", \"--all={l}\", \"{m}\", \"{r}\"]\n[tool.input]\no = { type = \"object\" }\nl = { type = \"array\" }\nm = { type = [\"array\", \"null\"], items = { type = \"object\" } }\nr = { \"$ref\" = \"#/properties/o\" }\n",
            &[
                "jobs.toml:6: `command`: `o` is an object, which cannot be text: make its members properties of the input",
                "jobs.toml:6: `command`: `l` is an array, which gives one argument for each element: it must be a whole argument, \"{l}\"",
                "jobs.toml:6: `command`: `m` has elements that are objects or arrays, which cannot be arguments",
                "jobs.toml:6: `command`: `r` is an object, which cannot be text: make its members properties of the input",
            ],
        ),
        (
            "+t\ncommand = [\"curl\", \"-d\", '{\"a\": 1}', '{\"a\": {\"b\": 1}}']\n",
            &[
                "jobs.toml:6: `command`: `{\"a\": 1}` is not a property of the input; for braces as they stand write `{{\"a\": 1}}`",
                "jobs.toml:6: `command`: column 1: `{` is never closed; write `{name}` for a property, `{{` for a literal brace",
            ],
        ),
        (
            "+tool\nannotations = { readonlyHint = true, idempotentHint = 1 }\n",
            &[
                "jobs.toml:7: `idempotentHint` must be true or false, not 1",
                "jobs.toml:7: unknown key `readonlyHint` in `annotations`; did you mean `readOnlyHint`?",
            ],
        ),
        // Upstreams.
        (
            "+server\n[upstream.a]\nurll = \"http://h/mcp\"\n",
            &[
                "jobs.toml:3: [upstream.a] needs `command = [\"program\", …]` or `url = \"https://…\"`",
                "jobs.toml:4: unknown key `urll` in [upstream.a]; did you mean `url`?",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"ftp://h\"\nshared = 1\n[upstream.\"a b\"]\nurl = \"http://h/mcp\"\n",
            &[
                "jobs.toml:4: `url` must begin with http:// or https://",
                "jobs.toml:5: `shared` must be true or false, not 1",
                "jobs.toml:6: \"a b\" is no name for an upstream: use 1 to 64 of the characters A-Z a-z 0-9 _ -",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"http://h/mcp\"\nenv = { A = \"1\" }\n[upstream.b]\ncommand = [\"sh\"]\nheaders = { A = \"1\" }\n",
            &[
                "jobs.toml:5: `env` is for an upstream with `command`: leave it out",
                "jobs.toml:8: `headers` is for an upstream with `url`: leave it out",
            ],
        ),
        (
            "+server\n[upstream.a]\ncommand = []\nurl = \"http://h\"\n[upstream.b]\ncommand = []\n",
            &[
                "jobs.toml:5: [upstream.a] has both `command` and `url`: leave one of them out",
                "jobs.toml:7: `command` must name a program, such as [\"npx\", \"-y\", \"some-server\"]",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"http://h/mcp\"\nheaders = { A = \"${NO_SUCH_VARIABLE}\" }\ntools = { deny = [\"a b\"] }\n[upstream.a.tool.\"x*\"]\ntask = \"soon\"\n",
            &[
                "jobs.toml:5: `headers.A`: the variable NO_SUCH_VARIABLE is not set",
                "jobs.toml:6: `a b` is not a name of tools: write letters, digits and _ - . / :, with * for any characters",
                "jobs.toml:8: `task` must be one of \"never\", \"optional\", \"after\", \"always\", not \"soon\"",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"http://h/mcp\"\nauth = { login = true, client_id = \"x\" }\n[upstream.b]\ncommand = [\"sh\"]\nauth = { login = true }\n",
            &[
                "jobs.toml:5: `auth` must be a table such as { login = true }, or { client_id = \"…\", client_secret = \"${SECRET}\" }, and not a part or a mixture of them",
                "jobs.toml:8: `auth` is for an upstream with `url`: leave it out",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"http://h/mcp\"\nauth = { client_id = \"x\", client_secret = \"y\", issuer = \"http://h\" }\n",
            &["jobs.toml:5: issuer \"http://h\" cannot be used: use https://, or http:// to this machine"],
        ),
        (
            "+server\nlisten = \"0.0.0.0:7411\"\nauth = { api_key = true }\n+tool\n",
            &["jobs.toml:4: unknown key `api_key` in [server.auth]; did you mean `api_keys`?"],
        ),
        (
            "+server\npublic_url = \"https://h/mcp\"\n[[server.auth.issuer]]\nissuer = \"https://h\"\njwks = \"https://h/keys\"\nscopes = { a = [\"tools\"], b = 1, c = [\"x\", \"y\"] }\n+tool\n",
            &[
                "jobs.toml:7: `scopes`: `tools` is not a permission: write tools:NAME (with * for any characters), tasks:read, tasks:write or resources:read",
                "jobs.toml:7: `scopes.b` must be an array of strings, not 1",
                "jobs.toml:7: `scopes`: `x` is not a permission: write tools:NAME (with * for any characters), tasks:read, tasks:write or resources:read",
                "jobs.toml:7: `scopes`: `y` is not a permission: write tools:NAME (with * for any characters), tasks:read, tasks:write or resources:read",
            ],
        ),
        (
            "+server\n[upstream.a]\nurl = \"http://h/mcp\"\nshared = true\nauth = { login = \"per-principal\" }\n[upstream.b]\nurl = \"http://h/mcp\"\nauth = { login = \"per_user\" }\n",
            &[
                "jobs.toml:3: [upstream.a] has `shared = true`, so all clients have one connection, and `login = \"per-principal\"`: leave one of them out",
                "jobs.toml:9: `login` must be true, false or \"per-principal\", not \"per_user\"",
            ],
        ),
        (
            "+server\n[upstream.a]\ncommand = [\"sh\"]\n[upstream.a.job.render]\nsubmit = \"s\"\nid = \"id\"\nstate = \"\"\ndone = []\npol = \"5s\"\n",
            &[
                "jobs.toml:5: the job `render` needs the key `status`",
                "jobs.toml:7: `id` must be a JSON pointer such as \"/job/id\", or \"\" for all of the result, not \"id\"",
                "jobs.toml:9: `done` must name a state",
                "jobs.toml:10: unknown key `pol` in the job `render`; did you mean `poll`?",
            ],
        ),
        (
            "+server\n[upstream.a]\ncommand = [\"sh\"]\n[upstream.a.job.render]\nsubmit = \"s\"\nstatus = \"t\"\nid = \"/id\"\nstate = \"\"\ndone = [\"done\", \"DONE\", \"Over\"]\nfailed = [\"bad\", \"OVER\"]\n",
            &[
                "jobs.toml:11: `failed`: the state \"OVER\" is \"Over\" in `done`: upper and lower case are the same, so leave it out of one of them",
            ],
        ),
    ];
    let mut surprises = String::new();
    for (text, expected) in table {
        let text = complete(text);
        let folder = folder_with(&text);
        fs::write(folder.path().join("in.json"), r#"{"type":"object"}"#).unwrap();
        fs::write(folder.path().join("array.json"), r#"{"type":"array"}"#).unwrap();
        fs::write(
            folder.path().join("file_ref.json"),
            r#"{"type":"object","$ref":"other.json"}"#,
        )
        .unwrap();
        let found = problems_in(&folder);
        if found != *expected {
            surprises.push_str(&format!(
                "--- in\n{text}--- expected {expected:#?}\n--- found {found:#?}\n"
            ));
        }
    }
    assert!(surprises.is_empty(), "{surprises}");
}

/// `+server` and `+tool` stand for sound sections, `+t` for a tool without its command; what has no `+server` and no `[`
/// first gets one.
fn complete(text: &str) -> String {
    let text = if text.starts_with("+t") {
        format!("+server\n{text}")
    } else {
        text.to_owned()
    };
    let text = text
        .replace("+server\n", SERVER)
        .replace("+tool", &format!("{TOOL}command = [\"true\"]\n"));
    text.replace("+t\n", TOOL).replace("]\n\n", "]\n")
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_and_in_order() {
    let folder = folder_with(
        "[server]\nlisten = 1\nnam = \"x\"\n[[tool]]\nname = \"a\"\ntask = \"x\"\n[[tool]]\nname = \"b\"\nconcurrency = 0\n",
    );
    let lines: Vec<String> = problems_in(&folder);
    let numbers: Vec<&str> = lines.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "4", "6", "7", "7", "9"], "{lines:#?}");
}

/// One mistake of a tool hides none of the others.
#[test]
fn all_mistakes_of_a_tool_are_reported_at_once() {
    let folder = folder_with(&format!(
        r#"{SERVER}[[tool]]
name = "a b"
command = [
 "",
 7,
 "{{a}} {{b}}",
 "{{nobody}} {{noone}}",
 "{{",
]
stdin = "{{o}}"
cwd = "nowhere"
allow_leading_dash = ["x"]
optional = ["y"]
task = "never"
handoff = "1x"
timeout = "1s"
[tool.input]
a = {{ type = "strin" }}
b = {{ type = "string", pattern = "(" }}
c = 5
o = {{ type = "object" }}
"#
    ));
    let lines = problems_in(&folder);
    let numbers: Vec<&str> = lines.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(
        numbers,
        [
            "3", "4", "6", "7", "9", "9", "10", "12", "14", "15", "17", "17", "18", "20", "21", "22"
        ],
        "{lines:#?}"
    );
}
#[test]
fn a_file_that_is_not_there_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        problems_in(&folder),
        ["jobs.toml: cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn secrets_in_env_are_not_repeated() {
    let folder = folder_with(&format!(
        "{SERVER}{TOOL}command = [\"true\"]\nenv = {{ \"A=\" = \"hunter2\" }}\n"
    ));
    assert!(!problems_in(&folder).concat().contains("hunter2"));
}

/// Whoever turns the check off means that it is not enough, and not that everyone may come in.
#[test]
fn without_the_check_of_users_something_else_decides() {
    let alone = "`same_user = false` alone leaves nobody who may come in: add `api_keys = true`";
    for (listen, auth, is_fine) in [
        ("", "same_user = false", false),
        ("listen = \"unix:/run/mcp.sock\"", "same_user = false", false),
        ("", "same_user = false\napi_keys = true", true),
        (
            "",
            "same_user = false\nunauthenticated = \"anyone may call every tool\"",
            true,
        ),
        ("", "same_user = true", true),
    ] {
        let text = format!("{SERVER}{listen}\n[server.auth]\n{auth}\n{TOOL}command = [\"true\"]\n");
        let folder = folder_with(&text);
        let loaded = load(&folder.path().join("jobs.toml"), &environment());
        match loaded {
            Ok(_) => assert!(is_fine, "{listen} {auth}"),
            Err(error) => assert!(
                !is_fine && error.to_string().contains(alone),
                "{listen} {auth}: {error}"
            ),
        }
    }
}

#[test]
fn an_audit_log_needs_its_folder() {
    let folder = folder_with(&format!(
        "{SERVER}[server.audit]\nfile = \"logs/audit.jsonl\"\n{TOOL}command = [\"true\"]\n"
    ));
    let problems = problems_in(&folder);
    assert!(
        problems.len() == 1 && problems[0].contains("`file`: there is no folder"),
        "{problems:?}"
    );
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    assert!(load(&folder.path().join("jobs.toml"), &environment()).is_ok());
    // The server makes its data directory before it opens the log.
    let folder = folder_with(&format!(
        "{SERVER}data_dir = \"data\"\n[server.audit]\nfile = \"data/audit.jsonl\"\n{TOOL}command = [\"true\"]\n"
    ));
    assert!(load(&folder.path().join("jobs.toml"), &environment()).is_ok());
}

/// Lines in the database are as bad as a rotation that moves it away.
#[test]
fn an_audit_log_is_no_file_of_longhaul() {
    for (file, why) in [
        ("jobs.toml", "this is the configuration file"),
        ("data/longhaul.db", "is in the data directory"),
        ("data/../data/owner.log", "is in the data directory"),
        ("data/attempts/audit.jsonl", "is in the data directory"),
    ] {
        let folder = folder_with(&format!(
            "{SERVER}data_dir = \"data\"\n[server.audit]\nfile = \"{file}\"\n{TOOL}command = [\"true\"]\n"
        ));
        std::fs::create_dir_all(folder.path().join("data/attempts")).unwrap();
        let problems = problems_in(&folder);
        assert!(problems.len() == 1 && problems[0].contains(why), "{file}: {problems:?}");
    }
}
