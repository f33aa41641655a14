//! What the folder of an attempt says of it afterwards.

use super::{
    AttemptDir, BOTH,
    record::{CommandEnd, EVENT_TAIL, ExitRecord},
};
use crate::command::progress::read_report;
use longhaul_core::{UnixMillis, masked_words};
use longhaul_private_dir::read_file;
use longhaul_runtime::{AttemptExit, PastAttempt};
use std::io;

/// The attempt `epoch`, whose folder is `dir`; `None` if there is none.
pub(crate) fn past_attempt(dir: &AttemptDir, epoch: u32) -> io::Result<Option<PastAttempt>> {
    if !dir.is_there()? {
        return Ok(None);
    }
    let exit = dir.exit().unwrap_or_default();
    let succeeded = exit.as_ref().is_some_and(|exit| exit.succeeded() && !exit.timed_out());
    let was_started = |exit: &&ExitRecord| !matches!(exit.ended, CommandEnd::NotStarted(_));
    let failed = exit.as_ref().filter(was_started).filter(|_| !succeeded);
    Ok(Some(PastAttempt {
        epoch,
        began: dir.started_at()?,
        ended: exit.as_ref().map(|exit| UnixMillis(exit.ended_at_ms)),
        succeeded,
        timed_out: exit.as_ref().is_some_and(ExitRecord::timed_out),
        last_line: failed.and_then(|_| last_line(dir)),
        command: dir.short_spec().map_or_else(Vec::new, |spec| masked_words(spec.argv)),
        pid: exit.is_none().then(|| dir.pid()).flatten(),
        exit: exit.map(|exit| AttemptExit::from(&exit.ended)),
    }))
}

fn last_line(dir: &AttemptDir) -> Option<String> {
    let both = read_file(&dir.file(BOTH)).ok()?;
    let end = String::from_utf8_lossy(&both[both.len().saturating_sub(EVENT_TAIL)..]).into_owned();
    read_report(&[&end], None, true).status
}
