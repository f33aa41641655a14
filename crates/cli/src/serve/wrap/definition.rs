//! What a data directory of `longhaul wrap` is for, and its claim by the processes that use it.

use crate::{
    args::{self, Header},
    config::variables::expand,
};
use longhaul_private_dir::PrivateDir;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

const NOW: Timestamps = {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
};

/// The definition, in the data directory. Every process that uses the directory for this definition has a shared lock on it.
pub(super) const FILE: &str = "wrap.json";

/// What makes a wrapped server another one: two that are equal share a data directory and a server, and no others do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Definition {
    command: Vec<String>,
    folder: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    /// By name, a short digest of the value: enough to tell two values apart, too short to find one by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    /// The variables that `--env` names, with such a digest; `None` for one that is not set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    variables: BTreeMap<String, Option<String>>,
}

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error("the folder that this was started in is not there any more: start it in another one")]
    NoFolder,
    #[error("the path of this folder is not UTF-8, and a configuration cannot name it: start it in another one")]
    FolderNotUtf8,
    #[error("cannot prepare the data directory: {0}")]
    Io(#[from] io::Error),
    #[error("cannot prepare the data directory {path}: {source}")]
    DataDir { path: String, source: io::Error },
    #[error(
        "the data directory {path} is in use for another server, with {differences}. Use another --data-dir; or end what uses it: its server exits by itself \
         some time after its last client has left and its last task has ended"
    )]
    OtherDefinition { path: String, differences: String },
    #[error(
        "the data directory {path} is in use by a server that `longhaul wrap` has not started. Use another --data-dir, or stop that server"
    )]
    OtherServer { path: String },
}

/// The right to use a data directory for a definition: no other definition can claim it until each process that has the file open is gone.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) lock: File,
    /// How an earlier definition differs from this one, which has taken its place.
    pub(super) replaced: Option<String>,
}

impl Definition {
    /// That of a command line. Of this process's environment only the variables count that the command line names: hosts, terminals and shells set many others
    /// anew for each session.
    pub(super) fn new(wrap: &args::Wrap, folder: &Path) -> Self {
        let variables = wrap.env.iter().map(|name| {
            let value = env::var_os(name).map(|value| digest(value.as_encoded_bytes(), 4));
            (name.clone(), value)
        });
        let headers = wrap.header.iter().map(|Header { name, value }| {
            let value = expand(value, |name| env::var(name).ok()).unwrap_or_else(|_| value.clone());
            (name.to_ascii_lowercase(), digest(value.as_bytes(), 4))
        });
        Self {
            command: wrap.command.clone(),
            folder: folder.to_string_lossy().into_owned(),
            name: wrap.name.clone(),
            era: wrap.era.map(|era| era.word().to_owned()),
            shared: wrap.shared,
            headers: headers.collect(),
            variables: variables.collect(),
        }
    }

    /// Names the data directory when none is given.
    pub(super) fn digest(&self) -> String {
        digest(self.to_json().as_bytes(), 8)
    }

