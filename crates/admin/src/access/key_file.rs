//! The keys of operators and of Prometheus: one line in a file of the data directory.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_core::Entropy;
use longhaul_private_dir::{PrivateDir, check_secret_file, make_file_private, read_file};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};
use subtle::ConstantTimeEq as _;

/// A shorter key could be guessed.
const SHORTEST: usize = 32;
const RANDOM_BYTES: usize = 32;

/// A file with one key. It is read with each request that shows a key, so a file with another key takes effect at once.
#[derive(Debug, Clone)]
pub struct AdminKeyFile {
    path: PathBuf,
}

/// A key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AdminKeyFileError {
    /// It cannot be read or made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its key could be guessed.
    #[error("{path}: the key has {length} characters; it needs at least {SHORTEST}")]
    Short {
        /// The file.
        path: PathBuf,
        /// How long the key is.
        length: usize,
    },
}

impl AdminKeyFile {
    /// The file `name` in the data directory, with a new random key if there is none. `prefix` tells keys of different use apart. The permission of other users to read the file is removed.
    ///
    /// # Errors
    /// [`AdminKeyFileError`].
    pub fn in_data_dir(
        directory: &Path,
        name: &str,
        prefix: &str,
        entropy: &dyn Entropy,
    ) -> Result<Self, AdminKeyFileError> {
        let this = Self {
            path: directory.join(name),
        };
        make_file_private(&this.path).map_err(|source| this.failed(source))?;
        match this.read() {
            Err(AdminKeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                this.create(directory, name, prefix, entropy)
                    .map_err(|source| this.failed(source))?;
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok(this)
    }

    /// Whether a server can use the file `name` of a data directory, or make it. Changes nothing.
    ///
    /// # Errors
    /// [`AdminKeyFileError`].
    pub fn check(directory: &Path, name: &str) -> Result<(), AdminKeyFileError> {
        let this = Self {
            path: directory.join(name),
        };
        match check_secret_file(&this.path).map_err(|source| this.failed(source))? {
            Some(_) => this.read().map(drop),
            None => Ok(()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key.
    ///
    /// # Errors
    /// [`AdminKeyFileError`].
    pub fn read(&self) -> Result<String, AdminKeyFileError> {
        let bytes = read_file(&self.path).map_err(|source| self.failed(source))?;
        let text = String::from_utf8_lossy(&bytes);
        let key = text.trim();
        match key.len() {
            length if length < SHORTEST => Err(AdminKeyFileError::Short {
                path: self.path.clone(),
                length,
            }),
            _ => Ok(key.to_owned()),
        }
    }

    /// Whether `shown` is the key. Nobody is admitted by a file that cannot be read.
    pub(crate) fn admits(&self, shown: &str) -> bool {
        match self.read() {
            Ok(key) => bool::from(Sha256::digest(key).ct_eq(&Sha256::digest(shown))),
            Err(error) => {
                tracing::warn!(%error, "the file of a key cannot be read, so nobody is admitted by it");
                false
            }
        }
    }

    /// The digest of the key, if the file can be read.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        Some(Sha256::digest(self.read().ok()?).into())
    }

    /// The key is in a file of another name until it is whole.
    fn create(&self, directory: &Path, name: &str, prefix: &str, entropy: &dyn Entropy) -> io::Result<()> {
        let mut random = [0; RANDOM_BYTES];
        entropy.fill(&mut random);
        let directory = PrivateDir::open(directory)?;
        let partial = format!("{name}.new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let mut file = directory.file(&partial, &options)?;
        file.set_len(0)?;
        writeln!(file, "{prefix}{}", URL_SAFE_NO_PAD.encode(random))?;
        file.sync_all()?;
        fs::rename(directory.path().join(&partial), &self.path)?;
        directory.sync()
    }

    fn failed(&self, source: io::Error) -> AdminKeyFileError {
        AdminKeyFileError::Io {
            path: self.path.clone(),
            source,
        }
    }
}
