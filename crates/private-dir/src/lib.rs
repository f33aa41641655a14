//! A directory that belongs to this process's user alone, and its files, opened without following links.
//!
//! A server may run as root, and its data directory may have been open to others before it was made private. Files they left there must not
//! make the server write, truncate or wait somewhere else: so each file is checked before it is used, by its type, its owner and its names.
//! A path that leads to the directory may have links in it, as `/home` is one on some systems.

mod beneath;
mod named_file;
mod socket_path;

pub use beneath::{open_file_beneath, open_folder_beneath, open_root, open_within};
pub use named_file::{check_named, open_named, read_named, read_named_text};
pub use socket_path::SocketPath;

use rustix::fs::{Access, FlockOperation, OFlags, flock};
use std::{
    fs::{self, DirBuilder, File, FileType, Metadata, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The first file in a data directory.
const LOCK: &str = "lock";
/// The database in one, which may be a copy.
const DATABASE: &str = "longhaul.db";
/// The names of what a server keeps in one, beside its databases, and of what is on a new disk.
const NOT_FOREIGN: [&str; 27] = [
    LOCK,
    "admin.key",
    "admin.sock",
    "attempts",
    "database",
    "host",
    "host.draft",
    "keys.json",
    "keys.json.new",
    "keys.lock",
    "lost+found",
    "mcp.sock",
    "metrics.key",
    "node",
    "node.draft",
    "owner.log",
    "owner.sock",
    "principals",
    "reserve",
    "secrets.key",
    "secrets.key.new",
    "secrets.lock",
    "served.json",
    "served.json.new",
    "upstreams",
    "wrap.json",
    "wrap.toml",
];

/// Why a file or directory is not used. Inside an [`io::Error`] of the kind [`InvalidData`](io::ErrorKind::InvalidData).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Something else is at its path.
    #[error("it is {found} and should be {wanted}; find out who put it there, and move it away")]
    Kind {
        /// What is there.
        found: &'static str,
        /// What should be.
        wanted: &'static str,
    },
    /// Another user owns it.
    #[error(
        "it belongs to user {owner}, and this process runs as user {user}; run the process as its owner, or change the owner"
    )]
    Owner {
        /// The owner's id.
        owner: u32,
        /// Ours.
        user: u32,
    },
    /// Other users may write to it.
    #[error(
        "other users may write to it (mode {mode:o}). If you trust what it contains, run `chmod 600` on it; otherwise move it away"
    )]
    Writable {
        /// Its mode.
        mode: u32,
    },
    /// All users of the machine share it, as `/tmp` and `/`, and it holds nothing of Longhaul.
    #[error("all users share it (mode {mode:o}), and it has no data of Longhaul; choose a directory of its own")]
    Shared {
        /// Its mode.
        mode: u32,
    },
    /// Other users may read it, and it holds their files or others, and nothing of Longhaul.
    #[error(
        "other users may read it (mode {mode:o}), it has other files, and it would be closed to them; choose a directory of its own, or run `chmod 700` on it"
    )]
    Foreign {
        /// Its mode.
        mode: u32,
    },
    /// It has other names, under which others may read and change it.
    #[error("it has {names} names (hard links) and should have one; find out who made the others, and move it away")]
    Names {
        /// How many.
        names: u64,
    },
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        Self::new(io::ErrorKind::InvalidData, unfit)
    }
}

impl Unfit {
    /// The [`Unfit`] inside `error`, if there is one.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// A directory of this process's user, which nobody else may enter. Held open.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    opened: File,
}

