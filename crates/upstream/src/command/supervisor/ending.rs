//! Writing down how it ended: the outputs first, then the record that promises them.

use super::{
    super::{
        attempt_dir::{AttemptDir, Lock, STDERR, STDOUT, create_private},
        record::ExitRecord,
    },
    clock::pause,
    log_writer::LogWriter,
    tail::Tail,
};
use std::{io, time::Duration};

/// Between two tries to record the end.
const RETRY: Duration = Duration::from_millis(500);
/// An error's text must leave room for the rest of the record.
const MAX_ERROR: usize = 500;

/// What a command wrote.
pub(super) struct Outputs {
    pub(super) stdout: Tail,
    pub(super) stderr: Tail,
    pub(super) log: LogWriter,
}

/// Records the end. Comes back only when the record is on disk, or nobody can ever look for it; until then the lock says that
/// the attempt is not over.
pub(super) fn record(dir: &AttemptDir, lock: Lock, outputs: Outputs, mut exit: ExitRecord) {
    exit.stdout_bytes = outputs.stdout.total();
    exit.stderr_bytes = outputs.stderr.total();
    exit.log_bytes = outputs.log.offset();
    let log_error = outputs.log.finish();
    let tails_error = [(STDOUT, &outputs.stdout), (STDERR, &outputs.stderr)]
        .into_iter()
        .find_map(|(name, tail)| {
            let error = write_tail(dir, name, tail).err()?;
            // What there is of it would be taken for the end of the output.
            let _ = std::fs::remove_file(dir.file(name));
            Some(format!("{name} could not be written: {error}"))
        });
    // What the result needs comes before what only the log needs.
    exit.write_error = tails_error
        .or(log_error)
        .map(|text| text.chars().take(MAX_ERROR).collect());
    while dir.write_exit(&exit).is_err() && !dir.is_removed() {
        pause(RETRY);
    }
    drop(lock);
}

fn write_tail(dir: &AttemptDir, name: &str, tail: &Tail) -> io::Result<()> {
    if tail.total() == 0 {
        return Ok(());
    }
    let mut file = create_private(&dir.file(name))?;
    tail.write_to(&mut file)?;
    file.sync_all()
}
