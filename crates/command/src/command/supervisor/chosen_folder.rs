//! Entering a folder that a caller has chosen, whatever becomes of its path meanwhile.

use rustix::fs::{Mode, OFlags, open, openat};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

/// A folder that can be entered need not be readable.
#[cfg(target_os = "linux")]
const TO_ENTER: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const TO_ENTER: OFlags = OFlags::RDONLY;

/// Opens `folder`, which lies in `within`; both were without links when the server resolved them. A link that has taken the place of a part below `within` is not
/// followed, so the folder lies there still.
pub(super) fn open_within(folder: &Path, within: &Path) -> io::Result<OwnedFd> {
    let outside = || io::Error::other(format!("{} is not within {}", folder.display(), within.display()));
    let below = folder.strip_prefix(within).map_err(|_| outside())?;
    let options = TO_ENTER | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened = open(within, options, Mode::empty())?;
    for part in below.components() {
        let Component::Normal(name) = part else {
            return Err(outside());
        };
        opened = openat(&opened, name, options | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::open_within;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    #[test]
    fn a_link_that_takes_the_place_of_a_folder_is_not_followed() {
        let files = tempfile::tempdir().unwrap();
        let root = files.path().canonicalize().unwrap();
        let within = root.join("repos");
        fs::create_dir_all(within.join("a/b")).unwrap();
        fs::create_dir_all(root.join("outside/b")).unwrap();
        let opened = fs::File::from(open_within(&within.join("a/b"), &within).unwrap());
        let expected = fs::metadata(within.join("a/b")).unwrap().ino();
        assert_eq!(opened.metadata().unwrap().ino(), expected);
        assert!(open_within(&within, &within).is_ok());
        assert!(open_within(&root.join("outside"), &within).is_err());
        assert!(open_within(&within.join("../outside"), &within).is_err());
        // Between the server's look and the start of the command.
        fs::rename(within.join("a"), within.join("was")).unwrap();
        symlink(root.join("outside"), within.join("a")).unwrap();
        assert!(open_within(&within.join("a/b"), &within).is_err());
        assert!(open_within(&within.join("a"), &within).is_err());
    }
}
