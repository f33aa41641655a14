//! Placeholders inside the scripts of interpreters are found, whatever starts the interpreter; arguments beside a script are not.
#![allow(clippy::unwrap_used)]

use longhaul_command::{CommandElement, CommandSwitch, HarmlessValues, StandardInput, placeholders_in_scripts};
use proptest::prelude::*;
use std::{collections::BTreeSet, process::Command};

fn elements(command: &[&str]) -> Vec<Option<usize>> {
    found(command, "", &[])
}

fn found(command: &[&str], stdin: &str, dashes: &[&str]) -> Vec<Option<usize>> {
    let dashes: BTreeSet<String> = dashes.iter().map(|name| (*name).to_owned()).collect();
    placeholders_in_scripts(
        &owned(command),
        StandardInput::Template(stdin),
        &dashes,
        &HarmlessValues::default(),
    )
    .into_iter()
    .map(|placeholder| placeholder.element)
    .collect()
}

fn owned(command: &[&str]) -> Vec<CommandElement> {
    command.iter().map(|word| (*word).into()).collect()
}

/// What is said of a command that reads nothing.
fn said(command: &[CommandElement]) -> Vec<(Option<usize>, String)> {
    let nothing = StandardInput::Template("");
    placeholders_in_scripts(command, nothing, &BTreeSet::new(), &HarmlessValues::default())
        .into_iter()
        .map(|placeholder| (placeholder.element, placeholder.code))
        .collect()
}

fn group(words: &[&str]) -> CommandElement {
    CommandElement::Group(words.iter().map(|word| (*word).to_owned()).collect())
}

fn switch(then: &[&str], otherwise: &[&str]) -> CommandElement {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    CommandElement::Switch(CommandSwitch {
        property: "b".to_owned(),
        then: owned(then),
        otherwise: owned(otherwise),
    })
}

/// Whatever of a list or a switch appears.
#[test]
fn a_placeholder_in_a_script_of_a_list_or_a_switch_is_found() {
    let x = "`{x}` stands in a script".to_owned();
    for (element, command) in [
        (1, vec!["sh".into(), group(&["-c", "{x}"])]),
        (2, vec!["sh".into(), "-c".into(), group(&["echo {x}"])]),
        (1, vec!["perl".into(), group(&["-e{x}"])]),
        (1, vec!["sh".into(), switch(&["-c", "{x}"], &[])]),
        (1, vec!["sh".into(), switch(&["-e"], &["-c", "{x}"])]),
        // Only without the list, or the file of the switch, the last word is a script.
        (3, vec!["sh".into(), group(&["{file}"]), "-c".into(), "{x}".into()]),
        (
            3,
            vec!["sh".into(), switch(&["file.sh"], &[]), "-c".into(), "{x}".into()],
        ),
        (
            3,
            vec![
                "nsenter".into(),
                switch(&["sh"], &[]),
                switch(&[], &["-c"]),
                "{x}".into(),
            ],
        ),
        // A list that repeats.
        (1, vec!["sqlite3".into(), group(&["{x}"]), "select 1".into()]),
    ] {
        assert_eq!(said(&command), [(Some(element), x.clone())], "{command:?}");
    }
    for sound in [
        vec!["restic".into(), group(&["--tag", "{x}"]), switch(&["-v"], &["-q"])],
        vec![
            "sh".into(),
            "-c".into(),
            "echo $1".into(),
            "sh".into(),
            group(&["--tag", "{x}"]),
        ],
        vec!["sh".into(), switch(&["-x"], &[]), "script.sh".into(), group(&["{x}"])],
    ] {
        assert_eq!(said(&sound), [], "{sound:?}");
    }
}

#[test]
fn a_file_that_a_caller_fills_is_no_script() {
    let code = "`{x:file}` is a script".to_owned();
    for (element, command) in [
        (1, &["bash", "{x:file}"][..]),
        (2, &["python3", "-u", "{x:file}", "a"]),
        (2, &["awk", "-f", "{x:file}", "data"]),
        (1, &["sed", "--file={x:file}"]),
        (2, &["node", "--require", "{x:file}", "main.js"]),
        (2, &["sudo", "bash", "{x:file}"]),
    ] {
        assert_eq!(said(&owned(command)), [(Some(element), code.clone())], "{command:?}");
    }
    let in_script = "`{x:file}` stands in a script".to_owned();
    assert_eq!(said(&owned(&["sh", "-c", "wc {x:file}"])), [(Some(2), in_script)]);
    for sound in [
        &["python3", "main.py", "{x:file}"][..],
        &["sh", "-c", "wc -l \"$1\"", "sh", "{x:file}"],
        &["ssh", "-i", "{x:file}", "host"],
        &["wc", "-l", "{x:file}"],
        &["grep", "-f", "{x:file}", "sh"],
    ] {
        assert_eq!(said(&owned(sound)), [], "{sound:?}");
    }
}

