//! The keys that secret arguments are encrypted with: the file `secrets.key` in the data directory, beside the database and not in it.

mod file;

pub(crate) use file::{FILE, SecretKeyError, rotate};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use file::SecretKey;
use longhaul_core::{
    Entropy, Store,
    store::{SigningKey, StoreError},
};
use longhaul_runtime::{ArgumentCipher, DecryptError, Ports};
use parking_lot::RwLock;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the database knows of the newest key: its fingerprint, kept as what signs is, so that all servers of one database see it.
const PURPOSE: &str = "secret arguments";

/// The keys of a data directory, newest first. All are there to decrypt; the newest encrypts.
pub(crate) struct SecretKeys {
    data_dir: PathBuf,
    entropy: Arc<dyn Entropy>,
    keys: RwLock<Vec<SecretKey>>,
}

/// The keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretKeysError {
    #[error(transparent)]
    File(#[from] SecretKeyError),
    #[error("the key of secret arguments cannot be compared with the database: {0}")]
    Store(#[from] StoreError),
    #[error(
        "{} has another key than the database was used with, so secret arguments could not be exchanged with the other servers of that: copy the file from one of them; \
         if all have lost it, run `longhaul keys rotate` with the configuration file",
        .0.display()
    )]
    Other(PathBuf),
}

impl SecretKeys {
    /// Those of a data directory, if it has any.
    ///
    /// # Errors
    /// The file is there and cannot be used.
    pub(crate) fn open(data_dir: &Path, ports: &Ports) -> Result<Self, SecretKeysError> {
        Ok(Self {
            data_dir: data_dir.to_owned(),
            entropy: Arc::clone(&ports.entropy),
            keys: RwLock::new(file::read(data_dir)?),
        })
    }

    /// Reads the file again. If tools have secret arguments, there is a key afterwards, and it is that of the other servers of the store.
    ///
    /// # Errors
    /// [`SecretKeysError`].
    pub(crate) async fn prepare(&self, are_needed: bool, store: &dyn Store) -> Result<(), SecretKeysError> {
        let keys = match are_needed {
            true => file::read_or_create(&self.data_dir, &*self.entropy)?,
            false => file::read(&self.data_dir)?,
        };
        let newest = keys.first().map(|key| SigningKey {
            id: key.number,
            secret: key.fingerprint(),
        });
        if let Some(newest) = newest {
            match store.signing_keys(PURPOSE, newest).await {
                Ok(used) => self.compare(&keys, &used, store.capabilities().many_nodes)?,
                // Nothing can be called then.
                Err(StoreError::ReadOnly) => {}
                Err(error) => return Err(error.into()),
            }
        }
        *self.keys.write() = keys;
        Ok(())
    }

    /// Whether the database was used with one of these keys last.
    fn compare(&self, keys: &[SecretKey], used: &[SigningKey], is_shared: bool) -> Result<(), SecretKeysError> {
        let last = used.first().map(|last| last.secret);
        if last.is_none_or(|last| keys.iter().any(|key| key.fingerprint() == last)) {
            return Ok(());
        }
        let file = self.data_dir.join(FILE);
        if is_shared {
            return Err(SecretKeysError::Other(file));
        }
        tracing::warn!(
            "{} has another key than the database was used with: tasks whose secret arguments were encrypted with that will fail. Put the file back, or, if it is lost, \
             run `longhaul keys rotate` with the configuration file",
            file.display()
        );
        Ok(())
    }

    fn decrypt_with(&self, id: &str, sealed: &[u8], context: &[u8]) -> Option<Result<String, DecryptError>> {
        let keys = self.keys.read();
        let key = keys.iter().find(|key| key.id() == id)?;
        Some(
            open(key, sealed, context)
                .ok_or_else(|| DecryptError("it is damaged, or is that of another task".to_owned())),
        )
    }
}

impl ArgumentCipher for SecretKeys {
    /// `KEY.NONCE+CIPHERTEXT`, the second part in base64.
    fn encrypt(&self, value: &str, context: &[u8]) -> String {
        let keys = self.keys.read();
        // Tools with secrets are served only when there is a key; without one nothing is stored.
        let Some(key) = keys.first() else { return String::new() };
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut text = value.as_bytes().to_vec();
        let aad = Aad::from(context);
        let nonce_once = Nonce::assume_unique_for_key(nonce);
        let sealed = cipher(key).and_then(|cipher| cipher.seal_in_place_append_tag(nonce_once, aad, &mut text).ok());
        if sealed.is_none() {
            return String::new();
        }
        let mut bytes = nonce.to_vec();
        bytes.extend(text);
        format!("{}.{}", key.id(), URL_SAFE_NO_PAD.encode(bytes))
    }

    fn decrypt(&self, encrypted: &str, context: &[u8]) -> Result<String, DecryptError> {
        let damaged = || DecryptError("it is damaged".to_owned());
        let (id, sealed) = encrypted.split_once('.').ok_or_else(damaged)?;
        let sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| damaged())?;
        if let Some(decrypted) = self.decrypt_with(id, &sealed, context) {
            return decrypted;
        }
        // It may have been copied here since, or rotated.
        match file::read(&self.data_dir) {
            Ok(keys) => *self.keys.write() = keys,
            Err(error) => tracing::warn!("{error}"),
        }
        self.decrypt_with(id, &sealed, context).unwrap_or_else(|| {
            Err(DecryptError(format!(
                "the file `{FILE}` in the data directory of the server does not have the key {id}, which it was encrypted with; put that file back, or copy it from \
                 the server that has accepted the call, and call the tool again"
            )))
        })
    }
}

fn cipher(key: &SecretKey) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.bytes()).ok()?))
}

fn open(key: &SecretKey, sealed: &[u8], context: &[u8]) -> Option<String> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = sealed.to_vec();
    let opened = cipher(key)?.open_in_place(nonce, Aad::from(context), &mut text).ok()?;
    String::from_utf8(opened.to_vec()).ok()
}

#[cfg(test)]
mod tests;
