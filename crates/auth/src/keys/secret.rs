//! The text of an API key, and what the server keeps of it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_core::Entropy;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use std::fmt;
use subtle::ConstantTimeEq as _;

/// How every API key begins. A bearer token that begins so is an API key and nothing else, so it is never sent to an issuer.
pub const KEY_PREFIX: &str = "lhk_";

/// Whether a token is a key, perhaps one that was copied with a mistake: its prefix in other letters, or without its first or last character, or something around
/// the key. It is never sent to an issuer, since the secret of the key is in it.
///
/// ```
/// use longhaul_auth::keys::is_like_key;
/// assert!(["lhk_x", "LHK_x", "hk_x", "lhkx"].into_iter().all(is_like_key));
/// assert!(is_like_key(&format!("Bearer lhk_{}", "a".repeat(43))));
/// assert!(!is_like_key("eyJhbGciOiJub25lIn0.e30."));
/// ```
pub fn is_like_key(token: &str) -> bool {
    let begins = ["lhk", "hk_"].into_iter().any(|part| {
        let start = token.get(..part.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(part))
    });
    begins || has_key(token)
}

/// Whether a whole key is in the text, such as `Bearer lhk_…` or one in quotes. The letters of a JWT may look so by chance.
fn has_key(token: &str) -> bool {
    let of_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let length = KEY_PREFIX.len() + RANDOM_LENGTH;
    let is_key = |part: &[u8]| {
        let (prefix, random) = part.split_at(KEY_PREFIX.len());
        prefix.eq_ignore_ascii_case(KEY_PREFIX.as_bytes()) && random.iter().all(of_key)
    };
    !token.starts_with("eyJ") && token.as_bytes().windows(length).any(is_key)
}

/// The characters after the prefix: 256 bits as base64url.
const RANDOM_LENGTH: usize = 43;
const RANDOM_BYTES: usize = 32;

/// A new API key. It is shown once: the server keeps only its SHA-256 hash.
///
/// It has no checksum. A mistyped key is as unknown as any other, and its prefix, length and alphabet are enough for scanners that look for leaked secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    pub(crate) fn generate(entropy: &dyn Entropy) -> Self {
        let mut random = [0; RANDOM_BYTES];
        entropy.fill(&mut random);
        let mut text = String::with_capacity(KEY_PREFIX.len() + RANDOM_LENGTH);
        text.push_str(KEY_PREFIX);
        URL_SAFE_NO_PAD.encode_string(random, &mut text);
        Self(text)
    }

    /// The key itself, for its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({KEY_PREFIX}…)")
    }
}

/// The SHA-256 hash of a key's text. A slow hash would protect nothing more: the keys are random.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest of `text`, unless it cannot be a key at all.
    pub(crate) fn of_token(text: &str) -> Option<Self> {
        let random = text.strip_prefix(KEY_PREFIX)?;
        (random.len() == RANDOM_LENGTH).then(|| Self::of(text))
    }

    pub(crate) fn of_key(key: &ApiKey) -> Self {
        Self::of(&key.0)
    }

    fn of(text: &str) -> Self {
        Self(sha2::Sha256::digest(text.as_bytes()).into())
    }

    /// What a table finds it by. An attacker cannot choose it, so it may be compared in any time.
    pub(crate) fn bucket(&self) -> u64 {
        let (first, _) = self.0.split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

impl From<KeyDigest> for String {
    fn from(digest: KeyDigest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for KeyDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "sha256 must be 64 hexadecimal digits, as `sha256sum` prints them";
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if text.len() != 64 || !is_hex {
            return Err(WRONG);
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| WRONG)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingEntropy;

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            for (byte, value) in bytes.iter_mut().zip(0..) {
                *byte = value;
            }
        }
    }

    #[test]
    fn a_key_is_its_prefix_and_256_bits_and_is_never_shown_by_debug() {
        let key = ApiKey::generate(&CountingEntropy);
        assert_eq!(key.expose(), "lhk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
        assert_eq!(format!("{key:?}"), "ApiKey(lhk_…)");
        let digest = KeyDigest::of_key(&key);
        assert_eq!(format!("{digest:?}"), "KeyDigest(…)");
        assert!(KeyDigest::of_token(key.expose()).is_some_and(|again| again.matches(&digest)));
    }

    #[test]
    fn what_cannot_be_a_key_is_not_hashed() {
        for text in [
            "",
            "lhk_",
            "lhk_short",
            "LHK_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "eyJ.e30.x",
        ] {
            assert!(KeyDigest::of_token(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_digest_is_written_as_sha256sum_writes_it() {
        let digest = KeyDigest::of_key(&ApiKey("abc".to_owned()));
        let text = String::from(digest.clone());
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(KeyDigest::try_from(text), Ok(digest));
        for wrong in [
            "",
            "ba",
            "zz7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "+a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
        ] {
            assert!(KeyDigest::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
