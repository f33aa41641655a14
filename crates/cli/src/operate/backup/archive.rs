//! What a backup is: a tar archive with a header, the files of a data directory, and a manifest.
//!
//! | entry | what it says |
//! | --- | --- |
//! | `backup.json` | the format, and of what the backup was taken, when, by which release: a reader that cannot use it finds out before the rest |
//! | `data/…` | the files of the data directory, the database first |
//! | `manifest.json` | what there was before it, and the digest of all of that: a file without it was not written to its end |
//!
//! The manifest comes last because a backup can be written to a pipe, before it is known what is in it.

use longhaul_core::store::Counts;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};

/// The first entry.
pub(crate) const HEADER: &str = "backup.json";
/// The last one.
pub(crate) const MANIFEST: &str = "manifest.json";
/// What the names of the files begin with.
pub(crate) const DATA: &str = "data/";
/// The format that this release writes, and the latest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// What a backup is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    pub(crate) format: u32,
    /// The release that wrote it.
    pub(crate) longhaul: String,
    /// The schema version of the database.
    pub(crate) schema: usize,
    /// When it was begun. What was acknowledged before is in it.
    pub(crate) taken: String,
    /// The same in unix milliseconds.
    pub(crate) taken_ms: i64,
    /// The name of the machine.
    pub(crate) host: String,
    /// The name of the server.
    pub(crate) server: String,
}

/// What a backup has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) tasks: TaskCounts,
    /// Entries before this one.
    pub(crate) files: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
    /// Folders of tasks in `attempts`.
    pub(crate) attempt_folders: u64,
    /// Over the name, the length and the bytes of each entry before this one, as [`Tally`] does it, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// Tasks and calls by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskCounts {
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) suspended: u64,
    pub(crate) blocked: u64,
    pub(crate) ended: u64,
}

impl TaskCounts {
    pub(crate) fn new(live: Counts, ended: u64) -> Self {
        Self {
            queued: live.queued,
            running: live.running,
            suspended: live.suspended,
            blocked: live.blocked,
            ended,
        }
    }

    pub(crate) fn all(self) -> u64 {
        self.queued + self.running + self.suspended + self.blocked + self.ended
    }
}

/// Counts entries and digests them.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    digest: Sha256,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Tally {
    /// An entry begins.
    pub(crate) fn begin(&mut self, name: &str, size: u64) {
        self.digest.update(name.as_bytes());
        self.digest.update([0]);
        self.digest.update(size.to_be_bytes());
        self.files += 1;
    }

    /// Some of its bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn sha256(self) -> String {
        self.digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Writes an archive.
pub(crate) struct ArchiveWriter<W: Write> {
    tar: tar::Builder<W>,
    tally: Tally,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn new(to: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self {
            tar: tar::Builder::new(to),
            tally: Tally::default(),
        };
        writer.add_json(HEADER, header, header.taken_ms / 1000)?;
        Ok(writer)
    }

    /// Adds the file `name`, with `size` bytes that are read from `content`. `modified` is in seconds.
    ///
    /// # Errors
    /// Those of reading and writing, also if there are not so many bytes.
    pub(crate) fn add(&mut self, name: &str, modified: i64, size: u64, content: impl Read) -> io::Result<()> {
        let header = entry(modified, size);
        self.tally.begin(name, size);
        let mut counted = TallyReader {
            content: content.take(size),
            tally: &mut self.tally,
            left: size,
        };
        self.tar.append_data(&mut header.clone(), name, &mut counted)?;
        match counted.left {
            0 => Ok(()),
            _ => Err(io::Error::other(format!(
                "{name} became shorter while it was copied; start the backup again"
            ))),
        }
    }

    fn add_json(&mut self, name: &str, value: &impl Serialize, modified: i64) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.add(name, modified, text.len() as u64, &text[..])
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn finish(mut self, tasks: TaskCounts, attempt_folders: u64, at: i64) -> io::Result<(W, Manifest)> {
        let tally = self.tally.clone();
        let manifest = Manifest {
            tasks,
            files: tally.files,
            bytes: tally.bytes,
            attempt_folders,
            sha256: tally.sha256(),
        };
        self.add_json(MANIFEST, &manifest, at / 1000)?;
        let mut written = self.tar.into_inner()?;
        written.flush()?;
        Ok((written, manifest))
    }
}

fn entry(modified: i64, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o600);
    header.set_mtime(u64::try_from(modified).unwrap_or(0));
    header.set_size(size);
    header
}

/// What is read of it is tallied.
struct TallyReader<'a, R> {
    content: R,
    tally: &'a mut Tally,
    left: u64,
}

impl<R: Read> Read for TallyReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.tally.add(&buffer[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}
