//! Signing what is given away and must come back unchanged: session ids, cursors.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use longhaul_core::store::SigningKey;
use sha2::Sha256;

/// Half of HMAC-SHA-256: 128 bits are more than can be guessed.
const TAG_BYTES: usize = 16;
const KEY_ID_BYTES: usize = 4;

/// Signs with the newest of its keys and accepts all of them, so that keys can be rotated.
pub(crate) struct Seal(Vec<(u32, Hmac<Sha256>)>);

/// What was signed.
pub(crate) struct Unsealed(pub(crate) Vec<u8>);

impl Seal {
    /// A seal with these keys, newest first; at least one.
    pub(crate) fn new(keys: Vec<SigningKey>) -> Self {
        let keyed = |key: SigningKey| {
            let mac =
                Hmac::new_from_slice(&key.secret).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
            (key.id, mac)
        };
        Self(keys.into_iter().map(keyed).collect())
    }

    /// `body` with its key's id and signature, in characters that need no escaping anywhere.
    pub(crate) fn seal(&self, body: &[u8]) -> String {
        let Some((id, mac)) = self.0.first() else {
            return String::new();
        };
        let mut sealed = id.to_be_bytes().to_vec();
        sealed.extend(body);
        let tag = mac.clone().chain_update(&sealed).finalize().into_bytes();
        sealed.extend(&tag[..TAG_BYTES]);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// The body of what this seal once sealed; `None` for anything else.
    pub(crate) fn open(&self, text: &str) -> Option<Unsealed> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_BYTES)?)?;
        let (id, body) = signed.split_first_chunk::<KEY_ID_BYTES>()?;
        let (_, mac) = self.0.iter().find(|(known, _)| *known == u32::from_be_bytes(*id))?;
        mac.clone().chain_update(signed).verify_truncated_left(tag).ok()?;
        Some(Unsealed(body.to_vec()))
    }
}
