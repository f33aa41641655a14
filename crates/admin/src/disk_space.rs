//! How much room a data directory has.

use longhaul_core::store::FULL_DISK_ADVICE;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Less than this is soon used up, in bytes.
const LITTLE: u64 = 1 << 30;
/// With less than this a server takes no work once a write has failed for want of room, in bytes.
const USED_UP: u64 = 4 << 20;

/// The free space of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpace {
    path: PathBuf,
    free: u64,
}

impl DiskSpace {
    /// That of the disk of this directory; `None` if the system does not say.
    pub fn of(path: &Path) -> Option<Self> {
        let system = rustix::fs::statvfs(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            free: system.f_bavail.saturating_mul(system.f_frsize),
        })
    }

    /// Whether it is soon used up: less than 1 GiB.
    pub fn is_little(&self) -> bool {
        self.free < LITTLE
    }

    /// What to do about a disk with little space.
    pub fn advice() -> String {
        format!("calls are refused when it is full, and outcomes wait: {FULL_DISK_ADVICE}; or shorten `retention`")
    }

    /// Whether it is used up: less than 4 MiB.
    pub(crate) fn is_used_up(&self) -> bool {
        self.free < USED_UP
    }
}

impl fmt::Display for DiskSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the disk of {} has {} MiB left",
            self.path.display(),
            self.free >> 20
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_space_is_told_with_its_disk() {
        let space = |free| DiskSpace {
            path: "/data".into(),
            free,
        };
        let states = [0, USED_UP - 1, USED_UP, LITTLE - 1, LITTLE].map(|free| {
            let space = space(free);
            (space.is_used_up(), space.is_little())
        });
        let (used_up, little, enough) = ((true, true), (false, true), (false, false));
        assert_eq!(states, [used_up, used_up, little, little, enough]);
        assert_eq!(space(LITTLE - 1).to_string(), "the disk of /data has 1023 MiB left");
        assert!(DiskSpace::of(Path::new("/")).is_some());
        // A deletion has room of its own, unless something else has used that up.
        let advice = DiskSpace::advice();
        let steps = ["admin cancel", "admin delete", "remove or move other files"].map(|step| advice.find(step));
        assert!(steps[0].is_some() && steps.is_sorted(), "{advice}");
    }
}
