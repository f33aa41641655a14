//! Copying the files that a command has left, before its end is recorded.

use crate::command::{
    artifact_pattern::{ArtifactPattern, parse_all},
    attempt_dir::{
        AttemptDir,
        artifacts::{FOLDER, LIST, copy, remove, remove_copies},
        create_private,
        record::{ArtifactSettings, LaunchSpec},
        sync_dir,
    },
};
use longhaul_core::{plain_line, shorten};
use longhaul_private_dir::{open_file_beneath, open_folder_beneath, open_root, open_within};
use longhaul_runtime::{Artifact, ArtifactList};
use rustix::fs::{AtFlags, Dir, FileType, Stat, fstat, statat};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// The most files that are kept.
const MAX_FILES: usize = 100;
/// The most entries of folders that are looked at.
const MAX_VISITED: usize = 100_000;
/// The most problems that are named one by one.
const MAX_NAMED: usize = 20;
/// Of a name that is shown.
const SHOWN_NAME: usize = 200;
const CHUNK: usize = 128 << 10;

/// Finds the files of one attempt.
pub(super) struct ArtifactCollector {
    settings: ArtifactSettings,
    patterns: Vec<ArtifactPattern>,
    least_free: u64,
    /// The folder that the command runs in, if any file of it may be kept.
    cwd: Option<OwnedFd>,
    /// What matched in it before the command began: others may have left it.
    before: HashMap<PathBuf, FileState>,
}

impl ArtifactCollector {
    /// Looks at what is there before the command begins; `None` if it keeps no artifacts.
    pub(super) fn before(spec: &LaunchSpec) -> Option<Self> {
        let settings = spec.artifacts.clone()?;
        // They were checked with the definition.
        let patterns = parse_all(&settings.patterns).unwrap_or_default();
        let cwd = match &spec.cwd_within {
            _ if patterns.is_empty() => None,
            // Without the folder the command does not start.
            Some(within) => open_within(&spec.cwd, within).ok(),
            None => open_root(&spec.cwd).ok(),
        };
        let found = cwd.as_ref().map(|cwd| search(cwd, Some(&patterns)));
        let before = found.into_iter().flat_map(|found| found.files);
        Some(Self {
            settings,
            least_free: spec.least_free,
            before: before.map(|file| (file.path, file.state)).collect(),
            patterns,
            cwd,
        })
    }

    /// Copies the files, and writes the list of them. All is on disk when this returns.
    ///
    /// # Errors
    /// Why there is no list. Nothing is kept then.
    pub(super) fn collect(self, dir: &AttemptDir) -> Result<(), String> {
        let (mut copies, notes) = self.copy_all(dir);
        copies.list.notes = notes;
        if copies.unnamed > 0 {
            let more = copies.unnamed;
            copies.list.problems.push(format!("{more} more files are left out"));
        }
        let mut written = write_list(dir, &copies.list);
        if let Err(error) = &written {
            // Without the copies there may be room for a list that says so.
            let why = format!("no file is kept: {error}");
            let _ = remove_copies(dir);
            written = write_list(
                dir,
                &ArtifactList {
                    problems: vec![why],
                    ..ArtifactList::default()
                },
            );
        }
        let _ = remove(&dir.file(FOLDER));
        written.map_err(|error| {
            let _ = remove(&dir.file(LIST));
            format!("the files of this attempt could not be kept: {error}")
        })
    }

