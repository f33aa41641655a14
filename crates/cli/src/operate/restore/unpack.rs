//! Reading a backup: each entry is written where it belongs, and believed once the manifest fits.

use crate::operate::backup::{
    ATTEMPTS, DATABASE,
    archive::{DATA, FORMAT, HEADER, Header, MANIFEST, Manifest, Tally},
    is_copied,
};
use longhaul_store::DatabaseCopy;
use serde::de::DeserializeOwned;
use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tar::{Archive, Entry};

/// A tar archive is a sequence of blocks of this length.
const BLOCK: usize = 512;
/// The longest header or manifest.
const LONGEST_JSON: u64 = 1 << 20;
/// Folders in a name.
const DEEPEST: usize = 9;
/// How compressed files begin, and what decompresses them.
const COMPRESSED: [(&[u8], &str); 3] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
    (&[0x1f, 0x8b], "gzip -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -d"),
];

/// Why a backup cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    #[error("it is no backup of longhaul: {0}")]
    Foreign(String),
    #[error("it is compressed: decompress it first, as in `{program} < FILE | longhaul restore - …`")]
    Compressed { program: &'static str },
    #[error("it was written by longhaul {release}, a later release, {what}: use that release, or a later one")]
    Later { release: String, what: String },
    #[error("it is truncated: {0}. Use another backup")]
    Truncated(String),
    #[error("it is damaged: {0}. Use another backup")]
    Damaged(String),
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the files of a backup into the folder `to`, which is made, and reads the backup to its end.
pub(super) fn unpack(mut from: impl Read, to: &Path) -> Result<(Header, Manifest), UnpackError> {
    let first = first_block(&mut from)?;
    let mut archive = Archive::new((&first[..]).chain(from));
    let unpacked = Unpacker {
        to,
        tally: Tally::default(),
        folder: PathBuf::new(),
    }
    .run(archive.entries().map_err(UnpackError::Read)?)?;
    // What writes into a pipe is not to fail because its end was not read.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(UnpackError::Read)?;
    Ok(unpacked)
}

/// What does not begin as a backup is found out before any of it is parsed.
fn first_block(from: &mut impl Read) -> Result<Vec<u8>, UnpackError> {
    let mut block = Vec::with_capacity(BLOCK);
    from.take(BLOCK as u64)
        .read_to_end(&mut block)
        .map_err(UnpackError::Read)?;
    for (magic, program) in COMPRESSED {
        if block.starts_with(magic) {
            return Err(UnpackError::Compressed { program });
        }
    }
    let name = block.split(|byte| *byte == 0).next().unwrap_or_default();
    match block.len() {
        0 => Err(UnpackError::Truncated("it is empty".to_owned())),
        _ if name != HEADER.as_bytes() => Err(UnpackError::Foreign(format!("it does not begin with {HEADER}"))),
        BLOCK => Ok(block),
        _ => Err(UnpackError::Truncated(format!("it ends in the first {BLOCK} bytes"))),
    }
}

struct Unpacker<'a> {
    to: &'a Path,
    tally: Tally,
    /// The folder that was made last.
    folder: PathBuf,
}

