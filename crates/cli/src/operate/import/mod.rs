//! `longhaul import`: rewrites the file of an MCP host so that its servers run behind Longhaul, or drafts tools of the jobs in a file.
//!
//! Each server stays an entry of its own, so the host's names of servers and tools stay the same.

mod document;
mod draft;
mod host;
mod rewrite;

use crate::{
    args::{self, Host, ImportSource},
    ask::agrees,
    exit::failure::report_local,
    output::{self, shell_word::command_line},
};
use rewrite::{ChangedServer, RewrittenFile};
use serde_json::json;
use std::{
    env,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Behind the name of the file: the copy of it as it was.
const COPY: &str = ".before-longhaul";
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// An option that does not go with a file of jobs.
#[derive(Debug, thiserror::Error)]
#[error("{0} is for the servers of a host; tools that are drafted of a file are only printed")]
struct OptionOfHosts(&'static str);

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("HOME is not set: name the file with --file")]
    NoHome,
    #[error("{file}: {error}; name another file with --file")]
    Unreadable { file: String, error: io::Error },
    #[error("{file}: {why}")]
    Invalid { file: String, why: String },
    #[error("standard input is no terminal, so nothing was changed: use --yes")]
    NobodyToAsk,
    #[error("nothing was changed")]
    Declined,
    #[error("{file} was changed by another program meanwhile; nothing was written, try again")]
    ChangedMeanwhile { file: String },
    #[error("cannot write {file}: {error}")]
    Unwritable { file: String, error: io::Error },
    #[error("cannot find this program's executable: {0}")]
    Program(io::Error),
}

/// A file of a host.
struct File {
    path: PathBuf,
    /// The byte order mark, or nothing.
    mark: &'static str,
    text: String,
}

/// Rewrites the file of a host, or drafts tools.
pub(crate) fn run(import: &args::Import) -> ExitCode {
    let file = match (&import.source, &import.file) {
        (Some(ImportSource::Host(host)), _) => return rewrite_file(import, *host),
        (_, Some(file)) | (Some(ImportSource::File(file)), None) => file,
        // The command line has one of them.
        (None, None) => return ExitCode::FAILURE,
    };
    match import.option_of_hosts() {
        Some(option) => report_local(&OptionOfHosts(option), true, import.json),
        None => draft::run(file, import.json),
    }
}

fn rewrite_file(import: &args::Import, host: Host) -> ExitCode {
    match change(import, host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let is_usage = !matches!(
                error,
                ImportError::Declined | ImportError::ChangedMeanwhile { .. } | ImportError::Unwritable { .. }
            );
            report_local(&error, is_usage, import.json)
        }
    }
}

fn change(import: &args::Import, host: Host) -> Result<(), ImportError> {
    let file = File::read(import, host)?;
    let program = env::current_exe().map_err(ImportError::Program)?;
    let program = program.display().to_string();
    let invalid = |why| ImportError::Invalid {
        file: file.path.display().to_string(),
        why,
    };
    let copy = read_text(&file.copy()).ok().map(|(_, text)| text);
    // Then the copy is what the file was before an earlier import, which an undo takes back, too.
    let is_kept = copy.is_some() && rewrite::has_imported(&file.text, host);
    let mut rewritten = match import.undo {
        true => rewrite::unwrap(&file.text, host),
        false => rewrite::wrap(&file.text, (host, import), &program),
    }
    .map_err(invalid)?;
    if import.undo
        && let Some(original) = copy
        && rewrite::as_undone(&original, host).is_ok_and(|expected| expected.text == rewritten.text)
    {
        // Nothing else was changed since the import, so the file becomes what it was, to the byte.
        rewritten.text = original;
    }
    let is_new = rewritten.text != file.text;
    let is_written = is_new && agreed(import, &file, &rewritten)?;
    if is_written {
        file.replace(&rewritten.text, import.undo, is_kept)?;
    }
    report((import, host), &file, &rewritten, is_new, is_written.then_some(is_kept));
    Ok(())
}

/// Whether the user wants it.
fn agreed(import: &args::Import, file: &File, rewritten: &RewrittenFile) -> Result<bool, ImportError> {
    if import.yes || import.json || import.dry_run {
        return Ok(import.yes);
    }
    if !io::stdin().is_terminal() {
        return Err(ImportError::NobodyToAsk);
    }
    output::note(&shown(rewritten));
    match agrees(&format!("Change {}?", file.path.display())) {
        true => Ok(true),
        false => Err(ImportError::Declined),
    }
}

/// What changes, as a diff.
fn shown(rewritten: &RewrittenFile) -> String {
    let changed = rewritten.changed.iter().map(|ChangedServer { name, before, after }| {
        let name = output::id(name);
        format!("- {name}: {}\n+ {name}: {}", command_line(before), command_line(after))
    });
    let left = rewritten
        .left
        .iter()
        .map(|left| format!("  {}: stays as it is, since {}", output::id(&left.name), left.why));
    changed.chain(left).collect::<Vec<_>>().join("\n")
}

