//! `cargo xtask release --dry-run`: checks whether this commit can be released, and prints the commands that would publish it. It publishes nothing.

pub(crate) mod crates;
pub(crate) mod dist;

use crates::CratesError;
use harness::{
    process::{self, ProcessError},
    workspace,
};
use serde_json::json;
use std::{fs, process::Command};

/// The version of the workspace, and of all that is published.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What pages say as long as nothing is published.
const UNPUBLISHED: [&str; 2] = ["not on crates.io yet", "Nothing is published yet"];

/// `cargo xtask release`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Publish nothing. It must be named: a person publishes, with the commands that are printed
    #[arg(long, required = true)]
    dry_run: bool,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Why this commit cannot be released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Crates(#[from] CratesError),
    #[error("{0} of the checks failed")]
    Checks(usize),
}

/// Something that must be so, and how it is not.
struct Check {
    what: &'static str,
    flaws: Vec<String>,
}

/// Makes all checks, also when one has failed.
pub(crate) fn run(args: &Args) -> Result<(), ReleaseError> {
    let check = |what, flaws| Check { what, flaws };
    let checks = [
        check("the tree is the commit", lines(&["status", "--porcelain"])?),
        check("one version everywhere", version_flaws()?),
        check("the changelog is of this version", changelog_flaws()),
        check("the tag is free", lines(&["tag", "--list", &tag()])?),
        check("no placeholders", placeholders()?),
        check("the crates can be packaged", crate_flaws()),
        check("the artefacts are of this commit", dist::release_flaws(&commit()?)),
    ];
    let failed = checks.iter().filter(|check| !check.flaws.is_empty()).count();
    report(args, &checks);
    match failed {
        0 => Ok(()),
        failed => Err(ReleaseError::Checks(failed)),
    }
}

fn report(args: &Args, checks: &[Check]) {
    let commands = commands();
    if args.json {
        let checks: Vec<_> = checks
            .iter()
            .map(|Check { what, flaws }| json!({"check": what, "passed": flaws.is_empty(), "flaws": flaws}))
            .collect();
        println!(
            "{}",
            json!({"version": VERSION, "checks": checks, "commands": commands})
        );
        return;
    }
    for Check { what, flaws } in checks {
        println!("{}  {what}", if flaws.is_empty() { "passed" } else { "FAILED" });
        for flaw in flaws {
            println!("          {flaw}");
        }
    }
    println!("\nNothing is published. Once all checks pass, this publishes longhaul {VERSION}:\n");
    for command in commands {
        println!("  {command}");
    }
}

/// What a person runs.
fn commands() -> Vec<String> {
    let tag = tag();
    let mut commands = vec![
        format!("git tag --annotate {tag} --message 'longhaul {VERSION}'"),
        format!("git push origin {tag}"),
        "cargo publish --workspace --locked".to_owned(),
    ];
    commands.extend(dist::publishing_commands());
    commands
}

fn tag() -> String {
    format!("v{VERSION}")
}

fn commit() -> Result<String, ProcessError> {
    Ok(lines(&["rev-parse", "HEAD"])?.concat())
}

/// What git prints.
fn lines(words: &[&str]) -> Result<Vec<String>, ProcessError> {
    let said = process::read(Command::new("git").current_dir(workspace::root()).args(words))?;
    Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

/// Crates that have another version, or take another version of each other: what they offer each other may change with any.
fn version_flaws() -> Result<Vec<String>, CratesError> {
    let metadata = crates::metadata()?;
    let mut flaws = Vec::new();
    for package in crates::published_of(&metadata) {
        let name = &package["name"];
        if package["version"] != VERSION {
            flaws.push(format!("{name} has version {}", package["version"]));
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let ours = dependencies.filter(|dependency| dependency["path"].is_string());
        // One without a version is for tests only, and left out of the package.
        for other in ours.filter(|other| other["req"] != "*" && other["req"] != format!("={VERSION}")) {
            flaws.push(format!("{name} takes version {} of {}", other["req"], other["name"]));
        }
    }
    Ok(flaws)
}

fn changelog_flaws() -> Vec<String> {
    let changelog = fs::read_to_string(workspace::root().join("CHANGELOG.md")).unwrap_or_default();
    let heading = changelog.lines().find_map(|line| line.strip_prefix("## "));
    match heading {
        Some(heading) if is_heading(heading) => Vec::new(),
        heading => vec![format!(
            "CHANGELOG.md begins with \"## {}\", and must with \"## {VERSION}, YYYY-MM-DD\"",
            heading.unwrap_or_default()
        )],
    }
}

/// Whether this names the version and a day.
fn is_heading(heading: &str) -> bool {
    let day = heading.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix(", "));
    day.is_some_and(|day| {
        let digits: String = day
            .chars()
            .map(|char| if char.is_ascii_digit() { '0' } else { char })
            .collect();
        digits == "0000-00-00"
    })
}

/// What a person must fill in, and where.
fn placeholders() -> Result<Vec<String>, ProcessError> {
    let mut found = dist::placeholders();
    for text in UNPUBLISHED {
        let mut grep = Command::new("git");
        grep.current_dir(workspace::root());
        grep.args([
            "grep",
            "--files-with-matches",
            "--fixed-strings",
            text,
            "--",
            "*.md",
            "*.rs",
        ]);
        // It fails if there is none.
        let said = grep.arg(":!xtask").output().map(|said| said.stdout).unwrap_or_default();
        let files = String::from_utf8_lossy(&said);
        found.extend(files.lines().map(|file| format!("{file} says {text:?}")));
    }
    Ok(found)
}

fn crate_flaws() -> Vec<String> {
    crates::package()
        .err()
        .map(|error| error.to_string())
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_one_version_and_take_no_other_of_each_other() {
        assert_eq!(version_flaws().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_heading_has_the_version_and_a_day() {
        assert!(is_heading(&format!("{VERSION}, 2026-12-24")));
        for wrong in [
            "0.0.9, 2026-12-24".to_owned(),
            format!("{VERSION}, unreleased"),
            VERSION.to_owned(),
        ] {
            assert!(!is_heading(&wrong), "{wrong}");
        }
    }
}
