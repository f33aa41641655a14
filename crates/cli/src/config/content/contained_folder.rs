//! Folders whose files clients name: never a file outside of them.

use glob::{MatchOptions, Pattern};
use longhaul_private_dir::{open_file_beneath, open_folder_beneath, open_root};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// How many files are listed.
pub(crate) const MAX_LISTED: usize = 1_000;
/// How many entries of folders are looked at for the list.
const MAX_VISITED: usize = 50_000;
/// `*` stays in one folder.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A folder of files that others may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainedFolder {
    path: PathBuf,
    /// Files that match one of them are part of it; all are if there is none.
    include: Vec<Pattern>,
}

/// The files of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FolderListing {
    /// Their paths from the folder, each folder in the order of names.
    pub(crate) files: Vec<String>,
    /// There are more than are listed.
    pub(crate) has_more: bool,
}

impl ContainedFolder {
    pub(crate) fn new(path: PathBuf, include: Vec<Pattern>) -> Self {
        Self { path, include }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path can be that of a file of this folder. Hidden files, `.` and `..` are none.
    fn admits(&self, path: &str) -> bool {
        let is_plain = !path.contains('\0') && path.split('/').all(|step| !step.is_empty() && !step.starts_with('.'));
        is_plain && (self.include.is_empty() || self.include.iter().any(|one| one.matches_with(path, MATCHING)))
    }

    /// Opens a file of this folder; `None` if there is none at this path.
    ///
    /// # Errors
    /// The system's, for a file that is there and cannot be opened.
    pub(crate) fn open(&self, path: &str) -> io::Result<Option<File>> {
        if !self.admits(path) {
            return Ok(None);
        }
        // Opened anew each time, since a deployment may put another folder in its place.
        open_file_beneath(open_root(&self.path)?, path.as_ref())
    }

    /// The files that are there now, up to a limit.
    ///
    /// # Errors
    /// If the folder itself cannot be read.
    pub(crate) fn list(&self) -> io::Result<FolderListing> {
        let root = open_root(&self.path)?;
        let (mut listing, mut visited) = (FolderListing::default(), 0);
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            // A folder below that cannot be read has no files for clients.
            let Ok(opened) = open_folder_beneath(&root, folder.as_ref()) else {
                continue;
            };
            let mut entries = Vec::new();
            for entry in Dir::read_from(&opened)?.filter_map(Result::ok) {
                let name = entry.file_name();
                // Others cannot be named in a URI.
                let Some(name) = name.to_str().ok().filter(|name| !name.starts_with('.')) else {
                    continue;
                };
                visited += 1;
                if visited > MAX_VISITED {
                    listing.has_more = true;
                    break;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                        .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode)),
                    known => known,
                };
                entries.push((name.to_owned(), kind));
            }
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            let mut below = Vec::new();
            for (name, kind) in entries {
                let path = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                let is_file = match kind {
                    FileType::Directory => {
                        below.push(path);
                        continue;
                    }
                    FileType::RegularFile => self.admits(&path),
                    _ => false,
                };
                if is_file && listing.files.len() == MAX_LISTED {
                    listing.has_more = true;
                    return Ok(listing);
                }
                if is_file {
                    listing.files.push(path);
                }
            }
            folders.extend(below.into_iter().rev());
        }
        Ok(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Read as _, os::unix::fs::symlink};

    fn folder() -> tempfile::TempDir {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        fs::create_dir_all(path.join("docs/guide/deep")).unwrap();
        fs::create_dir_all(path.join("docs/.git")).unwrap();
        for file in [
            "secret.md",
            "docs/b.md",
            "docs/a.txt",
            "docs/.hidden.md",
            "docs/.git/config.md",
            "docs/guide/deep/x.md",
        ] {
            fs::write(path.join(file), file).unwrap();
        }
        let docs = path.join("docs");
        symlink("guide/deep/x.md", docs.join("inside.md")).unwrap();
        symlink("../secret.md", docs.join("outside.md")).unwrap();
        symlink(path.join("secret.md"), docs.join("absolute.md")).unwrap();
        symlink("..", docs.join("guide/up")).unwrap();
        symlink(path, docs.join("out")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            docs.join("pipe.md"),
            FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        temporary
    }

    fn contained(temporary: &tempfile::TempDir, include: &[&str]) -> ContainedFolder {
        let include = include.iter().map(|one| Pattern::new(one).unwrap()).collect();
        ContainedFolder::new(temporary.path().join("docs"), include)
    }

    #[test]
    fn only_files_of_the_folder_are_read() {
        let temporary = folder();
        let all = contained(&temporary, &[]);
        let read = |folder: &ContainedFolder, path: &str| {
            let mut text = String::new();
            folder.open(path).unwrap()?.read_to_string(&mut text).unwrap();
            Some(text)
        };
        for (path, content) in [("b.md", "docs/b.md"), ("guide/deep/x.md", "docs/guide/deep/x.md")] {
            assert_eq!(read(&all, path).as_deref(), Some(content), "{path}");
        }
        for path in [
            "",
            "/b.md",
            "b.md/",
            "./b.md",
            "../secret.md",
            "guide/../../secret.md",
            "guide//deep/x.md",
            ".hidden.md",
            ".git/config.md",
            "inside.md",
            "guide/up/b.md",
            "outside.md",
            "absolute.md",
            "out/secret.md",
            "guide/up/../secret.md",
            "guide",
            "pipe.md",
            "b.md\0",
            "none.md",
            "b.md/x",
        ] {
            assert_eq!(read(&all, path), None, "{path:?}");
        }
        let some = contained(&temporary, &["*.txt", "guide/**/*.md"]);
        assert!(read(&some, "a.txt").is_some() && read(&some, "guide/deep/x.md").is_some());
        assert_eq!(read(&some, "b.md"), None);
    }

    #[test]
    fn the_list_has_what_can_be_read() {
        let temporary = folder();
        let all = contained(&temporary, &[]).list().unwrap();
        assert_eq!(all.files, ["a.txt", "b.md", "guide/deep/x.md"]);
        assert!(!all.has_more);
        let some = contained(&temporary, &["**/*.md"]).list().unwrap();
        assert_eq!(some.files, ["b.md", "guide/deep/x.md"]);
        for number in 0..MAX_LISTED {
            fs::write(temporary.path().join(format!("docs/guide/{number}.md")), "").unwrap();
        }
        let many = contained(&temporary, &[]).list().unwrap();
        assert_eq!((many.files.len(), many.has_more), (MAX_LISTED, true));
    }
}
