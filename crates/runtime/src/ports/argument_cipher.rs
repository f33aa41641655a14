//! The port that encrypts secret arguments for the store.

/// Encrypts the arguments of tools that are [secret](crate::ToolSettings::secrets), and decrypts them for the attempt that needs them. The key is not in the
/// store.
pub trait ArgumentCipher: Send + Sync + 'static {
    /// Encrypts a value. It can be decrypted only together with the same `context`.
    fn encrypt(&self, value: &str, context: &[u8]) -> String;

    /// What [`encrypt`](Self::encrypt) was given.
    ///
    /// # Errors
    /// [`DecryptError`], which names the key that is missing.
    fn decrypt(&self, encrypted: &str, context: &[u8]) -> Result<String, DecryptError>;
}

/// A secret argument cannot be decrypted. The text is for clients, too: it says which key is missing where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecryptError(pub String);
