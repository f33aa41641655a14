//! A copy of the whole store while it is in use.

use super::{connection, fault::Fault};
use longhaul_core::store::StoreError;
use longhaul_private_dir::open_file;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Copies the database at `from`, as it is at one moment, to the new file `to`.
///
/// The copy is written beside `to`, and gets its name once it is whole and on disk. It holds one long read, during which the
/// write-ahead log of the original cannot start over.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let io = |error: io::Error| StoreError::Failed(format!("cannot write the backup {}: {error}", to.display()));
    if to.exists() {
        return Err(StoreError::Failed(format!("{} exists already", to.display())));
    }
    let partial = partial_name(to);
    private_file(&partial).map_err(io)?;
    let source = connection::reader(from).map_err(|error| StoreError::Failed(error.to_string()))?;
    let target = partial
        .to_str()
        .ok_or_else(|| StoreError::Failed("the backup's path is not UTF-8".to_owned()))?;
    let copied = source
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| Fault::from(error).to_store_error());
    let finished = copied.and_then(|_| finish(&partial, to).map_err(io));
    if finished.is_err() {
        let _ = fs::remove_file(&partial);
    }
    finished
}

fn partial_name(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes an empty file, because SQLite copies into no other existing file. One that an earlier copy has left is truncated.
fn private_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    open_file(path, &options)?.set_len(0)
}

fn finish(partial: &Path, to: &Path) -> io::Result<()> {
    File::open(partial)?.sync_all()?;
    fs::rename(partial, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
