use super::*;
use crate::config::{self, Environment};

/// A file in a folder of its own, drafted. What is drafted can be served.
fn drafted(name: &str, text: &str, others: &[(&str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("shop");
    for (name, text) in std::iter::once(&(name, text)).chain(others) {
        let file = workspace.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let drafted = draft(&workspace.join(name)).map_err(|error| error.to_string())?;
    let environment = Environment {
        variable: |name| (name == "USER").then(|| "value".to_owned()),
        ..Environment::of_this_process()
    };
    // Such a file is not here.
    let text = drafted.1.replace("env_file = ", "# env_file = ");
    if let Err(error) = config::load_generated(&workspace.join("tools.toml"), text.clone(), &environment) {
        panic!("{error}\n{text}");
    }
    let home = workspace.canonicalize().unwrap().display().to_string();
    Ok(drafted.1.replace(&home, "/shop"))
}

fn section<'a>(text: &'a str, tool: &str) -> &'a str {
    let name = format!("[[tool]]\nname = \"{tool}\"\n");
    let (_, section) = text.split_once(&name).unwrap_or_else(|| panic!("no {tool} in {text}"));
    section.split("\n\n").next().unwrap()
}

#[test]
fn tasks_of_vs_code_run_without_it() {
    let text = drafted(
        ".vscode/tasks.json",
        r#"{
            // Comments and trailing commas are usual here.
            "version": "2.0.0",
            "tasks": [
                {"label": "Build", "type": "process", "command": "make", "args": ["-C", "${workspaceFolder}/src", "{all}"], "group": "build"},
                {"label": "test one", "type": "shell", "command": "pytest -k ${input:filter} | tee log", "dependsOn": "Build"},
                {"label": "deploy", "type": "shell", "command": "./deploy.sh", "args": ["${input:target}", "--user=${env:USER}"],
                 "options": {"cwd": "ops", "env": {"STAGE": "${input:target}"}}, "problemMatcher": []},
                {"type": "npm", "script": "lint", "path": "web"},
                {"label": "env", "type": "shell", "command": "source ./env && make"},
                {"label": "mode", "type": "shell", "command": "FOO=1 make"},
                {"label": "gulp", "type": "gulp", "task": "x"},
            ],
            "inputs": [
                {"id": "filter", "type": "promptString", "description": "which tests", "default": "it's"},
                {"id": "target", "type": "pickString", "options": ["dev", {"label": "live", "value": "prod"}]},
            ]
        }"#,
        &[],
    )
    .unwrap();
    let build = section(&text, "Build");
    assert!(
        build.contains("command = [\"make\", \"-C\", \"/shop/src\", \"{{all}}\"]"),
        "{build}"
    );
    let test = section(&text, "test_one");
    assert!(
        test.contains(r#"command = ["sh", "-c", "pytest -k \"${{1}}\" | tee log", "sh", "{filter}"]"#),
        "{test}"
    );
    assert!(
        test.contains(
            r#""filter" = { type = "string", description = "which tests", pattern = "^[A-Za-z0-9_][A-Za-z0-9_./-]*$" }"#
        ),
        "{test}"
    );
    let deploy = section(&text, "deploy");
    assert!(
        deploy.contains(r#"--user=\"${{USER}}\"", "sh", "{target}"]"#),
        "{deploy}"
    );
    assert!(
        deploy.contains("cwd = \"/shop/ops\"") && deploy.contains("env = { STAGE = \"{target}\" }"),
        "{deploy}"
    );
    assert!(deploy.contains(r#""target" = { enum = ["dev", "prod"] }"#), "{deploy}");
    assert!(section(&text, "lint").contains(r#"command = ["npm", "--prefix", "web", "run", "lint"]"#));
    assert!(
        section(&text, "mode").contains(r#"command = ["sh", "-c", "FOO=1 make", "sh"]"#),
        "{text}"
    );
    for left_out in ["dependsOn", "problemMatcher", "`gulp` belongs to an extension"] {
        assert!(
            text.contains("# left out: ") && text.contains(left_out),
            "{left_out}: {text}"
        );
    }
}

#[test]
fn recipes_of_just_are_run_by_just() {
    let text = drafted(
        "justfile",
        "set shell := ['bash', '-c']\nalias b := build\nversion := '1'\n\n# Build for a target\nbuild target='debug' *flags: (clean)\n  cargo build\n\n[confirm('Sure?')]\nclean:\n  rm -r target\n\n[private]\nhidden:\n  true\n[macos]\ntest names:\n  y\n\n_also:\n  true\ntest +names:\n  x\nat time=`date`:\n  x\n",
        &[],
    )
    .unwrap();
    let build = section(&text, "build");
    assert!(build.contains("description = \"Build for a target\""), "{build}");
    assert!(
        build.contains(r#"["just", "--yes", "--justfile", "/shop/justfile", "build", "{target}", "{flags}"]"#),
        "{build}"
    );
    assert!(
        build.contains("optional = [\"flags\"]") && build.contains("default = \"debug\""),
        "{build}"
    );
    assert!(text.contains("confirm = \"Sure?\""), "{text}");
    assert!(section(&text, "test").contains("minItems = 1"));
    assert!(
        section(&text, "test").contains("pattern = ") && text.contains("since just may put"),
        "{text}"
    );
    assert!(text.contains("the default of `time` is an expression"), "{text}");
    assert!(
        !text.contains("hidden") && !text.contains("_also") && !text.contains("version"),
        "{text}"
    );
}

#[test]
fn tasks_of_mise_keep_their_options() {
    let text = drafted(
        "mise.toml",
        "[tools]\nnode = '22'\n[tasks]\nlint = 'eslint .'\n[tasks.deploy]\ndescription = 'Deploy it'\ndepends = ['lint']\nconfirm = 'Deploy?'\nusage = '''\narg \"<stage>\" help=\"where to\" {\n  choices \"dev\" \"prod\"\n}\nflag \"-v --verbose\" help=\"say more\"\nflag \"--tag <tag>\"\narg \"[files]…\"\n'''\nrun = './deploy'\n[tasks.old]\nrun = 'x {{arg(name=\"who\", default=\"me\")}}'\n[tasks.inner]\nhide = true\nrun = 'x'\n",
        &[],
    )
    .unwrap();
    let deploy = section(&text, "deploy");
    let command = r#"["mise", "run", "--yes", "deploy", "{stage}", { if = "verbose", then = ["--verbose"] }, ["--tag", "{tag}"], "{files}"]"#;
    assert!(deploy.contains(command), "{deploy}");
    assert!(
        deploy.contains("optional = [\"tag\", \"files\"]") && deploy.contains("default = false"),
        "{deploy}"
    );
    assert!(section(&text, "old").contains("default = \"me\""));
    assert!(
        text.contains("since mise may put them into a script") && deploy.contains("pattern = "),
        "{text}"
    );
    assert!(text.contains("# left out: the hidden task `inner`"), "{text}");
}

#[test]
fn a_unit_comes_with_its_timer() {
    let timer = "[Timer]\nOnCalendar=Mon..Fri 03:30\nOnCalendar=Sun *-*-* 05:00:00\nPersistent=true\nRandomizedDelaySec=10min\nAccuracySec=1h\n[Install]\nWantedBy=timers.target\n";
    let service = "[Unit]\nDescription=Back up /srv\nAfter=network-online.target\n[Service]\nType=oneshot\nUser=backup\nEnvironmentFile=/etc/restic.env\nEnvironment=\"A=b {c}\" RESTIC_CACHE=/var/cache/restic\nExecStart=/usr/bin/restic backup --tag daily \\\n   /srv\nSuccessExitStatus=3\nTimeoutStartSec=2h\nTimeoutStopSec=30\nKillSignal=SIGINT\nNice=10\n";
    for name in ["restic.service", "restic.timer"] {
        let (text, others) = match name {
            "restic.service" => (service, [("restic.timer", timer)]),
            _ => (timer, [("restic.service", service)]),
        };
        let text = drafted(name, text, &others).unwrap();
        let tool = section(&text, "restic");
        for expected in [
            r#"command = ["/usr/bin/restic", "backup", "--tag", "daily", "/srv"]"#,
            r#"env = { A = "b {{c}}", RESTIC_CACHE = "/var/cache/restic" }"#,
            r#"env_file = "/etc/restic.env""#,
            r#"timeout = "2h""#,
            r#"stop = { signal = "INT", grace = "30s" }"#,
            "success = [0, 3]",
        ] {
            assert!(tool.contains(expected), "{expected}: {tool}");
        }
        for expected in [
            "UTC\n[[schedule]]\nname = \"restic-1\"\ntool = \"restic\"\ncron = \"30 3 * * 1-5\"\noverlap = \"skip\"\ncatch_up = \"last\"\njitter = \"10m\"\n",
            "cron = \"0 5 * * 0\"",
            "# left out: AccuracySec=1h",
            "# left out: Nice=10",
            "# left out: User=backup",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

#[test]
fn a_timer_without_a_schedule_says_what_it_leaves_out() {
    let timer = "[Timer]\nOnBootSec=15min\nOnCalendar=*-*-* *:*:0/10\n";
    let service = "[Service]\nExecStart=/bin/true\nEnvironment=A=b\nEnvironmentFile=/etc/a.env\n";
    let text = drafted("a.service", service, &[("a.timer", timer)]).unwrap();
    assert!(!text.contains("[[schedule]]"), "{text}");
    for left_out in [
        "OnBootSec=15min",
        "OnCalendar=*-*-* *:*:0/10",
        "the order of EnvironmentFile and Environment",
    ] {
        assert!(text.contains(&format!("# left out: {left_out}")), "{text}");
    }
}

#[test]
fn what_a_unit_leaves_to_systemd_is_a_script() {
    let text = drafted(
        "dump@.service",
        "[Service]\nExecStartPre=-/bin/mkdir -p /backup/%i\nExecStart=/bin/sh -c 'pg_dump \"$0\" > /backup/x' %i\nExecStartPost=/bin/echo $FLAGS ${NAME}/x 100%% ; /bin/echo %i $$x\nWorkingDirectory=/srv/%H\n",
        &[],
    )
    .unwrap();
    assert!(text.contains("# left out: the specifier %H"), "{text}");
    let tool = section(&text, "dump");
    let script = r#""set -e\n/bin/mkdir -p /backup/\"${{1}}\" || true\n/bin/sh -c 'pg_dump"#;
    assert!(tool.contains(script), "{tool}");
    assert!(
        tool.contains(r#"/bin/echo $FLAGS \"${{NAME}}\"/x 100%\n/bin/echo \"${{1}}\" '$x'", "sh", "{instance}"]"#),
        "{tool}"
    );
}

#[test]
fn a_workflow_is_started_with_its_inputs() {
    let text = drafted(
        ".github/workflows/deploy.yml",
        "name: Deploy it\non:\n  push:\n    branches: [main]\n  workflow_dispatch:\n    inputs:\n      stage:\n        description: where to\n        type: choice\n        options: [dev, prod]\n        required: true\n      dry-run:\n        type: boolean\n        default: 'true'\n      note:\n        description: why\njobs: {}\n",
        &[],
    )
    .unwrap();
    let tool = section(&text, "deploy");
    let command = r#"command = ["gh", "workflow", "run", "deploy.yml", ["--ref", "{ref}"], ["-f", "stage={stage}"], ["-f", "dry-run={dry_run}"], ["-f", "note={note}"]]"#;
    assert!(tool.contains(command), "{tool}");
    assert!(
        tool.contains("cwd = \"/shop\"") && tool.contains("optional = [\"ref\", \"note\"]"),
        "{tool}"
    );
    assert!(
        tool.contains(r#""dry_run" = { type = "boolean", default = true }"#),
        "{tool}"
    );
    assert!(text.contains("# left out: on.push"), "{text}");
    assert_eq!(
        drafted("x.yml", "on: [push]\n", &[]).unwrap_err().rsplit(": ").next(),
        Some("its `on` has no workflow_dispatch, so it cannot be started from outside")
    );
}

#[test]
fn what_is_no_file_of_jobs_is_named() {
    for (name, text, why) in [
        ("a.txt", "", "none of the files"),
        ("tasks.json", "{", ""),
        ("tasks.json", "{}", "no array `tasks`"),
        ("mise.toml", "[tools]", "no [tasks]"),
        ("x.service", "[Service]\nType=oneshot\n", "no ExecStart"),
        ("x.service", "nonsense\n", "is no setting"),
        ("x.timer", "[Timer]\nOnCalendar=daily\n", "its service is not beside it"),
        ("x.yaml", "a: [", ""),
        ("justfile", "a := b\n", "no recipe"),
    ] {
        let error = drafted(name, text, &[]).unwrap_err();
        assert!(error.contains(why) && error.contains(name), "{error}");
    }
}
