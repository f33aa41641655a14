//! Units on disk.

use super::{Scope, unit};
use std::{
    env,
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// What the names of units begin and end with.
const PREFIX: &str = "longhaul-";
const SUFFIX: &str = ".service";

/// A unit that is installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InstalledUnit {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The configuration file that it is for; `None` if another program has written it.
    pub(super) file: Option<PathBuf>,
}

/// The unit of a server of this name.
pub(super) fn unit_name(server: &str) -> String {
    format!("{PREFIX}{server}{SUFFIX}")
}

/// The folder for units; `None` without a home folder.
pub(super) fn folder(scope: Scope) -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    match scope {
        Scope::User => {
            let configuration = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).and_then(absolute);
            let home = || env::var_os("HOME").map(PathBuf::from).and_then(absolute);
            let configuration = configuration.or_else(|| Some(home()?.join(".config")))?;
            Some(configuration.join("systemd/user"))
        }
        Scope::System => {
            // systemd's own variable for other folders than its usual ones.
            let named = env::var_os("SYSTEMD_UNIT_PATH").and_then(|paths| env::split_paths(&paths).find_map(absolute));
            Some(named.unwrap_or_else(|| PathBuf::from("/etc/systemd/system")))
        }
    }
}

impl InstalledUnit {
    /// What is at a path, if anything is.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let is_link = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?.is_symlink(),
        };
        // A link is `/dev/null` for a masked unit, and leads to somebody's file else.
        let text = match is_link {
            true => String::new(),
            false => longhaul_private_dir::read_named_text(path)?,
        };
        Ok(Some(Self {
            path: path.to_owned(),
            file: unit::configured(&text).map(Path::to_owned),
            text,
        }))
    }

    /// The unit for a configuration file, whatever it is called.
    pub(super) fn find(folder: &Path, file: &Path) -> io::Result<Option<Self>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let is_ours = name
                .to_str()
                .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
            if is_ours
                && let Ok(Some(unit)) = Self::read(&folder.join(name))
                && unit.file.as_deref() == Some(file)
            {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }
}

/// Writes a unit at once.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // systemd reads no file of such a name.
    let draft = folder.join(format!(".longhaul-{}", std::process::id()));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    written().inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// The lines that differ, as a diff without context.
pub(super) fn difference(before: &str, after: &str) -> String {
    let only_in = |these: &str, others: &str, sign: char| -> Vec<String> {
        let lines = these.lines().filter(|line| !others.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign} {line}")).collect()
    };
    [only_in(before, after, '-'), only_in(after, before, '+')]
        .concat()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_by_its_file_and_replaced_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/systemd/user").join(unit_name("jobs"));
        let units = path.parent().unwrap();
        let file = Path::new("/srv/a b.toml");
        assert_eq!(InstalledUnit::find(units, file).unwrap(), None);
        let text = format!("[Unit]\n{}/srv/a b.toml\n", unit::MARKER);
        write(&path, "old").unwrap();
        assert_eq!(InstalledUnit::read(&path).unwrap().unwrap().file, None);
        write(&path, &text).unwrap();
        let found = InstalledUnit::find(units, file).unwrap().unwrap();
        assert_eq!((found.path.as_path(), found.text), (path.as_path(), text.clone()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(units).unwrap().count(), 1);
        // A masked unit is not ours.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert_eq!(InstalledUnit::read(&path).unwrap().unwrap().file, None);
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        assert_eq!(difference("a\nb\nc\n", "a\nd\nc\n"), "- b\n+ d");
        assert_eq!(difference("a\n", "a\n"), "");
    }
}
