//! The `[server.audit]` section: where the audit log goes.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
};
use std::path::{Path, PathBuf};

const DEFAULT_MAX_SIZE: u64 = 64 << 20;
const DEFAULT_KEEP: u32 = 8;
/// A larger number is reported as a typing mistake.
const MOST_KEPT: u32 = 10_000;

/// Where the audit log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditConfig {
    /// Its file, as an absolute path.
    pub(crate) file: Option<PathBuf>,
    /// To standard error.
    pub(crate) stderr: bool,
    /// How long the file may become, in bytes.
    pub(crate) max_size: u64,
    /// How many full files are kept.
    pub(crate) keep: u32,
    /// Whether reads are recorded.
    pub(crate) reads: bool,
}

/// Reads the section; `None` after a problem.
pub(crate) fn read(section: &Section<'_>, environment: &Environment, data_dir: Option<&Path>) -> Option<AuditConfig> {
    let file = section.optional("file", |entry| {
        let path = environment.resolve(entry.text()?, section.file().folder());
        let path = path.map_err(|error| entry.report(format!("`file`: {error}"))).ok()?;
        // The data directory is made before the log is opened.
        let missing = path
            .parent()
            .filter(|folder| !folder.is_dir() && data_dir != Some(folder));
        if let Some(folder) = missing {
            entry.report(format!("`file`: there is no folder {}", folder.display()));
        }
        if is_same(&path, section.file().path()) {
            entry.report("`file`: this is the configuration file".to_owned());
        }
        if data_dir.is_some_and(|data_dir| is_of_longhaul(&path, data_dir)) {
            entry.report(format!(
                "`file`: {} is in the data directory, where names that do not end in `.jsonl` are Longhaul's own: give it a name such as `audit.jsonl`",
                path.display()
            ));
        }
        Some(path)
    });
    let stderr = section.get_or("stderr", false, Entry::flag);
    let max_size = section.get_or("max_size", DEFAULT_MAX_SIZE, Entry::size);
    let keep = section.get_or("keep", DEFAULT_KEEP, |entry| entry.count(MOST_KEPT));
    let reads = section.get_or("reads", true, Entry::flag);
    section.finish();
    let audit = AuditConfig {
        file: file?,
        stderr: stderr?,
        max_size: max_size?,
        keep: keep?,
        reads: reads?,
    };
    if audit.file.is_none() && !audit.stderr {
        section.report(
            "[server.audit] names no place for the log: set file = \"audit.jsonl\", or stderr = true".to_owned(),
        );
        return None;
    }
    Some(audit)
}

/// The path without links, of which the last parts may not be there.
fn real(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(path)),
        None => path.to_owned(),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    real(one) == real(other)
}

/// Whether Longhaul may have a file of this name in its data directory. Files that were full have a number behind their name.
fn is_of_longhaul(path: &Path, data_dir: &Path) -> bool {
    let (path, data_dir) = (real(path), real(data_dir));
    let is_log = path.extension().is_some_and(|ending| ending == "jsonl");
    path.starts_with(&data_dir) && !(is_log && path.parent() == Some(&*data_dir))
}
