//! Recording how a command ended: its outputs first, then the exit record, whose presence means that they are complete.

use super::{
    super::attempt_dir::{AttemptDir, BOTH, Lock, STDERR, STDOUT, create_private},
    artifact_collector::ArtifactCollector,
    clock::pause,
    log_writer::LogWriter,
    merged_tail::MergedTail,
    tail::Tail,
};
use crate::command::attempt_dir::record::{CommandEnd, ExitRecord, SuccessCodes};
use std::{
    fs::File,
    io::{self, Write},
    time::Duration,
};

/// Between two tries to record the end.
const RETRY: Duration = Duration::from_millis(500);
/// An error's text must leave room for the rest of the record.
const MAX_ERROR: usize = 500;

/// What a command has left.
pub(super) struct Outputs {
    pub(super) stdout: Tail,
    pub(super) stderr: Tail,
    pub(super) both: MergedTail,
    pub(super) log: LogWriter,
    /// If it keeps files.
    pub(super) artifacts: Option<ArtifactCollector>,
}

/// Records the end. Returns when the record is on disk, or when its directory was removed; until then the lock shows that
/// the attempt is not over.
pub(super) fn record(dir: &AttemptDir, lock: Lock, outputs: Outputs, mut exit: ExitRecord, success: &SuccessCodes) {
    // Before the record: whoever reads that finds none. What cannot be removed now, the server removes.
    let _ = dir.remove_secret_files();
    exit.judge(success);
    exit.stdout_bytes = outputs.stdout.total();
    exit.stderr_bytes = outputs.stderr.total();
    exit.stderr_last = outputs.both.latest() == Some(1);
    exit.log_bytes = outputs.log.offset();
    let log_error = outputs.log.finish();
    let mut tails_error = None;
    for (name, tail) in [(STDOUT, &outputs.stdout), (STDERR, &outputs.stderr)] {
        if tail.total() > 0 {
            let written = write_whole(dir, name, |file| tail.write_to(file));
            tails_error = tails_error.or(written.err());
        }
    }
    if exit.ended != CommandEnd::Code(0) || !exit.succeeded() || exit.stopped.is_some() {
        let written = write_whole(dir, BOTH, |file| file.write_all(&outputs.both.to_bytes()));
        tails_error = tails_error.or(written.err());
    }
    // The disk may be nearly full, and the result needs the outputs.
    if !matches!(exit.ended, CommandEnd::NotStarted(_))
        && let Some(artifacts) = outputs.artifacts
    {
        let kept = artifacts.collect(dir);
        exit.artifacts_error = kept.err().map(|text| text.chars().take(MAX_ERROR).collect());
    }
    // What the result needs comes before what only the log needs.
    exit.write_error = tails_error
        .or(log_error)
        .map(|text| text.chars().take(MAX_ERROR).collect());
    while dir.write_exit(&exit).is_err() && !dir.is_removed() {
        dir.clear_exit();
        pause(RETRY);
    }
    drop(lock);
}

/// # Errors
/// What to say of it. Nothing is left of a file that is not whole: its beginning would be taken for the end of the output.
fn write_whole(dir: &AttemptDir, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
    let written = create_private(&dir.file(name)).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    written.map_err(|error| {
        let _ = std::fs::remove_file(dir.file(name));
        format!("{name} could not be written: {error}")
    })
}