#[test]
fn all_arguments_as_json_are_no_script() {
    let found = |command: &[&str]| {
        let harmless = HarmlessValues::default();
        placeholders_in_scripts(&owned(command), StandardInput::Json, &BTreeSet::new(), &harmless).len()
    };
    assert_eq!((found(&["sh"]), found(&["python3", "-"])), (1, 1));
    assert_eq!((found(&["jq", "."]), found(&["python3", "main.py"])), (0, 0));
}

/// Each with the element that is code.
#[test]
fn a_placeholder_in_a_script_is_found() {
    let table: &[(usize, &[&str])] = &[
        (2, &["sh", "-c", "echo hi {x}"]),
        (2, &["/bin/sh", "-c", "{x}"]),
        (2, &["bash", "-lc", "{x}", "bash", "a"]),
        (2, &["bash", "-ec", "a {x}"]),
        (3, &["bash", "-c", "-e", "{x}"]),
        (3, &["bash", "-c", "--", "{x}"]),
        (5, &["bash", "-o", "pipefail", "-e", "-c", "{x}"]),
        (3, &["bash", "-ceuo", "pipefail", "{x}"]),
        (4, &["bash", "--rcfile", "f", "-c", "{x}"]),
        (3, &["bash", "+x", "-c", "{x}"]),
        (1, &["bash", "-{x}", "script"]),
        (2, &["dash", "-c", "{x}"]),
        (2, &["zsh", "-fc", "{x}"]),
        (2, &["ksh93", "-c", "{x}"]),
        (2, &["fish", "-c", "{x}"]),
        (1, &["fish", "--command={x}"]),
        (3, &["busybox", "sh", "-c", "{x}"]),
        (2, &["busybox", "awk", "{x}"]),
        (2, &["python", "-c", "{x}"]),
        (2, &["/usr/bin/python3.11", "-c", "import os; {x}"]),
        (2, &["python3", "-Ic", "{x}"]),
        (1, &["python3", "-cprint({x})"]),
        (4, &["python3", "-W", "ignore", "-c", "{x}"]),
        (2, &["perl", "-e", "{x}"]),
        (2, &["perl", "-E", "{x}"]),
        (2, &["perl", "-0777ne", "{x}"]),
        (4, &["perl", "-e", "1;", "-e", "{x}"]),
        (1, &["perl", "-e{x}"]),
        (1, &["perl", "-M{x}"]),
        (2, &["ruby", "-ne", "{x}"]),
        (2, &["node", "-e", "{x}"]),
        (2, &["node", "-pe", "{x}"]),
        (2, &["node", "--eval", "{x}"]),
        (1, &["node", "--print={x}"]),
        (4, &["node", "--require", "m", "-e", "{x}"]),
        (2, &["php", "-r", "{x}"]),
        (2, &["lua5.4", "-e", "{x}"]),
        (2, &["Rscript", "-e", "{x}"]),
        (2, &["deno", "eval", "{x}"]),
        (2, &["pwsh", "-Command", "{x}"]),
        (1, &["awk", "{x}"]),
        (3, &["gawk", "-F", ":", "{{ print ${x} }}"]),
        (2, &["sed", "-e", "s/a/{x}/"]),
        (3, &["sed", "-n", "-i.bak", "{x}", "file"]),
        (3, &["psql", "db", "-c", "select '{x}'"]),
        (2, &["sqlite3", "db", "{x}"]),
        (4, &["env", "A=b", "sh", "-c", "{x}"]),
        (2, &["env", "-S", "sh -c {x}"]),
        (1, &["env", "--split-string=ls {x}"]),
        (5, &["sudo", "-u", "you", "bash", "-c", "{x}"]),
        (5, &["nice", "-n", "5", "sh", "-c", "{x}"]),
        (4, &["timeout", "{t}", "sh", "-c", "{x}"]),
        (3, &["nohup", "sh", "-c", "{x}"]),
        (5, &["xargs", "-n", "1", "sh", "-c", "{x}"]),
        (5, &["find", "{path}", "-exec", "sh", "-c", "{x}", ";"]),
        (4, &["find", "{path}", "-exec", "awk", "{x}", ";"]),
        (6, &["docker", "run", "-i", "image", "sh", "-c", "{x}"]),
        (3, &["some-wrapper-of-mine", "sh", "-c", "{x}"]),
        (3, &["ssh", "host", "ls", "{x}"]),
        (4, &["ssh", "-p", "22", "host", "ls {x}"]),
        (1, &["ssh", "-oProxyCommand={x}", "host"]),
        (3, &["su", "you", "-c", "{x}"]),
        (1, &["su", "--command={x}"]),
        (3, &["flock", "file", "-c", "{x}"]),
        (2, &["watch", "ls", "{x}"]),
        (3, &["npm", "exec", "-c", "eslint {x}"]),
        (4, &["npm", "exec", "--package=a", "--call", "a {x}"]),
        (2, &["npm", "exec", "--call=a {x}"]),
        (2, &["npx", "-c", "eslint {x}"]),
        (4, &["npx", "-p", "eslint", "--call", "{x}"]),
        (2, &["git", "-c", "alias.x=!echo {x}", "x"]),
        (4, &["git", "-C", "/srv", "-c", "core.sshCommand={x}", "fetch"]),
        (2, &["git", "-c", "{x}", "log"]),
        (2, &["git", "-c", "core.{x}=1", "log"]),
        (2, &["git", "-c", "diff.{x}.textconv=cat", "log"]),
        (2, &["mongosh", "--eval", "{x}"]),
        (2, &["redis-cli", "eval", "{x}", "0"]),
        (2, &["gdb", "-ex", "{x}"]),
        (2, &["vim", "-c", "{x}"]),
        (2, &["rsync", "-e", "{x}", "a", "b"]),
        (1, &["rsync", "--rsh={x}", "a", "b"]),
        (5, &["ansible", "all", "-m", "shell", "-a", "{x}"]),
        (1, &["hyperfine", "{x}"]),
        (1, &["socat", "EXEC:{x}", "-"]),
        (2, &["socat", "-", "EXEC:{x}"]),
        (1, &["sort", "--compress-program={x}"]),
        (2, &["man", "-P", "{x}", "ls"]),
        (1, &["make", "VAR={x}"]),
        (3, &["make", "-C", "/srv", "{target}"]),
        (2, &["make", "all", "A={x}"]),
        (1, &["make", "--eval={x}"]),
        (2, &["make", "-E", "{x}"]),
        (3, &["nice", "make", "all", "A={x}"]),
        (
            4,
            &[
                "tar",
                "-cf",
                "a.tar",
                "--checkpoint=1",
                "--checkpoint-action=exec={x}",
                ".",
            ],
        ),
        (2, &["tar", "--checkpoint-action", "exec={x}", "-cf", "a", "."]),
        (1, &["tar", "--checkpoint-action={x}", "-cf", "a", "."]),
        (3, &["tar", "-xf", "a.tar", "--to-command={x}"]),
        (2, &["tar", "-I", "{x}", "-xf", "a.tar"]),
        (2, &["ssh", "host", "{x}"]),
        (2, &["parallel", "ls", "{x}", ":::", "{y}"]),
        (1, &["env", "{x}"]),
        (3, &["env", "-i", "A={y}", "{x}", "{z}"]),
        (1, &["env", "LD_PRELOAD={x}", "ls"]),
        (3, &["sudo", "-u", "{user}", "{x}"]),
        (6, &["sudo", "nice", "-n", "{n}", "timeout", "{t}", "{x}"]),
        (2, &["xargs", "-0", "{x}"]),
        (3, &["find", ".", "-exec", "{x}", ";"]),
    ];
    let mut surprises = Vec::new();
    for (element, command) in table {
        let found = elements(command);
        if found != [Some(*element)] {
            surprises.push(format!("{command:?}: {found:?}"));
        }
    }
    assert!(surprises.is_empty(), "{surprises:#?}");
}

