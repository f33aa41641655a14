//! Reading a command's log by place, while it is written and after.

use super::{
    AttemptDir,
    segments::{self, Segment},
};
use crate::command::utf8::{orphans, unfinished};
use longhaul_core::{skip_partial, terminal_text};
use longhaul_private_dir::open_file;
use longhaul_runtime::{LogChunk, LogRange};
use std::{
    fs::OpenOptions,
    io::{self, Read, Seek, SeekFrom},
};

/// What a read without a range returns: the last 64 KiB.
pub const DEFAULT_READ: u64 = 64 * 1024;
/// The most one read returns, whatever limit it gives.
pub const MAX_READ: u64 = 1024 * 1024;

/// The longest line that is taken for one that is being drawn.
const LONGEST_DRAWN: usize = 4 * 1024;

/// Reads a part of an attempt's log; one that has written nothing has an empty one.
///
/// Offsets are places in the whole stream of both outputs, what was dropped included. No character is split: the text may begin
/// a little after the place asked for, and end a little before the limit. Where bytes were dropped a line says so. The text is what a terminal would show of
/// the bytes. So that it can be appended to what was read before, a read from a given place ends before a line that is still being drawn, such as a progress
/// bar; one of the end begins with a line.
///
/// # Errors
/// When the directory or a file in it cannot be read.
pub fn read(dir: &AttemptDir, range: LogRange) -> io::Result<LogChunk> {
    let exit = dir.exit()?;
    let segments = match segments::list(dir.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let written = segments.last().map_or(0, |last| last.end());
    let total = exit.as_ref().map_or(written, |exit| exit.log_bytes.max(written));
    let limit = range.limit.unwrap_or(DEFAULT_READ).min(MAX_READ);
    let offset = range.offset.unwrap_or(total.saturating_sub(limit)).min(total);
    let mut reader = Reader {
        dir,
        at: offset,
        left: limit,
        total,
        ended: exit.is_some(),
        text: String::new(),
        from_place: range.offset.is_some(),
    };
    let start = reader.read(&segments)?;
    Ok(LogChunk {
        text: reader.text,
        offset: start,
        next: reader.at,
        total,
    })
}

struct Reader<'a> {
    dir: &'a AttemptDir,
    at: u64,
    left: u64,
    total: u64,
    ended: bool,
    text: String,
    /// Whether the reader has said where to begin.
    from_place: bool,
}

/// A run of bytes without a hole, as the files that hold it.
type Run = Vec<Segment>;

impl Reader<'_> {
    /// Reads on from `at`; returns the place of the first byte.
    fn read(&mut self, segments: &[Segment]) -> io::Result<u64> {
        let mut start = self.at;
        let mut first = true;
        for run in runs(segments) {
            let (Some(begin), Some(end)) = (run.first().map(|s| s.start), run.last().map(|s| s.end())) else {
                continue;
            };
            if end <= self.at {
                continue;
            }
            if self.left == 0 {
                return Ok(start);
            }
            if begin > self.at {
                self.skip_to(begin);
                first = false;
            }
            let bytes = self.fetch(&run)?;
            let orphaned = match (first, self.from_place) {
                (false, _) => 0,
                (true, false) if self.at > 0 && skip_partial(&bytes) > 0 => skip_partial(&bytes),
                (true, _) => orphans(&bytes),
            };
            if first {
                start += orphaned as u64;
            }
            first = false;
            if !self.take(&bytes, orphaned, end) {
                return Ok(start);
            }
        }
        if self.ended && self.at < self.total && self.left > 0 {
            self.skip_to(self.total);
        }
        Ok(start)
    }

    /// The bytes of `run` from `at`, a few more than are wanted so that the last character can be completed.
    fn fetch(&self, run: &Run) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut wanted = self.left.saturating_add(3);
        for segment in run {
            let from = (self.at + bytes.len() as u64).max(segment.start);
            if from >= segment.end() || wanted == 0 {
                continue;
            }
            let mut file = match open_file(&segment.path(self.dir.path()), OpenOptions::new().read(true)) {
                Ok(file) => file,
                // Dropped since it was listed. What was read of this run stands; the next read finds the hole.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            file.seek(SeekFrom::Start(from - segment.start))?;
            let got = file.take(wanted.min(segment.end() - from)).read_to_end(&mut bytes)?;
            wanted -= got as u64;
        }
        Ok(bytes)
    }

    /// Appends what is wanted of `bytes`; says whether the run was read to its end and more may be wanted.
    fn take(&mut self, bytes: &[u8], orphaned: usize, run_end: u64) -> bool {
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX).max(orphaned);
        let mut end = bytes.len().min(limit);
        let at_run_end = self.at + bytes.len() as u64 >= run_end;
        // The end of the stream, or a hole, completes no character; the limit, or a stream that goes on, may.
        let final_bytes = end == bytes.len() && at_run_end && (self.ended || run_end < self.total);
        if !final_bytes {
            end -= unfinished(&bytes[orphaned..end]);
            if self.from_place {
                end -= being_drawn(&bytes[orphaned..end], end < limit);
            }
            if end == orphaned && bytes.len() > end && limit < bytes.len() {
                end = first_character(bytes, orphaned);
            }
        }
        self.text.push_str(&terminal_text(&bytes[orphaned..end]));
        self.at += end as u64;
        self.left = self.left.saturating_sub(end as u64);
        self.at >= run_end
    }

    fn skip_to(&mut self, place: u64) {
        let dropped = place - self.at;
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text
            .push_str(&format!("[longhaul: {dropped} bytes were not kept here]\n"));
        self.at = place;
    }
}

/// How many bytes at the end are a line that is not complete, and that a terminal would draw again; unless that is all and `may_wait` is not set.
fn being_drawn(bytes: &[u8], may_wait: bool) -> usize {
    let begin = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let line = &bytes[begin..];
    let is_drawn = line.len() <= LONGEST_DRAWN && line.iter().any(|byte| matches!(byte, b'\r' | 0x1B));
    if is_drawn && (begin > 0 || may_wait) {
        line.len()
    } else {
        0
    }
}

/// End of the character that begins at `from`: a limit smaller than a character must still make progress.
fn first_character(bytes: &[u8], from: usize) -> usize {
    let mut end = from + 1;
    while end < bytes.len() && unfinished(&bytes[from..end]) > 0 {
        end += 1;
    }
    end
}

fn runs(segments: &[Segment]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for segment in segments.iter().filter(|segment| segment.len > 0) {
        match runs
            .last_mut()
            .filter(|run| run.last().is_some_and(|last| last.end() == segment.start))
        {
            Some(run) => run.push(*segment),
            None => runs.push(vec![*segment]),
        }
    }
    runs
}