    /// Claims `dir` for this definition. It takes the place of an earlier one only if no process uses the directory for that any longer.
    ///
    /// # Errors
    /// The directory is in use for another definition, or by another server; and the system's.
    pub(super) fn claim(&self, dir: &PrivateDir) -> Result<Claim, ClaimError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let mut lock = dir.file(FILE, &options)?;
        let path = || dir.path().display().to_string();
        let mut replaced = None;
        if is_locked_at_once(&lock)? {
            let earlier = read(&mut lock)?;
            if earlier.as_ref() != Some(self) {
                // A server that was started in another way has no lock on the file, but on the directory.
                if !is_locked_at_once(dir.as_file())? {
                    return Err(ClaimError::OtherServer { path: path() });
                }
                dir.as_file().unlock()?;
                lock.set_len(0)?;
                lock.rewind()?;
                lock.write_all(self.to_json().as_bytes())?;
                replaced = earlier.map(|earlier| self.differences(&earlier));
            }
        }
        lock.lock_shared()?;
        // Directories that are not used are looked for by the time of this file.
        rustix::fs::futimens(&lock, &NOW).map_err(io::Error::from)?;
        // Read again, since another process may have had the lock in between.
        match read(&mut lock)? {
            Some(present) if present == *self => Ok(Claim { lock, replaced }),
            present => Err(ClaimError::OtherDefinition {
                path: path(),
                differences: present.map_or_else(
                    || "an unreadable definition".to_owned(),
                    |present| self.differences(&present),
                ),
            }),
        }
    }

    /// In words, without the values of variables and headers.
    fn differences(&self, other: &Self) -> String {
        let differences = [
            (self.command != other.command).then(|| "another command".to_owned()),
            (self.folder != other.folder).then(|| format!("another folder ({})", other.folder)),
            (self.name != other.name).then(|| "another --name".to_owned()),
            (self.era != other.era).then(|| "another --era".to_owned()),
            (self.shared != other.shared).then(|| "another --shared".to_owned()),
            differing("headers", &self.headers, &other.headers),
            differing("variables", &self.variables, &other.variables),
        ];
        differences.into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }

    fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// Locks the file for this process alone, unless another has locked it.
pub(super) fn is_locked_at_once(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The definition in the file; `None` if it is empty, or was not written to its end.
fn read(file: &mut File) -> io::Result<Option<Definition>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).ok())
}

fn digest(bytes: &[u8], length: usize) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(length).map(|byte| format!("{byte:02x}")).collect()
}

/// Which values differ, by their names.
fn differing<T: PartialEq>(what: &str, one: &BTreeMap<String, T>, other: &BTreeMap<String, T>) -> Option<String> {
    let names: BTreeSet<&str> = one.keys().chain(other.keys()).map(String::as_str).collect();
    let names: Vec<&str> = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .collect();
    (!names.is_empty()).then(|| format!("other values of these {what}: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(command: &str, variables: &[(&str, &str)]) -> Definition {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        Definition {
            command: vec![command.to_owned()],
            folder: "/a".to_owned(),
            name: None,
            era: None,
            shared: false,
            headers: BTreeMap::new(),
            variables: variables.collect(),
        }
    }

    #[test]
    fn a_directory_is_claimed_by_many_for_one_definition_and_for_another_when_all_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(folder.path()).unwrap();
        let one = definition("one", &[("SAME", "0"), ("TOKEN", "1"), ("UNSET", "1")]);
        let other = definition("other", &[("SAME", "0"), ("TOKEN", "2"), ("SET", "1")]);
        let claims = [one.claim(&dir).unwrap(), one.claim(&dir).unwrap()];
        assert!(claims.iter().all(|claim| claim.replaced.is_none()));
        let [first, second] = claims;
        drop(first);
        let refused = other.claim(&dir).unwrap_err().to_string();
        let differences = "another command, and other values of these variables: SET, TOKEN, UNSET";
        assert!(
            refused.contains(&format!("with {differences}. Use another")),
            "{refused}"
        );
        drop(second);
        let replacing = other.claim(&dir).unwrap();
        assert_eq!(replacing.replaced.as_deref(), Some(differences));
        assert!(one.claim(&dir).is_err());
    }

    #[test]
    fn a_directory_of_a_server_that_was_started_in_another_way_is_not_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let server = PrivateDir::open(folder.path()).unwrap();
        server.as_file().lock().unwrap();
        let dir = PrivateDir::open(folder.path()).unwrap();
        let refused = definition("one", &[]).claim(&dir).unwrap_err().to_string();
        assert!(refused.contains("that `longhaul wrap` has not started"), "{refused}");
        server.as_file().unlock().unwrap();
        assert!(definition("one", &[]).claim(&dir).is_ok());
    }

    /// The process that wrote it was killed meanwhile.
    #[test]
    fn half_a_definition_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(folder.path()).unwrap();
        std::fs::write(folder.path().join(FILE), "{\"command\":[").unwrap();
        assert!(definition("one", &[]).claim(&dir).unwrap().replaced.is_none());
    }
}