#[test]
fn an_argument_beside_a_script_is_not() {
    let table: &[&[&str]] = &[
        &["sh", "-c", "echo hi \"$1\"", "sh", "{x}"],
        &["sh", "-c", "for f in \"$@\"; do :; done", "sh", "{x}", "{y}.tar"],
        &["bash", "-euo", "pipefail", "-c", "echo ${{1}}", "bash", "{x}"],
        &["sh", "script.sh", "{x}", "-c", "{y}"],
        &["bash", "{script}"],
        &["env", "A={x}", "sh", "-c", "echo $A"],
        &["python3", "-c", "import sys; print(sys.argv)", "{x}"],
        &["python3", "script.py", "-c", "{x}"],
        &["python3", "-m", "pytest", "-c", "{x}"],
        &["perl", "-e", "print @ARGV", "--", "{x}"],
        &["perl", "script.pl", "-e", "{x}"],
        &["node", "script.js", "-e", "{x}"],
        &["node", "--require", "m", "script.js", "-e", "{x}"],
        &["php", "-r", "print $argv[1];", "--", "{x}"],
        &["ruby", "-I", "lib", "x.rb", "-e{x}"],
        &["awk", "-v", "x={x}", "{{ print x }}", "{file}"],
        &["awk", "-f", "a.awk", "{file}"],
        &["sed", "-n", "5p", "{file}"],
        &["sed", "-f", "a.sed", "{file}"],
        &["ssh", "{host}", "uptime"],
        &["su", "{user}", "-c", "uptime"],
        &["timeout", "{t}", "sleep", "{x}"],
        &["sudo", "-u", "{user}", "env", "A={x}", "nice", "-n", "{n}", "ls", "{y}"],
        &["find", "{path}", "-execdir", "ls", "{x}", ";"],
        &["find", "{path}", "-type", "f", "-exec", "sha256sum", "{{}}", "+"],
        &["grep", "-c", "{x}", "sh"],
        &["grep", "awk", "{file}"],
        &["man", "sed", "{section}"],
        &["echo", "{x}"],
        &["make", "-C", "{folder}", "all"],
        &["mongosh", "--host", "{host}", "script.js"],
        &["redis-cli", "-h", "{host}", "get", "{key}"],
        &["gdb", "{program}"],
        &["vim", "{file}"],
        &["rsync", "-a", "{from}", "{to}"],
        &["ansible", "all", "-m", "{module}"],
        &["hyperfine", "--warmup", "{n}", "true"],
        &["redis-cli", "eval", "return ARGV[1]", "0", "{value}"],
        &["hyperfine", "--min-runs", "{n}", "true"],
        &["sort", "-k", "{column}", "{file}"],
        &["man", "{page}"],
        &["git", "-c", "user.name={x}", "commit", "-m", "{message}"],
        &["git", "switch", "-c", "{branch}"],
        &["git", "log", "-c", "{rev}"],
        &["tar", "-czf", "{file}", "{folder}"],
        &["tar", "--checkpoint-action=echo={x}", "-cf", "a.tar", "."],
        &["npm", "run", "build", "--", "{x}"],
        &["npm", "install", "{package}"],
        &["npx", "eslint", "-c", "{file}"],
        &["parallel", "gzip", ":::", "{x}"],
        &["deno", "run", "{file}"],
        &["psql", "-v", "x={x}", "-f", "q.sql"],
    ];
    for command in table {
        assert_eq!(elements(command), [], "{command:?}");
    }
}