impl PrivateDir {
    /// Whether [`create`](Self::create) would refuse the path. Nothing is made or changed.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn check(path: &Path) -> io::Result<()> {
        match path.symlink_metadata() {
            Ok(_) => Ok(check_directory(&Self::real(path)?.symlink_metadata()?)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = std::path::absolute(path)?;
                let above = above.ancestors().skip(1).find(|above| above.exists());
                let above = above.unwrap_or(Path::new("/"));
                check_kind(above.metadata()?.file_type(), FileType::is_dir, "a directory")?;
                Ok(rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is a directory that other users may read, and has files that are not of a server: it would be closed to those users.
    ///
    /// # Errors
    /// [`Unfit::Foreign`].
    pub fn check_foreign(path: &Path) -> Result<(), Unfit> {
        let (Ok(found), Ok(mut entries)) = (path.metadata(), fs::read_dir(path)) else {
            return Ok(());
        };
        let mode = found.permissions().mode() & 0o7777;
        let is_foreign = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !name.starts_with('.') && !name.starts_with(DATABASE) && !NOT_FOREIGN.contains(&&*name)
        };
        let is_ours = || path.join(LOCK).exists() || path.join(DATABASE).exists();
        match mode & 0o077 != 0 && !is_ours() && entries.any(|entry| entry.is_ok_and(is_foreign)) {
            true => Err(Unfit::Foreign { mode }),
            false => Ok(()),
        }
    }

    /// As [`create`](Self::create), for the data directory of a server: one that others read, and that has their files, is not closed to them.
    ///
    /// # Errors
    /// As [`check_foreign`](Self::check_foreign) and [`create`](Self::create).
    pub fn create_data(path: &Path) -> io::Result<Self> {
        Self::check_foreign(path)?;
        Self::create(path)
    }

    /// Opens the directory, creating it and those above it if need be. When this returns, its name is on disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::check(path)?;
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Self::open(path)
    }

    /// Opens an existing directory, and removes all permissions of other users. The path may be a link if it is root's or this
    /// user's.
    ///
    /// # Errors
    /// [`Unfit`] if it is no directory or belongs to another user, and the system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_itself(Self::real(path)?)
    }

    /// The path without links, if it may be entered by that name.
    fn real(path: &Path) -> io::Result<PathBuf> {
        let found = path.symlink_metadata()?;
        if found.is_symlink() && found.uid() != 0 {
            check_owner(&found)?;
        }
        let path = path.canonicalize()?;
        // Its mode is changed, which must not happen to a folder such as `/tmp` or `/`.
        let mode = path.symlink_metadata()?.permissions().mode() & 0o7777;
        let is_shared = mode & 0o1000 != 0 || path.parent().is_none();
        if is_shared && fs::read_dir(&path)?.next().is_some() && !path.join(LOCK).try_exists()? {
            return Err(Unfit::Shared { mode }.into());
        }
        Ok(path)
    }

    /// Opens the directory `name` in this one, creating it if it is not there. It is not followed if it is a link.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn subdirectory(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => self.sync()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::open_itself(path)
    }

    fn open_itself(path: PathBuf) -> io::Result<Self> {
        check_directory(&path.symlink_metadata()?)?;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW))
            .open(&path)?;
        let found = opened.metadata()?;
        check_directory(&found)?;
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users could read this directory (mode {mode:o}); its mode is now 700");
            opened.set_permissions(Permissions::from_mode(0o700))?;
        }
        Ok(Self { path, opened })
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself, to be locked.
    pub fn as_file(&self) -> &File {
        &self.opened
    }

    /// Opens the file `name` in it; see [`open_file`].
    ///
    /// # Errors
    /// [`Unfit`], and the system's.
    pub fn file(&self, name: &str, options: &OpenOptions) -> io::Result<File> {
        open_file(&self.path.join(name), options)
    }

    /// Whether its path still leads to it.
    ///
    /// # Errors
    /// The system's.
    pub fn is_in_place(&self) -> io::Result<bool> {
        is_at(&self.opened.metadata()?, &self.path)
    }

    /// Brings the names in it to the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.opened.sync_all()
    }

    /// Waits for the lock of the file `name`, which is made if it is missing. Processes share the lock; it is held until the file is dropped.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn lock(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = self.file(name, &options)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Puts a file with this content in the place of the file `name`, if there is one. A crash leaves the old one or the new one; the new one is on disk when this
    /// returns. Whoever calls this must be alone, by a [`lock`](Self::lock) of another file, since this one is replaced.
    ///
    /// # Errors
    /// The system's; the old file is as it was, unless the last sync has failed.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        // Of a process that died here.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = open_file(&new, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(new, self.path.join(name))?;
        self.sync()
    }
}

