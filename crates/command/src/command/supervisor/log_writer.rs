//! Writing the log: the first half of what may be kept, then a window that moves along with the end.

use super::{
    super::attempt_dir::{create_private, sync_dir},
    clock::monotonic,
};
use crate::command::attempt_dir::segments::{self, Segment};
use longhaul_private_dir::open_file;
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The log is kept in this many files; one is dropped at a time.
const PIECES: u64 = 8;
/// The free room is looked at when so many bytes were written since.
const LOOK_EVERY: u64 = 64 << 10;
/// After a failed write, how long the stream passes by unwritten.
const RETRY: Duration = Duration::from_secs(1);

/// Appends a stream to the segments of a directory, keeping at most `max` bytes. Never fails: what cannot be written is a hole,
/// and the first error is remembered.
pub(super) struct LogWriter {
    dir: PathBuf,
    max: u64,
    /// What it leaves free on its disk, in bytes.
    least_free: u64,
    /// Bytes written since the free room was looked at.
    unlooked: u64,
    piece: u64,
    /// Place of the next byte in the stream.
    offset: u64,
    /// What is on disk, oldest first; the last one is `open`, if that is set.
    kept: VecDeque<Segment>,
    open: Option<File>,
    retry_at: Option<Instant>,
    error: Option<String>,
}

impl LogWriter {
    pub(super) fn new(dir: &Path, max: u64, least_free: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            max,
            least_free,
            unlooked: LOOK_EVERY,
            piece: (max / PIECES).max(1),
            offset: 0,
            kept: VecDeque::new(),
            open: None,
            retry_at: None,
            error: None,
        }
    }

    /// Length of the stream so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        let end = self.offset + bytes.len() as u64;
        while !bytes.is_empty() && self.may_write() {
            match self.write_some(bytes) {
                Ok(written) => {
                    self.offset += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error) => self.fail(&error),
            }
        }
        self.offset = end;
    }

    /// Puts what is kept on disk; gives back the first error of the log's life.
    pub(super) fn finish(mut self) -> Option<String> {
        self.open = None;
        let synced = self
            .kept
            .iter()
            .try_for_each(|segment| open_file(&segment.path(&self.dir), File::options().read(true))?.sync_all());
        if let Err(error) = synced.and_then(|()| sync_dir(&self.dir)) {
            self.error
                .get_or_insert(format!("the log could not be synced: {error}"));
        }
        self.error
    }

    fn may_write(&mut self) -> bool {
        self.max > 0 && self.retry_at.is_none_or(|at| monotonic() >= at)
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look_at_room()?;
        let piece = self.piece;
        let (file, segment) = match (&mut self.open, self.kept.back_mut()) {
            (Some(file), Some(segment)) if segment.len < piece => (file, segment),
            _ => self.begin_segment()?,
        };
        let room = usize::try_from(piece - segment.len).unwrap_or(usize::MAX);
        match file.write(&bytes[..bytes.len().min(room)]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                segment.len += written as u64;
                self.unlooked += written as u64;
                self.retry_at = None;
                Ok(written)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// When the disk has less room than is to be left.
    fn look_at_room(&mut self) -> io::Result<()> {
        if self.least_free == 0 || self.unlooked < LOOK_EVERY {
            return Ok(());
        }
        let disk = rustix::fs::statvfs(&self.dir)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.least_free {
            let least = self.least_free >> 20;
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("its disk has less than {least} MiB left"),
            ));
        }
        self.unlooked = 0;
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<(&mut File, &mut Segment)> {
        self.open = None;
        self.make_room()?;
        let file = create_private(&segments::path(&self.dir, self.offset))?;
        self.kept.push_back(Segment {
            start: self.offset,
            len: 0,
        });
        match self.kept.back_mut() {
            Some(segment) => Ok((self.open.insert(file), segment)),
            None => Err(io::ErrorKind::Other.into()),
        }
    }

    /// Drops the oldest segments behind the log's head until a whole one fits.
    fn make_room(&mut self) -> io::Result<()> {
        let head = self.max / 2;
        while self.kept.iter().map(|segment| segment.len).sum::<u64>() + self.piece > self.max {
            let oldest = self.kept.iter().position(|segment| segment.start >= head).unwrap_or(0);
            let Some(segment) = self.kept.remove(oldest) else { break };
            std::fs::remove_file(segment.path(&self.dir))?;
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        self.error
            .get_or_insert(format!("the log could not be written: {error}"));
        self.retry_at = Some(monotonic() + RETRY);
        self.unlooked = LOOK_EVERY;
        self.open = None;
        // A file that is named anew would begin at the same offset if nothing was written.
        if let Some(empty) = self.kept.back().copied().filter(|segment| segment.len == 0) {
            self.kept.pop_back();
            let _ = std::fs::remove_file(empty.path(&self.dir));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::attempt_dir::{AttemptDir, log::read};
    use longhaul_runtime::LogRange;
    use proptest::prelude::*;

    fn held(dir: &Path) -> u64 {
        segments::list(dir).unwrap().iter().map(|segment| segment.len).sum()
    }

    proptest! {
        // Each case makes many files.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_kept_stays_in_its_place_and_within_bounds(
            chunks in proptest::collection::vec("[a-z\n]{0,40}", 0..40), max in 0u64..600, offset in 0u64..1700, limit in 1u64..200,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = LogWriter::new(folder.path(), max, 0);
            for chunk in &chunks {
                writer.append(chunk.as_bytes());
                prop_assert!(held(folder.path()) <= max);
            }
            let whole = chunks.concat();
            prop_assert_eq!(writer.offset(), whole.len() as u64);
            prop_assert_eq!(writer.finish(), None);
            for segment in segments::list(folder.path()).unwrap() {
                let bytes = std::fs::read(segment.path(folder.path())).unwrap();
                prop_assert_eq!(&whole.as_bytes()[segment.start as usize..segment.end() as usize], &bytes[..]);
            }
            if (whole.len() as u64) <= max - max % 8 {
                prop_assert_eq!(held(folder.path()), whole.len() as u64);
                let part = read(&AttemptDir::at(folder.path()), LogRange { offset: Some(offset), limit: Some(limit) }).unwrap();
                let from = (offset as usize).min(whole.len());
                let to = (from + limit as usize).min(whole.len());
                prop_assert_eq!(part.text, &whole[from..to]);
                prop_assert_eq!(part.next, to as u64);
            }
        }
    }

    #[test]
    fn the_head_stays_and_the_end_moves() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::new(folder.path(), 80, 1);
        for line in 0..100 {
            writer.append(format!("line {line:04}\n").as_bytes());
        }
        writer.finish();
        let all = read(
            &AttemptDir::at(folder.path()),
            LogRange {
                offset: Some(0),
                limit: None,
            },
        )
        .unwrap();
        assert!(
            all.text.starts_with(
                "line 0000\nline 0001\nline 0002\nline 0003\n[longhaul: 920 bytes were not kept here]\nline 0096"
            ),
            "{}",
            all.text
        );
        assert!(all.text.ends_with("line 0099\n"));
        assert_eq!((all.next, all.total), (1000, 1000));
    }

    #[test]
    fn it_leaves_room_on_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        // No disk has this room.
        let mut writer = LogWriter::new(folder.path(), 80, 1 << 60);
        writer.append(b"not kept");
        assert_eq!((writer.offset(), held(folder.path())), (8, 0));
        let error = writer.finish().unwrap();
        assert!(
            error.starts_with("the log could not be written: its disk has less than"),
            "{error}"
        );
    }
}
