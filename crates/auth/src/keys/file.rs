//! `keys.json`: read, and replaced under a lock that processes share.

use super::{
    record::{Date, Document, KeyName, Record, Secret},
    secret::{ApiKey, KeyDigest},
};
use longhaul_core::{Entropy, UnixMillis, whole_millis};
use longhaul_private_dir::{PrivateDir, check_secret_file, make_file_private, read_file};
use longhaul_server::auth::ToolPattern;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The file in the data directory.
pub(crate) const FILE: &str = "keys.json";
/// Its lock is held by the process that changes [`FILE`], which is itself replaced.
const LOCK_FILE: &str = "keys.lock";

/// Why the keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system refuses.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not what this release writes.
    #[error("{path}{}: {reason}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where, if it is one place.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// A new key has the name of another one.
    #[error("there is a key {0} already: choose another name, or replace its secret with `rotate`")]
    Exists(KeyName),
    /// A new key has the name of a revoked one, whose tasks it would own.
    #[error(
        "the key {0} was revoked, and its name is not used again, since its tasks would belong to the new key: choose another name"
    )]
    NameWasRevoked(KeyName),
    /// No key has this name.
    #[error("there is no key {0}: `list` shows all of them")]
    Unknown(KeyName),
    /// A revoked key stays revoked.
    #[error("the key {0} was revoked: add another one")]
    Revoked(KeyName),
    /// The key has ended and no new end was given.
    #[error("the key {0} has expired: give it a new end, or revoke it and add another one")]
    Expired(KeyName),
    /// The end of a key has passed already.
    #[error("the end of the key {0} is in the past: give a later one")]
    EndsInThePast(KeyName),
    /// A key that may call nothing.
    #[error("the key {0} could call no tool: give a pattern, or none for all tools")]
    NoTools(KeyName),
}

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its name, not used before.
    pub name: KeyName,
    /// Which tools it may call.
    pub tools: Vec<ToolPattern>,
    /// Whether it may use resources that are not those of tasks, and prompts. One for every tool may in any case.
    pub resources: bool,
    /// When it ends by itself.
    pub expires: Option<UnixMillis>,
}

impl NewKey {
    /// A key for everything, without an end.
    pub fn named(name: KeyName) -> Self {
        Self {
            name,
            tools: "*".parse().into_iter().collect(),
            resources: false,
            expires: None,
        }
    }
}

/// How a key gets a new secret.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rotation {
    /// For how long the old secret is still accepted. Zero ends at once what it has opened.
    pub overlap: Duration,
    /// A new end; without one the key keeps its own.
    pub expires: Option<UnixMillis>,
}

/// What people may know about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySummary {
    /// Its name.
    pub name: KeyName,
    /// Which tools it may call.
    pub tools: Vec<ToolPattern>,
    /// Whether it may use resources that are not those of tasks, and prompts.
    pub resources: bool,
    /// When it was added.
    pub created: UnixMillis,
    /// When its present secret was made; the same as `created` until it is rotated.
    pub rotated: Option<UnixMillis>,
    /// When it ends by itself.
    pub expires: Option<UnixMillis>,
    /// Until when an earlier secret is accepted too.
    pub overlap_until: Option<UnixMillis>,
    /// When it was revoked.
    pub revoked: Option<UnixMillis>,
}

impl KeySummary {
    /// Whether the key is accepted at this time.
    pub fn is_active(&self, at: UnixMillis) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| at < expires)
    }
}

/// The keys of a data directory. A server may run on it or not: changes are taken over by a running one within a second.
///
/// ```
/// use longhaul_auth::keys::{KeyFile, KeyName, NewKey};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let _entered = runtime.enter();
/// # let dir = tempfile::tempdir()?;
/// let ports = longhaul_runtime::Ports::system();
/// let keys = KeyFile::open(dir.path())?;
/// let key = keys.add(&NewKey::named(KeyName::new("ci")?), &*ports.entropy, ports.clock.wall())?;
/// assert!(key.expose().starts_with("lhk_"));
/// assert_eq!(keys.list()?[0].name.as_str(), "ci");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KeyFile {
    dir: PrivateDir,
    earlier_mode: Option<u32>,
}

impl KeyFile {
    /// Opens the keys of a data directory, which is created if need be. A missing file is one without keys. The permission of other users to read the file is removed.
    ///
    /// # Errors
    /// [`KeyFileError::Invalid`] with the line and the reason, and [`KeyFileError::Io`], also if other users may write to the file.
    pub fn open(data_dir: &Path) -> Result<Self, KeyFileError> {
        let dir = PrivateDir::create(data_dir).map_err(io_error("open", data_dir))?;
        let path = dir.path().join(FILE);
        let earlier_mode = make_file_private(&path).map_err(io_error("use", &path))?;
        let file = Self { dir, earlier_mode };
        file.read()?;
        Ok(file)
    }

    /// The mode of the file until [`open`](Self::open) has changed it to 600, if other users were permitted to read it. They can have read it only if they could enter its
    /// directory, too.
    pub fn earlier_mode(&self) -> Option<u32> {
        self.earlier_mode
    }

    /// Whether a data directory has keys, or had some. Creates nothing.
    pub fn is_in(data_dir: &Path) -> bool {
        data_dir.join(FILE).exists()
    }

