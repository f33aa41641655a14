//! Processes of a crash test, seen from the test that starts them.

use super::plan::{Plan, VARIABLE};
use longhaul_runtime::Ports;
use std::{io, os::unix::process::ExitStatusExt, path::Path, process::Stdio, time::Duration};

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// It did what its plan says.
    Finished,
    /// It was killed.
    Killed,
    /// Anything else, with its output.
    Failed(String),
}

/// Runs this test program again, for this one test, and waits until it ends.
pub(super) async fn run(test: &str, plan: &Plan, timeout: Duration) -> io::Result<ProcessEnd> {
    let output_file = plan.directory.join("output.txt");
    let output = std::fs::File::create(&output_file)?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(VARIABLE, serde_json::to_string(plan)?)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let Some(status) = Ports::system().within(timeout, child.wait()).await else {
        child.kill().await?;
        let why = format!("it had not ended after {timeout:?} and was stopped");
        return Ok(ProcessEnd::Failed(with_output(&why, &output_file)));
    };
    let status = status?;
    const KILLED: i32 = 9;
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) if plan.report().exists() => ProcessEnd::Finished,
        (Some(0), _) => ProcessEnd::Failed(with_output(
            &format!("it ran no crash test: is `{test}` the test's full name, as `cargo test -- --list` shows it?"),
            &output_file,
        )),
        (_, Some(KILLED)) => ProcessEnd::Killed,
        _ => ProcessEnd::Failed(with_output(&format!("it ended with {status}"), &output_file)),
    })
}

fn with_output(why: &str, output_file: &Path) -> String {
    let text = std::fs::read_to_string(output_file).unwrap_or_default();
    format!("{why}; its output:\n{text}")
}
