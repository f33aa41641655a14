//! The configurations in `examples/`, served, with programs that show what they were given.

use super::support::*;
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Child};

/// Shows its arguments, the variables that the examples set, and its standard input.
const SHOW: &str = "#!/bin/sh\n\
    printf '%s' \"${0##*/}\"; printf ' <%s>' \"$@\"; echo\n\
    for name in STAGE TAG DRY_RUN NOTE DEPLOY_TOKEN GH_TOKEN RESTIC_REPOSITORY; do\n\
    eval \"value=\\${$name-}\"; [ -z \"$value\" ] || echo \"$name=$value\"; done\n\
    cat\n\
    case \"$*\" in *partly*) exit 3;; esac\n";

/// A server of one example.
struct Example {
    folder: tempfile::TempDir,
    server: Child,
    url: String,
}

impl Example {
    fn serve(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        for program in ["bin/restic", "bin/gh", "bin/mise", "bin/jq", "deploy.sh"] {
            let file = folder.path().join(program);
            fs::write(&file, SHOW).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let file = folder.path().join(name);
        let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
        fs::copy(examples.join(name), &file).unwrap();
        fs::write(folder.path().join("backup.env"), "RESTIC_REPOSITORY=/backup\n").unwrap();
        fs::set_permissions(folder.path().join("backup.env"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(folder.path().join("runbooks")).unwrap();
        fs::write(folder.path().join("runbooks/disk.md"), "# Disk\n").unwrap();

        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let with_programs = |words: &[&str]| {
            let mut command = longhaul(words);
            command.env("PATH", &path).env("GH_TOKEN", "g").env("DEPLOY_TOKEN", "d");
            command
        };
        let file = file.to_str().unwrap();
        let checked = with_programs(&["check", file]).output().unwrap();
        assert_eq!((exit(&checked), stderr(&checked)), (0, ""), "{name}");

        let data = folder.path().join("data");
        let data = data.to_str().unwrap();
        let words = ["serve", file, "--listen", "127.0.0.1:0", "--data-dir", data, "--json"];
        let mut server = with_programs(&words).spawn().unwrap();
        let url = report(&mut server)["url"].as_str().unwrap().to_owned();
        Self { folder, server, url }
    }

    /// What a call prints; it succeeds.
    fn call(&self, arguments: &[&str]) -> String {
        let output = run(&[&["call", self.url.as_str()], arguments].concat());
        assert_eq!(exit(&output), 0, "{arguments:?}: {output:?}");
        stdout(&output).to_owned()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_backup_has_its_options_where_they_are_given() {
    let example = Example::serve("backup.toml");
    let repository = "RESTIC_REPOSITORY=/backup\n";
    assert_eq!(
        example.call(&["backup"]),
        format!("restic <backup> <--json> </srv/data>\n{repository}")
    );
    let shown = example.call(&[
        "backup",
        "path=/srv/www",
        "tag=partly",
        "exclude:=[\"*.o\", \"a b\"]",
        "dry_run=true",
    ]);
    let words =
        "restic <backup> <--json> <--tag> <partly> <--exclude> <*.o> <--exclude> <a b> <--dry-run> </srv/www>\n";
    assert!(shown.starts_with(&format!("{words}{repository}")), "{shown}");
    assert!(shown.contains("exited with code 3, which counts as success"), "{shown}");
    let refused = run(&["call", &example.url, "backup", "path=/etc"]);
    assert_ne!(exit(&refused), 0, "{refused:?}");
}

#[test]
fn a_deployment_has_its_inputs_as_variables() {
    let example = Example::serve("deploy.toml");
    let shown = example.call(&["deploy", "tag=v1.2.3"]);
    assert_eq!(
        shown,
        "deploy.sh <>\nSTAGE=dev\nTAG=v1.2.3\nDRY_RUN=true\nDEPLOY_TOKEN=d\n"
    );
    let shown = example.call(&["deploy", "tag=v1.2.3", "stage=production", "dry_run=false", "note=a b"]);
    assert!(
        shown.contains("STAGE=production\nTAG=v1.2.3\nDRY_RUN=false\nNOTE=a b\n"),
        "{shown}"
    );
    let id = example.call(&["release", "tag=v1.2.3", "--detach"]);
    let waits = stdout(&run(&["task", &example.url, id.trim()])).to_owned();
    assert!(waits.contains("waits for an operator to confirm it"), "{waits}");
}

#[test]
fn tools_over_gh_pass_lists_texts_and_json() {
    let example = Example::serve("github.toml");
    let shown = example.call(&[
        "issue_create",
        "repo=a/b",
        "title=-x",
        "body=-y\nz",
        "label:=[\"p\", \"q\"]",
    ]);
    let words = "gh <issue> <create> <--repo> <a/b> <--title=-x> <--body-file=-> <--label=p> <--label=q>\n";
    assert_eq!(shown, format!("{words}GH_TOKEN=g\n-y\nz\n"));
    let shown = example.call(&[
        "workflow_run",
        "repo=a/b",
        "workflow=ci.yml",
        "ref=main",
        "inputs:={\"n\": 1.0}",
    ]);
    let words = "gh <workflow> <run> <ci.yml> <--repo> <a/b> <--ref> <main> <--json>\n";
    assert_eq!(shown, format!("{words}GH_TOKEN=g\n{{\"n\":1}}\n"));
    let shown = example.call(&["secret_set", "repo=a/b", "name=KEY", "value=hunter2"]);
    assert_eq!(shown, "gh <secret> <set> <KEY> <--repo> <a/b>\nGH_TOKEN=g\nhunter2\n");
}

#[test]
fn tasks_of_a_project_run_where_the_caller_says() {
    let example = Example::serve("project.toml");
    fs::create_dir(example.folder.path().join("web")).unwrap();
    let shown = example.call(&["test", "folder=web", "verbose=true", "files:=[\"a\", \"b\"]"]);
    assert_eq!(shown, "mise <run> <test> <--verbose> <a> <b>\n");
    let outside = run(&["call", &example.url, "test", "folder=/"]);
    assert_ne!(exit(&outside), 0, "{outside:?}");
    let shown = example.call(&["release", "notes=# New", "version=1.0.0"]);
    assert!(
        shown.starts_with("mise <run> <build>\nmise <run> <package> <--notes> </"),
        "{shown}"
    );
    assert!(shown.ends_with("<--version> <1.0.0>\n"), "{shown}");
}

#[test]
fn named_commands_take_the_place_of_a_shell() {
    let example = Example::serve("shell-tools.toml");
    let (left, right) = (
        example.folder.path().join("bin"),
        example.folder.path().join("runbooks"),
    );
    let (left, right) = (format!("left={}", left.display()), format!("right={}", right.display()));
    let shown = example.call(&["changed_files", &left, &right]);
    assert!(shown.contains("Only in ") && shown.contains("disk.md"), "{shown}");
    assert!(
        example
            .call(&["disk_usage", "path=runbooks", "depth:=0"])
            .contains("runbooks")
    );
    let listed: Value = json(&run(&["resources", &example.url, "--json"]));
    assert!(listed.to_string().contains("resource://runbooks/disk.md"), "{listed}");
}
