//! What a data directory of `longhaul wrap` is for, and its claim by the processes that use it.

use crate::args;
use longhaul_core::Millis;
use longhaul_private_dir::PrivateDir;
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

/// The definition, in the data directory. Every process that uses the directory for this definition has a shared lock on it.
const FILE: &str = "wrap.json";

/// Variables that differ from one terminal, login or editor to the next, and that no server is configured by. A name that ends with `_` stands for all that
/// begin so.
const OF_THE_TERMINAL: &[&str] = &[
    "_",
    "ALACRITTY_",
    "COLORTERM",
    "COLUMNS",
    "DBUS_",
    "DISPLAY",
    "GNOME_TERMINAL_",
    "GPG_TTY",
    "INVOCATION_",
    "ITERM_",
    "JOURNAL_",
    "KITTY_",
    "KONSOLE_",
    "LC_TERMINAL",
    "LC_TERMINAL_VERSION",
    "LINES",
    "LONGHAUL_",
    "OLDPWD",
    "PWD",
    "SHELL_SESSION_",
    "SHLVL",
    "SSH_",
    "STY",
    "TERM",
    "TERM_",
    "TERMINATOR_",
    "TILIX_ID",
    "TMUX",
    "TMUX_PANE",
    "VSCODE_",
    "VTE_VERSION",
    "WEZTERM_",
    "WINDOW",
    "WINDOWID",
    "WT_",
    "XDG_SESSION_",
    "ZELLIJ",
    "ZELLIJ_",
];

/// What makes a wrapped server another one: two that are equal share a data directory and a server, and no others do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Definition {
    command: Vec<String>,
    folder: String,
    /// It is a setting of the server, so clients that want another one need another server.
    pub(super) handoff: Option<Millis>,
    /// By name, a short digest of the value: enough to tell two values apart, too short to find one by.
    variables: BTreeMap<String, String>,
}

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error("cannot prepare the data directory: {0}")]
    Io(#[from] io::Error),
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
    /// That of a command line, in this process's environment.
    pub(super) fn new(wrap: &args::Wrap, folder: &Path) -> Self {
        let variables = env::vars_os().filter_map(|(name, value)| {
            let digest = digest(&[name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat(), 4);
            let name = name.to_string_lossy().into_owned();
            (!is_of_the_terminal(&name)).then_some((name, digest))
        });
        Self {
            command: wrap.command.clone(),
            folder: folder.to_string_lossy().into_owned(),
            handoff: wrap.handoff.filter(|handoff| *handoff > 0),
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

    /// In words, without the values of variables.
    fn differences(&self, other: &Self) -> String {
        let names: BTreeSet<&str> = self
            .variables
            .keys()
            .chain(other.variables.keys())
            .map(String::as_str)
            .collect();
        let names = names
            .into_iter()
            .filter(|name| self.variables.get(*name) != other.variables.get(*name));
        let names = names.collect::<Vec<_>>().join(", ");
        let differences = [
            (self.command != other.command).then(|| "another command".to_owned()),
            (self.folder != other.folder).then(|| format!("another folder ({})", other.folder)),
            (self.handoff != other.handoff).then(|| "another --handoff".to_owned()),
            (!names.is_empty()).then(|| format!("other values of these variables: {names}")),
        ];
        differences.into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }

    fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// Locks the file for this process alone, unless another has locked it.
fn is_locked_at_once(file: &File) -> io::Result<bool> {
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

fn is_of_the_terminal(variable: &str) -> bool {
    OF_THE_TERMINAL.iter().any(|known| match known.strip_suffix('_') {
        Some(prefix) if !prefix.is_empty() => variable.starts_with(known),
        _ => variable == *known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(command: &str, variables: &[(&str, &str)]) -> Definition {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Definition {
            command: vec![command.to_owned()],
            folder: "/a".to_owned(),
            handoff: None,
            variables: variables.collect(),
        }
    }

    #[test]
    fn variables_that_configure_a_server_count_and_those_of_a_terminal_do_not() {
        for name in [
            "_",
            "PWD",
            "SHLVL",
            "SSH_CONNECTION",
            "TERM",
            "TERM_PROGRAM",
            "TMUX_PANE",
            "VSCODE_PID",
            "WINDOW",
        ] {
            assert!(is_of_the_terminal(name), "{name}");
        }
        for name in ["API_KEY", "PATH", "HOME", "TERMINAL_TOKEN", "PWD_HASH", "_TOKEN"] {
            assert!(!is_of_the_terminal(name), "{name}");
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
