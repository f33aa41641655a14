//! Runs other programs.

use std::{
    io,
    process::{Command, ExitStatus, Stdio},
};

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("`{line}` cannot be started: {source}")]
    Start { line: String, source: io::Error },
    #[error("`{line}` failed: {status}")]
    Failed { line: String, status: ExitStatus },
}

/// Runs a program. Its output is progress, so it goes to standard error.
pub fn run(command: &mut Command) -> Result<(), ProcessError> {
    let line = line(command);
    eprintln!("$ {line}");
    match command.stdin(Stdio::null()).stdout(io::stderr()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ProcessError::Failed { line, status }),
        Err(source) => Err(ProcessError::Start { line, source }),
    }
}

/// Runs a program, and returns what it prints.
pub fn read(command: &mut Command) -> Result<Vec<u8>, ProcessError> {
    let line = line(command);
    match command.stdin(Stdio::null()).stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(ProcessError::Failed {
            line,
            status: output.status,
        }),
        Err(source) => Err(ProcessError::Start { line, source }),
    }
}

/// Whether a program is installed and can be run.
pub fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// A command as it is written in a shell, but for quotes.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