    fn copy_all<'a>(&'a self, dir: &'a AttemptDir) -> (Copies<'a>, Vec<String>) {
        let mut copies = Copies {
            dir,
            settings: &self.settings,
            least_free: self.least_free,
            bytes: 0,
            list: ArtifactList::default(),
            unnamed: 0,
        };
        let mut notes = Vec::new();
        // What a command puts there is meant to be kept, so it comes first.
        let own = open_root(dir.path()).and_then(|root| Ok(open_folder_beneath(&root, FOLDER.as_ref())?));
        if let Ok(own) = own {
            let found = search(&own, None);
            notes.extend(found.notes("$LONGHAUL_ARTIFACTS"));
            copies.take(&own, found.files);
        }
        let Some(cwd) = &self.cwd else {
            return (copies, notes);
        };
        let found = search(cwd, Some(&self.patterns));
        notes.extend(found.notes("the folder that the command ran in"));
        for pattern in &self.patterns {
            if !found.files.iter().any(|file| pattern.matches(&file.name)) {
                notes.push(format!("no file matched {:?}", pattern.as_str()));
            }
        }
        let is_new = |file: &FoundFile| self.before.get(&file.path) != Some(&file.state);
        let (new, unchanged): (Vec<_>, Vec<_>) = found.files.into_iter().partition(is_new);
        if let Some(first) = unchanged.first() {
            notes.push(format!(
                "{} of the files that matched, such as {}, were there before this attempt and have not changed, so they are not its own",
                unchanged.len(),
                shown(&first.name)
            ));
        }
        copies.take(cwd, new);
        (copies, notes)
    }
}

fn write_list(dir: &AttemptDir, list: &ArtifactList) -> io::Result<()> {
    dir.write_synced(LIST, &serde_json::to_vec(list)?)?;
    // The names of the copies, too.
    sync_dir(dir.path())
}

/// What tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState([i128; 7]);

impl FileState {
    fn of(found: &Stat) -> Self {
        Self([
            found.st_dev.into(),
            found.st_ino.into(),
            found.st_size.into(),
            found.st_mtime.into(),
            found.st_mtime_nsec.into(),
            // No program can set it.
            found.st_ctime.into(),
            found.st_ctime_nsec.into(),
        ])
    }
}

struct FoundFile {
    path: PathBuf,
    /// The path for people and programs; what is not UTF-8 is replaced.
    name: String,
    state: FileState,
}

#[derive(Default)]
struct Search {
    /// By name.
    files: Vec<FoundFile>,
    /// There were more entries than were looked at.
    is_cut: bool,
    /// The first entry that would be among the files, and is a link.
    link: Option<String>,
}

impl Search {
    /// What of `folder` was not looked at.
    fn notes(&self, folder: &str) -> impl Iterator<Item = String> {
        let link = self.link.as_ref();
        let link = link.map(|link| format!("{} in {folder} is a link, and links are not followed", shown(link)));
        let cut = format!("{folder} has more than {MAX_VISITED} entries: not all of them were looked at");
        link.into_iter().chain(self.is_cut.then_some(cut))
    }
}

/// The regular files below a folder that match one of `patterns`; without any all of them. Links are not followed.
fn search(root: &OwnedFd, patterns: Option<&[ArtifactPattern]>) -> Search {
    let mut found = Search::default();
    let mut visited = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop().filter(|_| !found.is_cut) {
        // One that cannot be read has no files that could be.
        let Ok(opened) = open_folder_beneath(root, &folder) else {
            continue;
        };
        let Ok(entries) = Dir::read_from(&opened) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let file_name = entry.file_name();
            if matches!(file_name.to_bytes(), b"." | b"..") {
                continue;
            }
            visited += 1;
            if visited > MAX_VISITED {
                found.is_cut = true;
                break;
            }
            let path = folder.join(OsStr::from_bytes(file_name.to_bytes()));
            let name = path.to_string_lossy().into_owned();
            let matches = patterns.is_none_or(|all| all.iter().any(|pattern| pattern.matches(&name)));
            if !matches && entry.file_type() == FileType::RegularFile {
                continue;
            }
            let Ok(stat) = statat(&opened, file_name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if patterns.is_none_or(|all| all.iter().any(|one| one.may_match_in(&name))) => {
                    folders.push(path);
                }
                FileType::RegularFile if matches => found.files.push(FoundFile {
                    path,
                    name,
                    state: FileState::of(&stat),
                }),
                FileType::Symlink if matches => drop(found.link.get_or_insert(name)),
                _ => {}
            }
        }
    }
    found.files.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// The copies that were made so far.
