//! The output of printing commands, and the check that all of it is stored.

use super::{
    CommandLedger,
    kind::{CommandCall, CommandKind, printed_bytes},
};
use crate::{
    ledger::LedgerEntry,
    mcp::CallOutcome,
    rounds::violation::{Invariant, Violation},
    server::supervisors::CommandAttempt,
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

/// The text of the call with this token, `bytes` bytes long; it has no repetition, so a gap can be detected.
pub(super) fn text(token: &str, bytes: u64) -> Vec<u8> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut text = Vec::with_capacity(bytes + 64);
    for line in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.extend(format!("{token} {line}\n").into_bytes());
    }
    text.truncate(bytes);
    text
}

/// The last line of every command, which identifies its attempt.
pub(super) fn identity(attempt: &CommandAttempt, token: &str) -> String {
    format!("{} {} {token}", attempt.task, attempt.epoch)
}

/// The attempt whose last line is in this result.
pub(super) fn origin(task: &str, call: &CommandCall, text: &str) -> Option<CommandAttempt> {
    text.lines().rev().find_map(|line| {
        let (epoch, token) = line.strip_prefix(task)?.strip_prefix(' ')?.split_once(' ')?;
        CommandAttempt::named(task, epoch).filter(|_| token == call.token)
    })
}

/// The whole output of a printing command.
pub(super) fn whole(attempt: &CommandAttempt, token: &str, bytes: u64) -> Vec<u8> {
    let mut whole = text(token, bytes);
    whole.extend(format!("\n{}\n", identity(attempt, token)).into_bytes());
    whole
}

/// Checks the output of printing commands, and counts what was complete.
#[derive(Default)]
pub struct OutputCheck {
    seen: HashSet<String>,
    /// Commands whose output was complete.
    pub commands: usize,
    pub bytes: u64,
}

impl OutputCheck {
    /// Checks the output of every printing command whose result has been seen since the last call, and deletes its log.
    pub fn check(&mut self, attempts: &Path, ledger: &CommandLedger) -> Vec<Violation> {
        let mut violations = Vec::new();
        for task in ledger.tasks() {
            let Some(entry) = ledger
                .entry(&task)
                .filter(|entry| entry.call.kind == CommandKind::Printing)
            else {
                continue;
            };
            let Some(CallOutcome::Result { is_error: false, text }) = &entry.outcome else {
                continue;
            };
            if !self.seen.insert(task.clone()) {
                continue;
            }
            match check(attempts, &task, &entry, text) {
                Ok(bytes) => {
                    self.commands += 1;
                    self.bytes += bytes;
                }
                Err(problem) => {
                    let what = format!("the output of the command of task {task} is not complete: {problem}");
                    violations.push(Invariant::WHOLE_OUTPUT.violated(what));
                }
            }
        }
        violations
    }
}

/// Checks that the output is complete, and returns its length.
fn check(attempts: &Path, task: &str, entry: &LedgerEntry<CommandCall>, text: &str) -> Result<u64, String> {
    let attempt = origin(task, &entry.call, text).ok_or("the result does not end with the command's last line")?;
    let bytes = printed_bytes(&entry.call.token).ok_or("the token has no amount")?;
    let whole = whole(&attempt, &entry.call.token, bytes);
    let folder = attempt.directory(attempts);
    check_result(text, &whole)?;
    check_and_delete_log(&folder, &whole).map_err(|error| format!("its log: {error}"))?;
    check_exit_record(&folder, whole.len() as u64)?;
    Ok(whole.len() as u64)
}

/// Checks a result: it is the whole output, or its end below a line with the length of the rest.
fn check_result(text: &str, whole: &[u8]) -> Result<(), String> {
    let (dropped, kept) = match text.strip_prefix("[longhaul: the first ") {
        None => (0, text),
        Some(rest) => {
            let (mark, kept) = rest.split_once('\n').ok_or("the mark of the result has no end")?;
            let dropped = mark.split(' ').next().and_then(|number| number.parse().ok());
            (dropped.ok_or("the mark of the result names no number")?, kept)
        }
    };
    match whole.get(dropped..) {
        Some(rest) if rest == kept.as_bytes() => Ok(()),
        _ => Err(format!(
            "the result drops {dropped} bytes and has {} others, of {}",
            kept.len(),
            whole.len()
        )),
    }
}

/// Checks that a log is complete, and removes it then: thousands of logs would fill the disk.
fn check_and_delete_log(folder: &Path, whole: &[u8]) -> io::Result<()> {
    let mut pieces: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let start = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("log.")?.parse().ok());
        pieces.extend(start.map(|start| (start, path)));
    }
    pieces.sort();
    let mut found = Vec::with_capacity(whole.len());
    for (start, path) in &pieces {
        if *start != found.len() as u64 {
            return Err(io::Error::other(format!("byte {} is missing", found.len())));
        }
        found.extend(fs::read(path)?);
    }
    if found != whole {
        return Err(io::Error::other(format!("{} of {} bytes", found.len(), whole.len())));
    }
    pieces.into_iter().try_for_each(|(_, path)| fs::remove_file(path))
}

/// Checks the number of bytes in the record of the end.
fn check_exit_record(folder: &Path, bytes: u64) -> Result<(), String> {
    let record = fs::read(folder.join("exit")).map_err(|error| format!("its exit record: {error}"))?;
    let record: serde_json::Value = serde_json::from_slice(&record).map_err(|error| error.to_string())?;
    if record["stdout_bytes"] != bytes || !record["write_error"].is_null() {
        return Err(format!("of {bytes} bytes, its exit record says {record}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_byte_of_a_result_is_found() {
        let attempt = CommandAttempt {
            task: "a".to_owned(),
            epoch: 1,
        };
        let whole = whole(&attempt, "t.20", 20);
        let text = String::from_utf8(whole.clone()).unwrap();
        assert_eq!(text, "t.20 0\nt.20 1\nt.20 2\na 1 t.20\n");
        check_result(&text, &whole).unwrap();
        let cut = format!("[longhaul: the first 7 bytes were dropped; see]\n{}", &text[7..]);
        check_result(&cut, &whole).unwrap();
        check_result(&cut.replace("first 7", "first 6"), &whole).unwrap_err();
        check_result(&text[1..], &whole).unwrap_err();
    }

    #[test]
    fn a_missing_byte_of_a_log_is_found() {
        let folder = std::env::temp_dir().join(format!("longhaul-harness-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("log.0", "ab");
        write("log.3", "d");
        check_and_delete_log(&folder, b"abcd").unwrap_err();
        write("log.2", "c");
        check_and_delete_log(&folder, b"abcd").unwrap();
        // Nothing is left in it.
        fs::remove_dir(&folder).unwrap();
    }
}