/// If it was written, `is_kept` says whether the copy is that of an earlier import.
fn report(
    (import, host): (&args::Import, Host),
    file: &File,
    rewritten: &RewrittenFile,
    is_new: bool,
    is_kept: Option<bool>,
) {
    let is_written = is_kept.is_some();
    if import.json {
        let changed = rewritten.changed.iter();
        let changed = changed.map(|entry| json!({"name": entry.name, "before": entry.before, "after": entry.after}));
        let left = rewritten.left.iter();
        let left = left.map(|entry| json!({"name": entry.name, "why": entry.why}));
        output::json_line(&json!({
            "file": file.path.display().to_string(),
            "copy": file.copy().exists().then(|| file.copy().display().to_string()),
            "changed": changed.collect::<Vec<_>>(),
            "left": left.collect::<Vec<_>>(),
            "written": is_written,
        }));
        return;
    }
    if import.yes || !is_written {
        output::text(&shown(rewritten));
    }
    if !is_written {
        output::note(match is_new {
            true => "nothing was written (--dry-run)",
            false => "there is nothing to change",
        });
        return;
    }
    let (changed, copy) = (file.path.display(), file.copy());
    let copy = (copy.exists(), copy.display());
    output::note(&match (import.undo, copy) {
        (true, (false, _)) => format!("changed back: {changed}"),
        (true, (true, copy)) => format!(
            "changed back: {changed}. It was changed otherwise, too, since it was imported: {copy} is how it was before, and can be removed"
        ),
        (false, (_, copy)) if is_kept == Some(true) => {
            format!("changed: {changed}; as it was before the first import: {copy}")
        }
        (false, (_, copy)) => format!("changed: {changed}; as it was: {copy}"),
    });
    output::note(&format!("restart {} to use it", host.title()));
}

/// The text of a file, without the byte order mark that some editors write before it.
fn read_text(path: &Path) -> io::Result<(&'static str, String)> {
    let text = longhaul_private_dir::read_named_text(path)?;
    Ok(match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(bare) => (BYTE_ORDER_MARK, bare.to_owned()),
        None => ("", text),
    })
}

impl File {
    fn read(import: &args::Import, host: Host) -> Result<Self, ImportError> {
        let named = import.file.clone().or_else(|| host.file());
        let named = named.ok_or(ImportError::NoHome)?;
        let unreadable = |error| ImportError::Unreadable {
            file: named.display().to_string(),
            error,
        };
        // A link stays one.
        let path = fs::canonicalize(&named).map_err(unreadable)?;
        let (mark, text) = read_text(&path).map_err(unreadable)?;
        Ok(Self { path, mark, text })
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(suffix);
        self.path.with_file_name(name)
    }

    fn copy(&self) -> PathBuf {
        self.beside(COPY)
    }

    /// Replaces the file as a whole. Before an import it is copied, unless there is a copy that `is_kept`; after an undo the copy goes, unless it has
    /// something else.
    fn replace(&self, text: &str, is_undo: bool, is_kept: bool) -> Result<(), ImportError> {
        let (path, copy) = (&self.path, self.copy());
        let unwritable = |error| ImportError::Unwritable {
            file: path.display().to_string(),
            error,
        };
        let same = |path: &Path, text: &str| read_text(path).is_ok_and(|(_, found)| found == text);
        if !same(path, &self.text) {
            let file = path.display().to_string();
            return Err(ImportError::ChangedMeanwhile { file });
        }
        if !is_undo && !is_kept {
            self.write(&copy, &self.text).map_err(unwritable)?;
        }
        self.write(path, text).map_err(unwritable)?;
        if is_undo && same(&copy, text) {
            fs::remove_file(copy).map_err(unwritable)?;
        }
        Ok(())
    }

    /// Writes a file at once, with the owner and the permissions of this one: it may hold keys, and its host must be able to read it.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let metadata = fs::metadata(&self.path)?;
        let draft = self.beside(&format!(".{}", std::process::id()));
        let written = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&draft)?;
            file.write_all(self.mark.as_bytes())?;
            file.write_all(text.as_bytes())?;
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (metadata.uid(), metadata.gid()) {
                fchown(&file, Some(metadata.uid()), Some(metadata.gid())).map_err(|error| {
                    let owner = format!(
                        "its owner {}:{} cannot be kept: {error}",
                        metadata.uid(),
                        metadata.gid()
                    );
                    io::Error::new(error.kind(), owner)
                })?;
            }
            // After that, since a change of the owner takes some away.
            file.set_permissions(metadata.permissions())?;
            file.sync_all()?;
            fs::rename(&draft, path)
        };
        written().inspect_err(|_| drop(fs::remove_file(&draft)))
    }
}
