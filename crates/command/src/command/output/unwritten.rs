//! What the log says of commands whose output cannot be written, as on a full disk.

use crate::command::attempt_dir::record::ExitRecord;
use longhaul_core::{FailureLine, FailureStreak};
use parking_lot::Mutex;
use std::time::Duration;
use tracing::warn;

/// The last one must be so long ago before output that was written means that it is over: others that write less succeed in between.
const QUIET: Duration = Duration::from_secs(10);

/// The commands of a server that ended without all of their output, while there are such. All write to one disk.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenOutput(Mutex<FailureStreak>);

impl UnwrittenOutput {
    /// A command has ended.
    pub(crate) fn ended(&self, exit: &ExitRecord, now: Duration) {
        let mut commands = self.0.lock();
        let Some(error) = &exit.write_error else {
            // One that wrote nothing says nothing about the disk.
            if exit.log_bytes > 0
                && let Some(over) = commands.end_after(QUIET, now)
            {
                let (count, seconds) = (over.count, over.length.as_secs());
                warn!("the output of commands is written again; not all of {count} could be in {seconds} s");
            }
            return;
        };
        match commands.failed(now) {
            Some(FailureLine::Begun) => warn!(error, "not all of a command's output could be written"),
            Some(FailureLine::Reminder(so_far)) => warn!(
                error,
                "not all of the output of {} commands could be written so far", so_far.count
            ),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandEnd;
    use longhaul_core::UnixMillis;

    #[test]
    fn it_is_over_when_output_was_written_a_while_after_the_last_failure() {
        let unwritten = UnwrittenOutput::default();
        let end = |second, log_bytes, write_error: Option<&str>| {
            let exit = ExitRecord {
                log_bytes,
                write_error: write_error.map(str::to_owned),
                ..ExitRecord::without_output(CommandEnd::Code(0), UnixMillis(0))
            };
            unwritten.ended(&exit, Duration::from_secs(second));
            unwritten.0.lock().goes_on()
        };
        assert!(!end(0, 5, None));
        assert!(end(1, 5, Some("no space")));
        assert!(end(2, 5, None), "another one has written less");
        assert!(end(12, 0, None), "it wrote nothing");
        assert!(!end(12, 1, None));
    }
}