/// Opens a regular file that belongs to this process's user and has no other name. It never waits, as for a FIFO's other end.
///
/// Do not ask for a truncation: it would come before the check. [`File::set_len`] comes after it.
///
/// # Errors
/// [`Unfit`], and the system's.
pub fn open_file(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // Before it is opened, because opening a device may do something; and after, because it may be another one by then.
    check_file(path)?;
    let file = options
        .clone()
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(path)?;
    check_file_metadata(&file.metadata()?)?;
    Ok(file)
}

/// Checks a file that others will open, if it is there.
///
/// # Errors
/// As [`open_file`].
pub fn check_file(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) => Ok(check_file_metadata(&found)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks a file with secrets that may be made private, if it is there. Returns its mode. Changes nothing.
///
/// # Errors
/// As [`make_file_private`].
pub fn check_secret_file(path: &Path) -> io::Result<Option<u32>> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    check_file_metadata(&found)?;
    let mode = found.permissions().mode() & 0o777;
    match mode & 0o022 {
        0 => Ok(Some(mode)),
        _ => Err(Unfit::Writable { mode }.into()),
    }
}

/// Takes all permissions of other users from a file with secrets in a [`PrivateDir`], if it is there. Returns its mode until then, if they could read it. The file is not opened.
///
/// # Errors
/// [`Unfit::Writable`] if others may write to it: whether they have, its owner has to judge. Else as [`open_file`].
pub fn make_file_private(path: &Path) -> io::Result<Option<u32>> {
    let Some(mode) = check_secret_file(path)?.filter(|mode| mode & 0o077 != 0) else {
        return Ok(None);
    };
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    tracing::warn!(path = %path.display(), "other users could read this file (mode {mode:o}); its mode is now 600");
    Ok(Some(mode))
}

/// Whether a directory of this process's user is at `path`. What else is there, a link to one too, is [`Unfit`].
///
/// # Errors
/// [`Unfit`], and the system's.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) => {
            check_directory(&found)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a socket is at `path`. What else is there is [`Unfit`].
///
/// # Errors
/// [`Unfit`], and the system's.
pub fn is_socket(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) => {
            check_kind(found.file_type(), FileType::is_socket, "a socket")?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a file that [`open_file`] opens.
///
/// # Errors
/// [`Unfit`], and the system's.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether `path` leads to the file that `known` describes.
///
/// # Errors
/// The system's.
pub fn is_at(known: &Metadata, path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (known.dev(), known.ino())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

fn check_file_metadata(found: &Metadata) -> Result<(), Unfit> {
    check_kind(found.file_type(), FileType::is_file, "a regular file")?;
    check_owner(found)?;
    match found.nlink() {
        0 | 1 => Ok(()),
        names => Err(Unfit::Names { names }),
    }
}

fn check_directory(found: &Metadata) -> Result<(), Unfit> {
    check_kind(found.file_type(), FileType::is_dir, "a directory")?;
    check_owner(found)
}

fn check_kind(found: FileType, is_wanted: fn(&FileType) -> bool, wanted: &'static str) -> Result<(), Unfit> {
    if is_wanted(&found) {
        return Ok(());
    }
    Err(Unfit::Kind {
        found: name_of(found),
        wanted,
    })
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_file() => "a regular file",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

fn check_owner(found: &Metadata) -> Result<(), Unfit> {
    let user = rustix::process::geteuid().as_raw();
    match found.uid() {
        owner if owner == user => Ok(()),
        owner => Err(Unfit::Owner { owner, user }),
    }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
