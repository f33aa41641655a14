//! Processes of a crash test, seen from the test that starts them.

use super::plan::{Plan, VARIABLE};
use longhaul_runtime::Ports;
use std::{io, os::unix::process::ExitStatusExt, path::Path, process::Stdio, time::Duration};

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did what it was to do.
    Well,
    /// It was killed, as it was to be.
    Killed,
    /// Anything else, with what it had said.
    Badly(String),
}

/// Runs this test program again, for this one test, and waits until it ends.
pub(super) async fn run(test: &str, plan: &Plan, limit: Duration) -> io::Result<Ended> {
    let said = plan.directory.join("said.txt");
    let output = std::fs::File::create(&said)?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(VARIABLE, serde_json::to_string(plan)?)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let Some(status) = Ports::system().within(limit, child.wait()).await else {
        child.kill().await?;
        let why = format!("it had not ended after {limit:?} and was stopped");
        return Ok(Ended::Badly(with_words(&why, &said)));
    };
    let status = status?;
    const KILLED: i32 = 9;
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) if plan.report().exists() => Ended::Well,
        (Some(0), _) => Ended::Badly(with_words(
            &format!("it ran no crash test: is `{test}` the test's full name, as `cargo test -- --list` shows it?"),
            &said,
        )),
        (_, Some(KILLED)) => Ended::Killed,
        _ => Ended::Badly(with_words(&format!("it ended with {status}"), &said)),
    })
}

fn with_words(why: &str, said: &Path) -> String {
    let text = std::fs::read_to_string(said).unwrap_or_default();
    format!("{why}; it had said:\n{text}")
}
