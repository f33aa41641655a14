//! The tokens of a user, kept in one file.

use super::registered_client::{OwnLogin, RegisteredClient};
use crate::{JournalError, state_folder};
use longhaul_private_dir::{PrivateDir, make_file_private, read_file};
use rmcp::transport::auth::StoredCredentials;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TokenFileError {
    path: PathBuf,
    reason: String,
}

/// The tokens of one user: a file that only this user may read, for any number of processes.
///
/// It holds what a login has given: access and refresh tokens, by server, and the clients that were registered for them. The tokens are not
/// encrypted; who can read the files of this user can use them. A change is on disk when its function returns.
#[derive(Debug, Clone)]
pub struct TokenFile {
    directory: Arc<PrivateDir>,
    path: PathBuf,
    earlier_mode: Option<u32>,
}

/// What is kept of one server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<StoredCredentials>,
    /// A key that was given by hand. It is used instead of a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// The login is of the client itself and not of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) own_login: Option<OwnLogin>,
    /// The authorization server that was chosen for the login, of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chosen_issuer: Option<String>,
    /// The permissions that the login asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asked: Vec<String>,
    /// Permissions that the server wanted when nobody could be asked for them. The next login asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
    /// A random name of the login, for calls to be recorded with if its tokens do not say whom they are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) login_id: Option<String>,
    /// By issuer: another authorization server knows nothing of a client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) clients: BTreeMap<String, RegisteredClient>,
}

impl StoredLogin {
    fn is_empty(&self) -> bool {
        let Self {
            credentials,
            key,
            own_login,
            chosen_issuer,
            asked,
            wanted,
            login_id,
            clients,
        } = self;
        let has_login = credentials.is_some() || key.is_some() || own_login.is_some();
        let has_scopes = !asked.is_empty() || !wanted.is_empty();
        !has_login && chosen_issuer.is_none() && !has_scopes && login_id.is_none() && clients.is_empty()
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    #[serde(default)]
    servers: BTreeMap<String, StoredLogin>,
}

const VERSION: u32 = 1;

/// Held while a token is refreshed: many servers accept a refresh token once.
pub(super) struct RefreshLock {
    _file: File,
}

/// Tells the contents of the file from earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    /// In seconds and nanoseconds.
    modified: (i64, i64),
    length: u64,
}

impl TokenFile {
    /// The file beside the journal of calls: `$XDG_STATE_HOME/longhaul/.client/tokens.json`, else under `~/.local/state`.
    ///
    /// # Errors
    /// [`TokenFileError`] if the directory cannot be made private, or neither variable names one.
    pub fn open_default() -> Result<Self, TokenFileError> {
        let folder = state_folder().ok_or_else(|| TokenFileError {
            path: PathBuf::from("tokens.json"),
            reason: JournalError::NoStateDirectory.to_string(),
        })?;
        Self::open(&folder.join("tokens.json"))
    }

    /// The file at `path`, which need not be there yet. All permissions of other users are removed from its directory, and those to read from the file.
    ///
    /// # Errors
    /// [`TokenFileError`] if the directory or a file in it cannot be made private.
    pub fn open(path: &Path) -> Result<Self, TokenFileError> {
        let refuse = |reason: &dyn std::fmt::Display| TokenFileError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let (Some(parent), Some(_)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
            return Err(refuse(&"it is no path of a file"));
        };
        let directory = PrivateDir::create(parent).map_err(|error| refuse(&error))?;
        Ok(Self {
            directory: Arc::new(directory),
            path: path.to_owned(),
            // One that cannot be opened is explained when it is read.
            earlier_mode: make_file_private(path).ok().flatten(),
        })
    }

    /// The mode of the file until [`open`](Self::open) has changed it to 600, if other users were permitted to read it. They can have read it only if they could enter its
    /// directory, too.
    pub fn earlier_mode(&self) -> Option<u32> {
        self.earlier_mode
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another value after each change, whichever process has made it: the file is replaced then. `None` while there is none.
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        let metadata = fs::metadata(&self.path).ok()?;
        Some(FileStamp {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            length: metadata.len(),
        })
    }

    pub(super) fn get(&self, server: &str) -> Result<StoredLogin, TokenFileError> {
        let content = self.read().map_err(|reason| self.error(&reason))?;
        Ok(content.servers.get(server).cloned().unwrap_or_default())
    }

    /// Changes what is kept of a server, and returns what `change` does.
    pub(super) fn update<T>(
        &self,
        server: &str,
        change: impl FnOnce(&mut StoredLogin) -> T,
    ) -> Result<T, TokenFileError> {
        let update = || -> io::Result<T> {
            let _lock = self.lock("lock", FlockOperation::LockExclusive)?;
            let mut content = self.read()?;
            let kept = content.servers.entry(server.to_owned()).or_default();
            let result = change(kept);
            if kept.is_empty() {
                content.servers.remove(server);
            }
            content.version = VERSION;
            self.write(&content)?;
            Ok(result)
        };
        update().map_err(|reason| self.error(&reason))
    }