impl Unpacker<'_> {
    fn run<R: Read>(mut self, entries: tar::Entries<'_, R>) -> Result<(Header, Manifest), UnpackError> {
        let mut header: Option<Header> = None;
        let mut manifest: Option<Manifest> = None;
        for entry in entries {
            let mut entry = entry.map_err(damaged)?;
            let name = String::from_utf8(entry.path_bytes().into_owned())
                .map_err(|_| UnpackError::Damaged("a name in it is not UTF-8".to_owned()))?;
            if manifest.is_some() {
                return Err(UnpackError::Damaged(format!("{name} is behind its manifest")));
            }
            match (&header, name.as_str()) {
                (None, _) => header = Some(check(self.json(&mut entry, &name)?)?),
                (Some(_), MANIFEST) => {
                    let before = self.tally.clone();
                    let found: Manifest = self.json(&mut entry, &name)?;
                    let same = (found.files, found.bytes) == (before.files, before.bytes);
                    if !same || found.sha256 != before.sha256() {
                        return Err(UnpackError::Damaged("its contents do not fit its manifest".to_owned()));
                    }
                    manifest = Some(found);
                }
                (Some(_), _) => self.file(&mut entry, &name)?,
            }
        }
        match (header, manifest) {
            (Some(header), Some(manifest)) => Ok((header, manifest)),
            _ => Err(UnpackError::Truncated(format!("it ends before {MANIFEST}"))),
        }
    }

    fn json<T: DeserializeOwned>(&mut self, entry: &mut Entry<'_, impl Read>, name: &str) -> Result<T, UnpackError> {
        if entry.size() > LONGEST_JSON {
            return Err(UnpackError::Damaged(format!("{name} is {} bytes long", entry.size())));
        }
        let mut text = Vec::new();
        self.copy(entry, name, &mut text, Path::new(name))?;
        serde_json::from_slice(&text).map_err(|error| UnpackError::Damaged(format!("{name}: {error}")))
    }

    fn file(&mut self, entry: &mut Entry<'_, impl Read>, name: &str) -> Result<(), UnpackError> {
        let path = self.place_of(name)?;
        if !entry.header().entry_type().is_file() {
            return Err(UnpackError::Damaged(format!("{name} is no file")));
        }
        let writing = |source: io::Error| UnpackError::Write {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent().filter(|folder| *folder != self.folder) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(writing)?;
            folder.clone_into(&mut self.folder);
        }
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(UnpackError::Damaged(format!("{name} is in it twice")));
            }
            opened => opened.map_err(writing)?,
        };
        self.copy(entry, name, &mut file, &path)?;
        // The folder of an attempt says by it when its command was started.
        let modified = entry.header().mtime().unwrap_or(0);
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(modified));
        modified
            .map_or(Ok(()), |modified| file.set_modified(modified))
            .map_err(writing)
    }

    /// Where a file belongs. Names come from outside, and must not lead elsewhere, nor to what each directory has of its own.
    fn place_of(&self, name: &str) -> Result<PathBuf, UnpackError> {
        let unexpected = || UnpackError::Damaged(format!("no backup has a file {name:?}"));
        let inner = name.strip_prefix(DATA).ok_or_else(unexpected)?;
        let parts: Vec<&str> = inner.split('/').collect();
        let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\0');
        let is_expected = match parts.first() {
            // The task, the number of the attempt, and the file.
            Some(&ATTEMPTS) => parts.len() == 4,
            _ => inner == DATABASE || is_copied(inner),
        };
        if parts.len() > DEEPEST || !parts.iter().all(is_plain) || !is_expected {
            return Err(unexpected());
        }
        Ok(self.to.join(inner))
    }

    fn copy(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        name: &str,
        to: &mut impl Write,
        path: &Path,
    ) -> Result<(), UnpackError> {
        let size = entry.size();
        self.tally.begin(name, size);
        let mut buffer = vec![0; usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 1 << 16)];
        let mut left = size;
        while left > 0 {
            let read = entry.read(&mut buffer).map_err(damaged)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Err(UnpackError::Truncated(format!("it ends within {name}")));
            }
            self.tally.add(bytes);
            left -= read as u64;
            to.write_all(bytes).map_err(|source| UnpackError::Write {
                path: path.to_owned(),
                source,
            })?;
        }
        Ok(())
    }
}

fn check(header: Header) -> Result<Header, UnpackError> {
    let later = |what: String| UnpackError::Later {
        release: header.longhaul.clone(),
        what,
    };
    if header.format > FORMAT {
        return Err(later(format!("in format {}", header.format)));
    }
    if header.schema > DatabaseCopy::SCHEMA_VERSION {
        return Err(later(format!("with schema version {}", header.schema)));
    }
    Ok(header)
}

/// An error of the reader of archives, which is one of the archive unless the system has failed.
fn damaged(error: io::Error) -> UnpackError {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::UnexpectedEof, _) => UnpackError::Truncated(error.to_string()),
        (_, Some(_)) => UnpackError::Read(error),
        // It has no kind of its own.
        _ if error.to_string().contains("failed to read entire block") => UnpackError::Truncated(error.to_string()),
        _ => UnpackError::Damaged(error.to_string()),
    }
}
