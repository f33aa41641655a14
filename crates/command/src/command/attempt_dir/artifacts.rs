//! Artifacts: the files that a command leaves for its caller, as copies in the folder of its attempt.
//!
//! | file | says |
//! | --- | --- |
//! | `out/` | where the command may put them, as `LONGHAUL_ARTIFACTS`; removed at its end |
//! | `artifact.<n>` | the copy of the n-th, from 1 |
//! | `artifacts` | what was kept, and what was not: an [`ArtifactList`] |
//!
//! The supervisor makes all of them before it records the end, and syncs them. So they count only if there is a record of the end.

use super::{AttemptDir, sync_dir};
use longhaul_private_dir::open_file;
use longhaul_runtime::{ArtifactChunk, ArtifactList, MAX_ARTIFACT_READ};
use std::{
    fs::OpenOptions,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The variable that names the folder in which all files are artifacts.
pub(crate) const FOLDER_VARIABLE: &str = "LONGHAUL_ARTIFACTS";
/// That folder.
pub(crate) const FOLDER: &str = "out";
pub(crate) const LIST: &str = "artifacts";
const COPY: &str = "artifact.";
/// No list of ours is longer. A command may have written one.
const LARGEST_LIST: u64 = 4 << 20;

/// What an attempt has left; `None` if it keeps no artifacts, or has not ended.
pub(crate) fn list(dir: &AttemptDir) -> io::Result<Option<ArtifactList>> {
    if dir.exit()?.is_none() {
        return Ok(None);
    }
    let file = match open_file(&dir.file(LIST), OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(LARGEST_LIST).read_to_end(&mut bytes)?;
    let list = serde_json::from_slice(&bytes);
    list.map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A part of an artifact of this name, at most [`MAX_ARTIFACT_READ`]; `None` if there is none.
pub(crate) fn read(dir: &AttemptDir, name: &str, offset: u64, limit: u64) -> io::Result<Option<ArtifactChunk>> {
    let kept = list(dir)?.unwrap_or_default().kept;
    let Some((index, artifact)) = kept.into_iter().enumerate().find(|(_, artifact)| artifact.name == name) else {
        return Ok(None);
    };
    let mut file = open_file(&copy(dir, index), OpenOptions::new().read(true))?;
    let found = file.metadata()?.len();
    if found != artifact.size {
        let why = format!("an artifact had {} bytes, and has {found}", artifact.size);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let offset = offset.min(artifact.size);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(limit.min(MAX_ARTIFACT_READ)).read_to_end(&mut bytes)?;
    Ok(Some(ArtifactChunk {
        artifact,
        offset,
        bytes,
    }))
}

/// Removes what the attempts before the previous one have left, so that only two sets take room: that of the previous attempt, and that of this one.
pub(super) fn remove_superseded(task_dir: &Path, epoch: u32) -> io::Result<()> {
    for earlier in 1..epoch.saturating_sub(1) {
        let dir = AttemptDir::at(task_dir.join(earlier.to_string()));
        match remove_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn remove_all(dir: &AttemptDir) -> io::Result<()> {
    // The list first: what it does not name is not offered.
    for name in [LIST, FOLDER] {
        remove(&dir.file(name))?;
    }
    remove_copies(dir)?;
    sync_dir(dir.path())
}

pub(crate) fn remove_copies(dir: &AttemptDir) -> io::Result<()> {
    for entry in std::fs::read_dir(dir.path())? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(COPY)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file, or a folder with all that is in it. Links are removed and not followed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where the copy of the artifact with this index is.
pub(crate) fn copy(dir: &AttemptDir, index: usize) -> PathBuf {
    dir.file(&format!("{COPY}{}", index + 1))
}