#[test]
fn a_script_on_standard_input_is_one_too() {
    let code: &[&[&str]] = &[
        &["sh"],
        &["sh", "-s"],
        &["bash", "-es", "arg"],
        &["bash", "-"],
        &["bash", "/dev/stdin", "x"],
        &["python3"],
        &["python3", "-", "arg"],
        &["python3", "-i", "script.py"],
        &["perl"],
        &["node", "-"],
        &["php"],
        &["env", "sh", "-s"],
        &["docker", "exec", "-i", "box", "sh"],
        &["ssh", "host"],
        &["ssh", "host", "bash", "-s"],
        &["ssh", "host", "sudo bash -s"],
        &["su", "you"],
        &["psql", "db"],
        &["sqlite3", "db"],
        &["at", "now"],
        &["parallel"],
        &["xargs", "sh", "-c"],
        &["xargs", "-n", "1", "-I", "%", "sh", "-c", "echo %"],
        &["xargs", "-I{{}}", "sh", "-c", "echo {{}}"],
    ];
    for command in code {
        assert_eq!(found(command, "a {x}", &[]), [None], "{command:?}");
        assert_eq!(found(command, "a {{x}}", &[]), [], "{command:?}");
    }
    let data: &[&[&str]] = &[
        &["cat"],
        &["sh", "-c", "cat"],
        &["sh", "script.sh"],
        &["python3", "-c", "import sys; sys.stdin.read()"],
        &["python3", "script.py"],
        &["perl", "-ne", "print"],
        &["awk", "{{ print }}"],
        &["sed", "s/a/b/"],
        &["grep", "-c", "sh"],
        &["ssh", "host", "cat > file"],
        &["xargs", "-n", "1", "sh", "-c", "echo \"$1\"", "sh"],
        &["psql", "-c", "copy t from stdin"],
        &["su", "you", "-c", "cat"],
    ];
    for command in data {
        assert_eq!(found(command, "a {x}", &[]), [], "{command:?}");
    }
}

