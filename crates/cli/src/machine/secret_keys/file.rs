//! `secrets.key`: read, and replaced under a lock that processes share.

use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_core::{Entropy, UnixMillis};
use longhaul_private_dir::{PrivateDir, make_file_private, read_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// The file in the data directory.
pub(crate) const FILE: &str = "secrets.key";
/// Its lock is held by the process that changes [`FILE`], which is itself replaced.
const LOCK_FILE: &str = "secrets.lock";
const VERSION: u32 = 1;
/// The first key of a directory has the number 1, so that the key of another server on the same database goes before it. Later ones have the time, in seconds,
/// and at least so much between them: a store replaces what it knows only by what is that much later.
const FIRST: u32 = 1;
const APART: u32 = 31;

/// The file cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretKeyError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{}, the keys of secret arguments: {reason}; put back the file as it was", path.display())]
    Invalid { path: PathBuf, reason: String },
}

/// A key that secret arguments are encrypted with.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretKey {
    /// What encrypted values name it by: the beginning of its fingerprint.
    id: String,
    /// Later ones have greater numbers.
    pub(super) number: u32,
    #[serde(with = "base64_bytes")]
    key: [u8; 32],
}

/// Shows nothing of the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

mod base64_bytes {
    use super::{Deserialize, Engine as _, STANDARD};
    use serde::{Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text is not shown.
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| D::Error::custom("a key is not 32 bytes in base64"))
    }
}

impl SecretKey {
    fn generate(entropy: &dyn Entropy, number: u32) -> Self {
        let mut key = [0; 32];
        entropy.fill(&mut key);
        let mut made = Self {
            id: String::new(),
            number,
            key,
        };
        made.id = made.id_by_key();
        made
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    /// Tells the key from others, and nothing of it.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(b"longhaul: fingerprint of a key of secret arguments\0");
        digest.update(self.key);
        digest.finalize().into()
    }

    fn id_by_key(&self) -> String {
        let beginning = self.fingerprint();
        beginning.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Newest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    keys: Vec<SecretKey>,
}

/// The keys of a data directory, newest first; none without the file.
pub(super) fn read(data_dir: &Path) -> Result<Vec<SecretKey>, SecretKeyError> {
    let path = data_dir.join(FILE);
    make_file_private(&path).map_err(io_error("use", &path))?;
    let text = match read_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(io_error("read", &path))?,
    };
    let invalid = |reason: String| SecretKeyError::Invalid {
        path: path.clone(),
        reason,
    };
    let document: Document = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    match document {
        Document { version, .. } if version != VERSION => Err(invalid(format!(
            "it has format {version}, and this Longhaul reads format {VERSION}"
        ))),
        Document { keys, .. } if keys.is_empty() => Err(invalid("it has no key".to_owned())),
        Document { keys, .. } => match keys.iter().find(|key| key.id != key.id_by_key()) {
            Some(wrong) => Err(invalid(format!("the key {} was changed", wrong.id))),
            None => Ok(keys),
        },
    }
}

/// The same; the first key is made if there is none. It is on disk when this returns.
pub(super) fn read_or_create(data_dir: &Path, entropy: &dyn Entropy) -> Result<Vec<SecretKey>, SecretKeyError> {
    let found = read(data_dir)?;
    match found.is_empty() {
        true => change(data_dir, |keys| {
            // Another process may have made it meanwhile.
            if keys.is_empty() {
                tracing::info!("made {}, the key of secret arguments", data_dir.join(FILE).display());
                keys.push(SecretKey::generate(entropy, FIRST));
            }
        }),
        false => Ok(found),
    }
}

/// Makes a new key, which encrypts from now on. The earlier ones stay, since stored tasks need them. Returns the name of the new one, and how many there are.
///
/// # Errors
/// [`SecretKeyError`]; then nothing has changed.
pub(crate) fn rotate(
    data_dir: &Path,
    entropy: &dyn Entropy,
    now: UnixMillis,
) -> Result<(String, usize), SecretKeyError> {
    let keys = change(data_dir, |keys| {
        let seconds = u32::try_from(now.0 / 1000).unwrap_or(u32::MAX);
        let after = keys.first().map_or(FIRST, |newest| newest.number.saturating_add(APART));
        keys.insert(0, SecretKey::generate(entropy, seconds.max(after)));
    })?;
    let newest = keys.first().map(|key| key.id.clone()).unwrap_or_default();
    Ok((newest, keys.len()))
}

/// Replaces the file by what `change` makes of it. A crash leaves the old one or the new one.
fn change(data_dir: &Path, change: impl FnOnce(&mut Vec<SecretKey>)) -> Result<Vec<SecretKey>, SecretKeyError> {
    let dir = PrivateDir::create(data_dir).map_err(io_error("open", data_dir))?;
    let _lock = dir
        .lock(LOCK_FILE)
        .map_err(io_error("lock", &data_dir.join(LOCK_FILE)))?;
    let mut keys = read(dir.path())?;
    change(&mut keys);
    let document = Document { version: VERSION, keys };
    let path = dir.path().join(FILE);
    let written = serde_json::to_string_pretty(&document).map_err(io::Error::from);
    let replaced = written.and_then(|text| dir.replace(FILE, format!("{text}\n").as_bytes()));
    replaced.map_err(io_error("write", &path))?;
    Ok(document.keys)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SecretKeyError {
    move |source| SecretKeyError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