    /// The lock for refreshing the token of `server`, unless another process has it.
    pub(super) fn try_lock_refresh(&self, server: &str) -> Result<Option<RefreshLock>, TokenFileError> {
        let digest: String = Sha256::digest(server)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match self.lock(&digest, FlockOperation::NonBlockingLockExclusive) {
            Ok(file) => Ok(Some(RefreshLock { _file: file })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    fn read(&self) -> io::Result<Content> {
        make_file_private(&self.path)?;
        let text = match read_file(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            Err(error) => return Err(error),
        };
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let content: Content = serde_json::from_slice(&text).map_err(|error| {
            invalid(format!(
                "it is damaged ({error}); move it away, and log in again at your servers"
            ))
        })?;
        if content.version > VERSION {
            return Err(invalid(format!(
                "a newer version of this program has written it (format {}); use that one, or move the file away and log in again",
                content.version
            )));
        }
        Ok(content)
    }

    /// Replaces the file: a crash leaves the old one or the new one.
    fn write(&self, content: &Content) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(content)?;
        let new = self.sibling("new");
        let mut file = self.own_file(&new)?;
        file.set_len(0)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(self.directory.path().join(&new), &self.path)?;
        self.directory.sync()
    }

    fn lock(&self, extension: &str, operation: FlockOperation) -> io::Result<File> {
        let file = self.own_file(&self.sibling(extension))?;
        rustix::fs::flock(&file, operation)?;
        Ok(file)
    }

    fn own_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        self.directory.file(name, options.write(true).create(true).mode(0o600))
    }

    fn sibling(&self, extension: &str) -> String {
        let name = self.path.file_name().and_then(|name| name.to_str());
        format!("{}.{extension}", name.unwrap_or_default())
    }

    fn error(&self, reason: &io::Error) -> TokenFileError {
        TokenFileError {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    fn registered(id: &str) -> RegisteredClient {
        RegisteredClient {
            client_id: id.to_owned(),
            client_secret: None,
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            registered_for: None,
        }
    }

    #[test]
    fn servers_are_kept_apart_and_only_the_user_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/tokens.json");
        let file = TokenFile::open(&path).unwrap();
        assert!(file.get("http://a/").unwrap().clients.is_empty());
        for server in ["http://a/", "http://b/"] {
            file.update(server, |kept| {
                kept.clients.insert("issuer".to_owned(), registered(server))
            })
            .unwrap();
        }
        file.update("http://b/", |kept| kept.clients.clear()).unwrap();
        let other = TokenFile::open(&path).unwrap();
        assert_eq!(
            other.get("http://a/").unwrap().clients["issuer"],
            registered("http://a/")
        );
        assert!(other.get("http://b/").unwrap().clients.is_empty());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_damaged_file_is_kept_and_explained() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
        file.update("http://a/", |kept| kept.clients.insert("i".to_owned(), registered("c")))
            .unwrap();
        for damaged in ["{", r#"{"version":2,"servers":{}}"#] {
            fs::write(file.path(), damaged).unwrap();
            file.update("http://a/", |kept| kept.clients.clear()).unwrap_err();
            let error = file.get("http://a/").unwrap_err().to_string();
            assert!(error.contains("tokens.json: "), "{error}");
            assert_eq!(fs::read_to_string(file.path()).unwrap(), damaged);
        }
    }

    #[test]
    fn s_36_a_file_that_others_could_read_is_made_private_and_one_that_they_could_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let opened = |mode: u32| {
            fs::write(&path, "{\"version\":1}").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            TokenFile::open(&path).unwrap()
        };
        for (mode, told) in [(0o644, Some(0o644)), (0o640, Some(0o640)), (0o600, None), (0o400, None)] {
            let file = opened(mode);
            assert_eq!(file.earlier_mode(), told, "{mode:o}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
            assert!(file.get("http://a/").unwrap().clients.is_empty());
        }
        for mode in [0o666, 0o660] {
            let error = opened(mode).get("http://a/").unwrap_err().to_string();
            assert!(
                error.contains("tokens.json: ") && error.contains("chmod 600"),
                "{error}"
            );
        }
    }

    #[test]
    fn one_process_at_a_time_refreshes_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
        let held = file.try_lock_refresh("http://a/").unwrap();
        assert!(held.is_some());
        assert!(file.try_lock_refresh("http://a/").unwrap().is_none());
        assert!(file.try_lock_refresh("http://b/").unwrap().is_some());
        drop(held);
        assert!(file.try_lock_refresh("http://a/").unwrap().is_some());
    }
}