#[test]
fn a_value_that_may_be_any_option_of_an_interpreter_is_code() {
    assert_eq!(found(&["python3", "{x}", "script.py"], "", &["x"]), [Some(1)]);
    assert_eq!(found(&["perl", "-e", "print @ARGV", "{x}"], "", &["x"]), [Some(3)]);
    for safe in [
        &["perl", "-e", "print @ARGV", "--", "{x}"][..],
        &["sh", "-c", "echo \"$1\"", "sh", "{x}"],
        &["python3", "-c", "1", "{x}"],
        &["grep", "-e", "{x}"],
    ] {
        assert_eq!(found(safe, "", &["x"]), [], "{safe:?}");
    }
}

#[test]
fn the_message_shows_the_safe_form() {
    let message = |command: &[&str]| {
        placeholders_in_scripts(
            &owned(command),
            StandardInput::Template(""),
            &BTreeSet::new(),
            &HarmlessValues::default(),
        )[0]
        .to_string()
    };
    assert_eq!(
        message(&["sh", "-c", "echo hi {who}"]),
        "`{who}` stands in a script that `sh` runs, so a caller could run any code; pass it as an argument: \
         [\"sh\", \"-c\", \"echo hi \\\"$1\\\"\", \"sh\", \"{who}\"]; `allow_placeholders_in_scripts = true` accepts it as it is"
    );
    assert!(
        message(&["python3", "-c", "print('{x}')"])
            .contains(r#"["python3", "-c", "import sys; … sys.argv[1] …", "{x}"]"#)
    );
    assert!(message(&["ssh", "host", "ls {x}"]).contains("stdin"));
}

/// The part of the message between `argument: ` and `; `.
fn safe_form(command: &[&str]) -> Vec<String> {
    let remedy = placeholders_in_scripts(
        &owned(command),
        StandardInput::Template(""),
        &BTreeSet::new(),
        &HarmlessValues::default(),
    )[0]
    .remedy
    .clone();
    serde_json::from_str(remedy.strip_prefix("pass it as an argument: ").unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The proposed form treats any value as the script treats a plain one, and runs no part of it.
    #[test]
    fn the_safe_form_is_safe(value in "[ -~é]{0,12}", place in 0..5_usize) {
        prop_assume!(!value.starts_with('-'));
        let script = [
            "printf %s {who}",
            "printf %s \"{who}\"",
            "printf %s '{who}'",
            "x={who}; printf %s \"$x\"",
            "printf \"%s\" a'b'\"\"{who} | cut -c3-",
        ][place];
        let safe = safe_form(&["sh", "-c", script]);
        let words: Vec<&str> = safe.iter().map(String::as_str).collect();
        prop_assert_eq!(elements(&words), []);
        let filled = safe.iter().map(|word| if word == "{who}" { value.clone() } else { word.replace("{{", "{").replace("}}", "}") });
        let filled: Vec<String> = filled.collect();
        let output = Command::new(&filled[0]).args(&filled[1..]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        prop_assert_eq!(text.trim_end_matches('\n'), &*value, "{:?}", filled);
    }
}
