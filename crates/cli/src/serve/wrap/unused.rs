//! Removes data directories of `longhaul wrap` that nobody has used for long.

use super::definition::{FILE, is_locked_at_once};
use longhaul_client::SystemClock;
use longhaul_core::{Clock as _, UnixMillis};
use longhaul_private_dir::PrivateDir;
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// After so many milliseconds nobody comes back for what is in it: thirty days.
const KEPT: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Removes the directories in `folder` that no `wrap` has used for thirty days, and no server uses.
pub(super) fn remove(folder: &Path) {
    let now = SystemClock.now();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Err(error) = remove_if_unused(&path, now) {
            tracing::debug!(%error, path = %path.display(), "a data directory was not removed");
        }
    }
}

fn remove_if_unused(path: &Path, now: UnixMillis) -> io::Result<()> {
    // Without this file it is none of `wrap`.
    let used = fs::symlink_metadata(path.join(FILE))?;
    let age = |seconds: i64| now.0.saturating_sub(seconds.saturating_mul(1_000));
    if age(used.mtime()) < KEPT {
        return Ok(());
    }
    // Earlier releases did not touch the file, so the files of the server count, too.
    for file in fs::read_dir(path)? {
        if age(file?.metadata()?.mtime()) < KEPT {
            return Ok(());
        }
    }
    let dir = PrivateDir::open(path)?;
    let lock = dir.file(FILE, OpenOptions::new().read(true))?;
    if is_locked_at_once(&lock)? && is_locked_at_once(dir.as_file())? && dir.is_in_place()? {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::FileTimes, time::Duration};

    fn directory(folder: &Path, name: &str, days: u64, has_definition: bool) {
        let path = folder.join(name);
        fs::create_dir_all(&path).unwrap();
        let times = FileTimes::new()
            .set_modified(fs::metadata(folder).unwrap().modified().unwrap() - Duration::from_secs(days * 86_400));
        for file in ["tasks.db", FILE].into_iter().take(1 + usize::from(has_definition)) {
            let file = fs::File::create(path.join(file)).unwrap();
            file.set_times(times).unwrap();
        }
    }

    #[test]
    fn directories_that_nobody_has_used_for_long_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        directory(folder, "old", 31, true);
        directory(folder, "young", 29, true);
        directory(folder, "other", 31, false);
        directory(folder, "in-use", 31, true);
        directory(folder, "served", 31, true);
        directory(folder, "written", 31, true);
        fs::write(folder.join("written/tasks.db"), "").unwrap();
        let used = fs::File::open(folder.join("in-use").join(FILE)).unwrap();
        used.lock_shared().unwrap();
        let served = PrivateDir::open(&folder.join("served")).unwrap();
        served.as_file().lock().unwrap();
        remove(folder);
        let mut left: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["in-use", "other", "served", "written", "young"]);
    }
}