    /// Whether a server can read the keys of a data directory. Changes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(data_dir: &Path) -> Result<(), KeyFileError> {
        let path = data_dir.join(FILE);
        check_secret_file(&path).map_err(io_error("use", &path))?;
        read(&path).map(|_| ())
    }

    /// Where the keys are.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(FILE)
    }

    /// All keys in the order in which they were added, also the revoked ones.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&self) -> Result<Vec<KeySummary>, KeyFileError> {
        Ok(self.read()?.keys.into_iter().map(KeySummary::from).collect())
    }

    /// Adds a key, and returns the only copy of its secret.
    ///
    /// # Errors
    /// If the name is taken or was revoked, if the end has passed, and as [`open`](Self::open).
    pub fn add(&self, new: &NewKey, entropy: &dyn Entropy, now: UnixMillis) -> Result<ApiKey, KeyFileError> {
        self.change(|document| {
            match document.find(&new.name) {
                Some(Record { revoked: Some(_), .. }) => return Err(KeyFileError::NameWasRevoked(new.name.clone())),
                Some(_) => return Err(KeyFileError::Exists(new.name.clone())),
                None => check_end(&new.name, new.expires, now)?,
            }
            if new.tools.is_empty() {
                return Err(KeyFileError::NoTools(new.name.clone()));
            }
            let key = ApiKey::generate(entropy);
            document.keys.push(Record {
                name: new.name.clone(),
                tools: new.tools.clone(),
                resources: new.resources && !new.tools.iter().any(ToolPattern::is_any),
                created: Date(now),
                expires: new.expires.map(Date),
                revoked: None,
                secrets: vec![secret(&key, now)],
            });
            Ok(key)
        })
    }

    /// Gives a key a new secret. Its name, and so its tasks, stay.
    ///
    /// # Errors
    /// If there is no such key, if it was revoked or has expired, and as [`open`](Self::open).
    pub fn rotate(
        &self,
        name: &KeyName,
        rotation: &Rotation,
        entropy: &dyn Entropy,
        now: UnixMillis,
    ) -> Result<ApiKey, KeyFileError> {
        self.change(|document| {
            let record = find_active(document, name)?;
            check_end(name, rotation.expires, now)?;
            record.expires = rotation.expires.map(Date).or(record.expires);
            if record.expires.is_some_and(|expires| expires.0 <= now) {
                return Err(KeyFileError::Expired(name.clone()));
            }
            let until = Date(now.plus(whole_millis(rotation.overlap)));
            for old in &mut record.secrets {
                old.until = Some(old.until.map_or(until, |earlier| earlier.min(until)));
            }
            record
                .secrets
                .retain(|old| old.until.is_some_and(|until| until.0 > now));
            let key = ApiKey::generate(entropy);
            record.secrets.push(secret(&key, now));
            Ok(key)
        })
    }

    /// Ends a key for ever. Its name is not used again.
    ///
    /// # Errors
    /// If there is no such key or it was revoked before, and as [`open`](Self::open).
    pub fn revoke(&self, name: &KeyName, now: UnixMillis) -> Result<(), KeyFileError> {
        self.change(|document| {
            let record = find_active(document, name)?;
            record.revoked = Some(Date(now));
            Ok(())
        })
    }

    pub(crate) fn read(&self) -> Result<Document, KeyFileError> {
        let path = self.path();
        make_file_private(&path).map_err(io_error("use", &path))?;
        read(&path)
    }

    /// Replaces the file by what `change` makes of it. A crash leaves the old one or the new one.
    fn change<T>(&self, change: impl FnOnce(&mut Document) -> Result<T, KeyFileError>) -> Result<T, KeyFileError> {
        let lock_path = self.dir.path().join(LOCK_FILE);
        let _lock = self.dir.lock(LOCK_FILE).map_err(io_error("lock", &lock_path))?;
        let mut document = self.read()?;
        let value = change(&mut document)?;
        let written = serde_json::to_string_pretty(&document).map_err(io::Error::from);
        let replaced = written.and_then(|text| self.dir.replace(FILE, format!("{text}\n").as_bytes()));
        replaced.map_err(io_error("write", &self.path()))?;
        Ok(value)
    }
}

impl From<Record> for KeySummary {
    fn from(record: Record) -> Self {
        let rotated = record.secrets.last().map(|secret| secret.created);
        Self {
            resources: record.may_use_resources(),
            name: record.name,
            tools: record.tools,
            created: record.created.0,
            rotated: rotated.filter(|rotated| *rotated != record.created).map(|date| date.0),
            expires: record.expires.map(|date| date.0),
            overlap_until: record
                .secrets
                .iter()
                .filter_map(|secret| secret.until)
                .max()
                .map(|date| date.0),
            revoked: record.revoked.map(|date| date.0),
        }
    }
}

fn read(path: &Path) -> Result<Document, KeyFileError> {
    match read_file(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Document::empty()),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

fn parse(path: &Path, text: &[u8]) -> Result<Document, KeyFileError> {
    let invalid = |line, reason| KeyFileError::Invalid {
        path: path.to_owned(),
        line,
        reason,
    };
    let document: Document = serde_json::from_slice(text).map_err(|error| {
        let reason = error.to_string();
        // It ends with the place, which is told already.
        let reason = reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason);
        invalid(Some(error.line()), reason.to_owned())
    })?;
    document.check().map_err(|reason| invalid(None, reason))?;
    Ok(document)
}

fn secret(key: &ApiKey, now: UnixMillis) -> Secret {
    Secret {
        sha256: KeyDigest::of_key(key),
        created: Date(now),
        until: None,
    }
}

fn find_active<'a>(document: &'a mut Document, name: &KeyName) -> Result<&'a mut Record, KeyFileError> {
    match document.find_mut(name) {
        None => Err(KeyFileError::Unknown(name.clone())),
        Some(record) if record.revoked.is_some() => Err(KeyFileError::Revoked(name.clone())),
        Some(record) => Ok(record),
    }
}

fn check_end(name: &KeyName, expires: Option<UnixMillis>, now: UnixMillis) -> Result<(), KeyFileError> {
    match expires {
        Some(expires) if expires <= now => Err(KeyFileError::EndsInThePast(name.clone())),
        _ => Ok(()),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    move |source| KeyFileError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
