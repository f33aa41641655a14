//! What lies below a folder, opened without following a link: one could lead out of the folder.

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
const READ_FOLDER: OFlags = READ.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
/// Never waits for the other end of a FIFO.
const READ_FILE: OFlags = READ.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a folder, to be the root of what is opened below it. Its own path may have links.
///
/// # Errors
/// The system's.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, READ.union(OFlags::DIRECTORY), Mode::empty())?)
}

/// Opens the regular file at `path` below `root`, to be read; `None` if there is none. No link is followed.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("file"), "")?;
/// # std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link"))?;
/// use longhaul_private_dir::{open_file_beneath, open_root};
/// let root = open_root(folder.path())?;
/// assert!(open_file_beneath(&root, "file".as_ref())?.is_some());
/// assert!(open_file_beneath(&root, "link".as_ref())?.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The system's, for a file that is there and cannot be opened.
pub fn open_file_beneath(root: impl AsFd, path: &Path) -> io::Result<Option<File>> {
    let opened = match open_beneath(root, path, READ_FILE) {
        Ok(opened) => File::from(opened),
        // There is none; it is a link; a FIFO or socket that nobody serves.
        Err(
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO | Errno::NODEV,
        ) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(opened.metadata()?.is_file().then_some(opened))
}

/// Opens the folder at `path` below `root`, or `root` itself for an empty path, to be listed. No link is followed.
///
/// # Errors
/// The system's.
pub fn open_folder_beneath(root: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    match path.as_os_str().is_empty() {
        true => openat(root, ".", READ_FOLDER, Mode::empty()),
        false => open_beneath(root, path, READ_FOLDER),
    }
}

/// A folder that can be entered need not be readable.
#[cfg(target_os = "linux")]
const TO_ENTER: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const TO_ENTER: OFlags = OFlags::RDONLY;

/// Opens `folder`, to be entered, which lies in `within`; both were without links when they were resolved. A link that has taken the place of a part below `within` is not
/// followed, so the folder lies there still.
///
/// # Errors
/// The system's, and that it does not lie there.
pub fn open_within(folder: &Path, within: &Path) -> io::Result<OwnedFd> {
    let outside = || io::Error::other(format!("{} is not within {}", folder.display(), within.display()));
    let below = folder.strip_prefix(within).map_err(|_| outside())?;
    let options = TO_ENTER | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened = rustix::fs::open(within, options, Mode::empty())?;
    for part in below.components() {
        let Component::Normal(name) = part else {
            return Err(outside());
        };
        opened = openat(&opened, name, options | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened)
}

fn open_beneath(root: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        /// How often it is tried again after a folder was moved meanwhile.
        const ATTEMPTS: usize = 8;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        for _ in 0..ATTEMPTS {
            match openat2(root.as_fd(), path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                // An old kernel, or a sandbox that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
    }
    open_step_by_step(root, path, flags)
}

/// As [`open_beneath`]: opens each folder in turn from the one before.
fn open_step_by_step(root: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut folder: Option<OwnedFd> = None;
    let mut steps = path.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else {
            return Err(Errno::XDEV);
        };
        let flags = match steps.peek() {
            Some(_) => READ_FOLDER,
            None => flags.union(OFlags::NOFOLLOW),
        };
        let from = folder.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        folder = Some(openat(from, name, flags, Mode::empty())?);
    }
    folder.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    #[test]
    fn no_link_is_followed_with_the_kernels_help_or_without() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("docs");
        fs::create_dir_all(path.join("guide/deep")).unwrap();
        for file in ["../secret", "file", "guide/deep/file"] {
            fs::write(path.join(file), file).unwrap();
        }
        for (link, target) in [
            ("inside", "guide/deep/file"),
            ("outside", "../secret"),
            ("absolute", "/etc/passwd"),
            ("guide/up", ".."),
            ("out", "../../.."),
        ] {
            symlink(target, path.join(link)).unwrap();
        }
        let root = open_root(&path).unwrap();
        let opens = |file: &str| {
            let found = open_file_beneath(&root, file.as_ref()).unwrap().is_some();
            assert_eq!(
                found,
                open_step_by_step(&root, file.as_ref(), READ_FILE).is_ok(),
                "{file}"
            );
            found
        };
        assert!(opens("file") && opens("guide/deep/file"));
        for file in [
            "inside",
            "outside",
            "absolute",
            "out/secret",
            "guide/up/file",
            "../secret",
            "/etc/passwd",
            "none",
        ] {
            assert!(!opens(file), "{file}");
        }
        assert!(open_folder_beneath(&root, "guide/deep".as_ref()).is_ok());
        assert!(open_folder_beneath(&root, "".as_ref()).is_ok());
        assert!(open_folder_beneath(&root, "guide/up".as_ref()).is_err());
        assert!(open_file_beneath(&root, "guide".as_ref()).unwrap().is_none());
    }

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
