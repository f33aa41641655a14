//! Signing what clients carry and must bring back unchanged: session ids, cursors, event ids, the state of a series of rounds.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use longhaul_core::store::SigningKey;
use sha2::Sha256;

/// Half of HMAC-SHA-256: 128 bits are more than can be guessed.
const TAG_BYTES: usize = 16;
const KEY_ID_BYTES: usize = 4;

/// Signs with the newest of its keys and accepts all of them, so that keys can be rotated.
pub(crate) struct Signer(Vec<(u32, Hmac<Sha256>)>);

/// The body of a token whose signature is right.
pub(crate) struct Verified(pub(crate) Vec<u8>);

impl Signer {
    /// A signer with these keys, newest first; at least one.
    pub(crate) fn new(keys: Vec<SigningKey>) -> Self {
        let keyed = |key: SigningKey| {
            let mac =
                Hmac::new_from_slice(&key.secret).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
            (key.id, mac)
        };
        Self(keys.into_iter().map(keyed).collect())
    }

    /// `body` with its key's id and signature, in characters that need no escaping anywhere.
    pub(crate) fn sign(&self, body: &[u8]) -> String {
        let Some((id, mac)) = self.0.first() else {
            return String::new();
        };
        let mut signed = id.to_be_bytes().to_vec();
        signed.extend(body);
        let tag = mac.clone().chain_update(&signed).finalize().into_bytes();
        signed.extend(&tag[..TAG_BYTES]);
        URL_SAFE_NO_PAD.encode(signed)
    }

    /// The body of a token that was signed with one of the keys; `None` for anything else.
    pub(crate) fn verify(&self, text: &str) -> Option<Verified> {
        let token = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, tag) = token.split_at_checked(token.len().checked_sub(TAG_BYTES)?)?;
        let (id, body) = signed.split_first_chunk::<KEY_ID_BYTES>()?;
        let (_, mac) = self.0.iter().find(|(known, _)| *known == u32::from_be_bytes(*id))?;
        mac.clone().chain_update(signed).verify_truncated_left(tag).ok()?;
        Some(Verified(body.to_vec()))
    }
}