struct Copies<'a> {
    dir: &'a AttemptDir,
    settings: &'a ArtifactSettings,
    least_free: u64,
    /// Of all copies.
    bytes: u64,
    list: ArtifactList,
    /// Files that are left out and are not among the problems.
    unnamed: usize,
}

/// Why a file is left out.
#[derive(Debug, thiserror::Error)]
enum LeftOut {
    #[error("there is one of this name in $LONGHAUL_ARTIFACTS")]
    SameName,
    #[error("there are {MAX_FILES} files before it, the most that are kept")]
    TooMany,
    #[error("with its {size} bytes the files would have more than {most} bytes (`max_artifacts`)")]
    TooLarge { size: u64, most: u64 },
    #[error("the disk would have less than {} MiB left", .0 >> 20)]
    NoRoom(u64),
    #[error("it was removed while the files were copied")]
    Gone,
    #[error("it could not be copied: {0}")]
    Io(#[from] io::Error),
}

impl Copies<'_> {
    fn take(&mut self, root: &OwnedFd, files: Vec<FoundFile>) {
        for file in files {
            match self.copy(root, &file) {
                Ok(artifact) => {
                    self.bytes += artifact.size;
                    self.list.kept.push(artifact);
                }
                Err(why) => self.problem(format!("{} is left out: {why}", shown(&file.name))),
            }
        }
    }

    fn problem(&mut self, text: String) {
        match self.list.problems.len() < MAX_NAMED {
            true => self.list.problems.push(text),
            false => self.unnamed += 1,
        }
    }

    fn copy(&mut self, root: &OwnedFd, file: &FoundFile) -> Result<Artifact, LeftOut> {
        if self.list.kept.iter().any(|kept| kept.name == file.name) {
            return Err(LeftOut::SameName);
        }
        if self.list.kept.len() == MAX_FILES {
            return Err(LeftOut::TooMany);
        }
        let mut source = open_file_beneath(root, &file.path)?.ok_or(LeftOut::Gone)?;
        // Another one may have taken its place. What is copied is what was opened.
        let before = fstat(&source).map_err(io::Error::from)?;
        let size = source.metadata()?.len();
        self.check_room(size)?;
        let path = copy(self.dir, self.list.kept.len());
        let copied = copy_file(&mut source, &path, self.settings.max_bytes - self.bytes);
        let (size, sha256) = match copied {
            Ok(Some(copied)) => copied,
            Ok(None) => {
                let _ = remove(&path);
                let most = self.settings.max_bytes;
                return Err(LeftOut::TooLarge { size, most });
            }
            Err(error) => {
                let _ = remove(&path);
                return Err(error.into());
            }
        };
        let after = fstat(&source).map_err(io::Error::from)?;
        if FileState::of(&before) != FileState::of(&after) {
            let name = shown(&file.name);
            self.problem(format!(
                "{name} was written to while it was copied, so it may be incomplete"
            ));
        }
        let name = file.name.clone();
        Ok(Artifact { name, size, sha256 })
    }

    fn check_room(&self, size: u64) -> Result<(), LeftOut> {
        let most = self.settings.max_bytes;
        if size > most - self.bytes {
            return Err(LeftOut::TooLarge { size, most });
        }
        let disk = rustix::fs::statvfs(self.dir.path()).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match free < self.least_free.saturating_add(size) && self.least_free > 0 {
            true => Err(LeftOut::NoRoom(self.least_free)),
            false => Ok(()),
        }
    }
}

/// Copies a file to its end; its length then, and its SHA-256. `None` if it has more than `most` bytes.
fn copy_file(source: &mut File, path: &Path, most: u64) -> io::Result<Option<(u64, String)>> {
    let mut copy = create_private(path)?;
    let (mut size, mut digest) = (0, Sha256::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => &chunk[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        size += read.len() as u64;
        if size > most {
            return Ok(None);
        }
        digest.update(read);
        copy.write_all(read)?;
    }
    copy.sync_all()?;
    let digits = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some((size, digits)))
}

/// A name among other text.
fn shown(name: &str) -> String {
    format!("`{}`", shorten(&plain_line(name), SHOWN_NAME))
}
