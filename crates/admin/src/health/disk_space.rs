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
/// Fewer inodes than this are soon used up: a command takes about ten.
const FEW_INODES: u64 = 1_000;

/// The free space of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpace {
    path: PathBuf,
    free: u64,
    total: u64,
    /// `None` for file systems that make them as they are needed.
    free_inodes: Option<u64>,
}

impl DiskSpace {
    /// That of the disk of this directory, or of the one that it will be in; `None` if the system does not say.
    pub fn of(path: &Path) -> Option<Self> {
        let present = path.ancestors().find(|path| path.exists())?;
        let system = rustix::fs::statvfs(present).ok()?;
        Some(Self {
            path: path.to_owned(),
            free: system.f_bavail.saturating_mul(system.f_frsize),
            total: system.f_blocks.saturating_mul(system.f_frsize),
            free_inodes: (system.f_files > 0).then_some(system.f_favail),
        })
    }

    /// Whether it is soon used up: less than 1 GiB, or than 1,000 inodes.
    pub fn is_little(&self) -> bool {
        self.free < LITTLE || self.has_few_inodes()
    }

    /// Whether there is room for fewer than 1,000 files, however many bytes are left.
    pub fn has_few_inodes(&self) -> bool {
        self.free_inodes.is_some_and(|inodes| inodes < FEW_INODES)
    }

    /// What to do about a disk with little space. `has_tasks`: the database with the tasks is on it.
    pub fn advice(&self, has_tasks: bool) -> String {
        let alone = match has_tasks {
            _ if self.has_few_inodes() => "without inodes no command starts",
            true => {
                return format!(
                    "new tasks are refused when it is full, and accepted ones and outcomes wait: {FULL_DISK_ADVICE}; or shorten `retention`"
                );
            }
            false => "no command starts when it is full",
        };
        format!(
            "{alone}: calls are accepted, and their commands wait. `longhaul admin delete FILE --all --state ended` removes the files of ended tasks \
             (`--older 1h` spares the newest); or remove or move other files of that disk, or shorten `retention`"
        )
    }

    /// Why the server takes no work once a write has failed for want of room.
    pub(crate) fn why_no_work(space: Option<&Self>, has_tasks: bool) -> &'static str {
        match space {
            _ if !has_tasks => "the database has no room to write: new tasks are refused, and accepted ones wait",
            Some(space) if space.free >= USED_UP && space.free_inodes == Some(0) => {
                "the disk of the data directory has no inodes left: calls are accepted, and their commands wait"
            }
            _ => "the disk is full: new tasks are refused, and accepted ones wait",
        }
    }

    /// Why a reserve of `bytes` cannot be kept, if the disk cannot hold so much.
    pub fn refuse_reserve(&self, bytes: u64) -> Option<String> {
        (self.total > 0 && bytes >= self.total).then(|| {
            format!(
                "`disk_reserve` is {} MiB, and the disk of {} has {} MiB in all: no task could be stored. Make it smaller, or \"none\"",
                bytes >> 20,
                self.path.display(),
                self.total >> 20
            )
        })
    }

    /// Why a reserve of `bytes`, of which the disk has `kept`, does not fit on it now, though it could.
    pub fn doubt_reserve(&self, bytes: u64, kept: u64) -> Option<String> {
        let missing = bytes.saturating_sub(kept);
        let fits_once_empty = bytes < self.total;
        (fits_once_empty && missing > 0 && self.free < missing.saturating_add(USED_UP)).then(|| {
            format!(
                "`disk_reserve` is {} MiB, and the disk of {} has {} MiB left: new tasks are refused until the reserve fits. Make room, or make it smaller",
                bytes >> 20,
                self.path.display(),
                self.free >> 20
            )
        })
    }

    /// Whether it is used up: less than 4 MiB, or no inode.
    pub(crate) fn is_used_up(&self) -> bool {
        self.free < USED_UP || self.free_inodes == Some(0)
    }
}

impl fmt::Display for DiskSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.free_inodes {
            Some(0) => write!(f, "the disk of {path} has no inodes left, so no file can be made on it"),
            Some(inodes) if self.has_few_inodes() => write!(f, "the disk of {path} has {inodes} inodes left"),
            _ => write!(f, "the disk of {path} has {} MiB left", self.free >> 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64, free_inodes: Option<u64>) -> DiskSpace {
        DiskSpace {
            path: "/data".into(),
            free,
            total: 10 << 30,
            free_inodes,
        }
    }

    #[test]
    fn little_space_is_told_with_its_disk() {
        let states = [0, USED_UP - 1, USED_UP, LITTLE - 1, LITTLE].map(|free| {
            let space = space(free, Some(5_000));
            (space.is_used_up(), space.is_little())
        });
        let (used_up, little, enough) = ((true, true), (false, true), (false, false));
        assert_eq!(states, [used_up, used_up, little, little, enough]);
        assert_eq!(
            space(LITTLE - 1, None).to_string(),
            "the disk of /data has 1023 MiB left"
        );
        assert!(DiskSpace::of(Path::new("/")).is_some());
        assert!(DiskSpace::of(Path::new("/nowhere/at/all")).is_some());
        // A deletion has room of its own, unless something else has used that up.
        let advice = space(0, None).advice(true);
        let steps = ["admin cancel", "admin delete", "remove or move other files"].map(|step| advice.find(step));
        assert!(steps[0].is_some() && steps.is_sorted(), "{advice}");
    }

    #[test]
    fn a_disk_without_inodes_is_full() {
        let states = [None, Some(FEW_INODES), Some(FEW_INODES - 1), Some(0)].map(|inodes| {
            let space = space(LITTLE, inodes);
            (space.is_used_up(), space.is_little())
        });
        assert_eq!(states, [(false, false), (false, false), (false, true), (true, true)]);
        let said = space(LITTLE, Some(0)).to_string();
        assert_eq!(
            said,
            "the disk of /data has no inodes left, so no file can be made on it"
        );
    }

    /// The database goes on without inodes, and so it does if it is on another disk.
    #[test]
    fn what_becomes_of_calls_is_said_as_it_is() {
        let (bytes, inodes) = (space(0, Some(5_000)), space(LITTLE, Some(0)));
        let why = |space: &DiskSpace, has_tasks| DiskSpace::why_no_work(Some(space), has_tasks);
        let refused = "new tasks are refused, and accepted ones wait";
        assert_eq!(why(&bytes, true), format!("the disk is full: {refused}"));
        assert_eq!(
            why(&bytes, false),
            format!("the database has no room to write: {refused}")
        );
        let accepted = [
            why(&inodes, true).to_owned(),
            inodes.advice(true),
            inodes.advice(false),
            bytes.advice(false),
        ];
        for said in accepted {
            assert!(said.contains("calls are accepted, and their commands wait"), "{said}");
            assert!(!said.contains("refused"), "{said}");
        }
    }

    #[test]
    fn a_reserve_that_the_disk_cannot_hold_is_refused() {
        let space = space(LITTLE, None);
        assert_eq!(space.refuse_reserve(1 << 30), None);
        let why = space.refuse_reserve(20 << 30).unwrap();
        assert!(
            why.starts_with("`disk_reserve` is 20480 MiB, and the disk of /data has 10240 MiB in all"),
            "{why}"
        );
    }
}
