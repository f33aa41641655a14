//! The public keys of an issuer.

use crate::oauth::jwt::UnverifiedJwt;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use longhaul_server::auth::Revocation;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// More keys than any issuer has. What comes after them is ignored.
const MOST_KEYS: usize = 100;
const LONGEST_ID: usize = 256;
/// Keys that a token is verified with, so that a forged one costs no more. An issuer that changes keys has two of a kind.
const MOST_TRIED: usize = 4;
/// What is wrong with a set that cannot verify anything.
pub(crate) const NO_KEY: &str =
    "it has no key for signatures by RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA (Ed25519)";

/// A key that verifies signatures, by the algorithms that it is for.
#[derive(Debug)]
pub(crate) struct VerifyingKey {
    id: Option<String>,
    algorithms: &'static [Algorithm],
    key: Material,
    /// Shared by all identities whose tokens it has signed: they end when the issuer withdraws it.
    revocation: Revocation,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The bytes of the point.
    Curve(Vec<u8>),
}

/// The keys of an issuer that can be used here.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Arc<VerifyingKey>>);

/// Which key of a set has signed a token.
pub(crate) enum Signer<'a> {
    Key(&'a Arc<VerifyingKey>),
    /// The set has no key that the token could be signed with.
    Unknown,
    /// None of those that it could be signed with, or the one that it names is for other algorithms.
    Other,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// Reads a JWK set. Keys for other purposes and of unknown kinds are left out. An issuer that withdraws its last key may leave an empty set.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let document: Document<'_> =
            serde_json::from_slice(text).map_err(|error| format!("it is no JWK set: {error}"))?;
        let keys = document.keys.iter().take(MOST_KEYS);
        let keys: Vec<_> = keys
            .filter_map(|key| VerifyingKey::parse(key.get()))
            .map(Arc::new)
            .collect();
        Ok(Self(keys))
    }

    /// Whether it cannot verify anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which key has signed a token: the one that it names, or one of those that fit if it names none. Issuers that change a key for another one may have both
    /// under the same name, or without any, for a while.
    pub(crate) fn signer_of(&self, token: &UnverifiedJwt<'_>) -> Signer<'_> {
        let (id, algorithm) = (token.key_id.as_deref(), token.algorithm);
        let is_fitting =
            |key: &&Arc<VerifyingKey>| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id);
        let mut fitting = self.0.iter().filter(is_fitting).take(MOST_TRIED).peekable();
        if fitting.peek().is_none() {
            // The key that it names is for other algorithms.
            let is_named = |key: &Arc<VerifyingKey>| id.is_some() && key.id.as_deref() == id;
            return match self.0.iter().any(is_named) {
                true => Signer::Other,
                false => Signer::Unknown,
            };
        }
        let Some(signature) = token.signature() else {
            return Signer::Other;
        };
        fitting
            .find(|key| key.verifies(algorithm, token.message.as_bytes(), &signature))
            .map_or(Signer::Other, Signer::Key)
    }

    /// Which of the keys that `later` does not have has signed a token.
    pub(crate) fn has_withdrawn(&self, later: &Self, token: &UnverifiedJwt<'_>) -> bool {
        match self.signer_of(token) {
            Signer::Key(key) => !later.0.iter().any(|kept| kept.is_same_as(key)),
            Signer::Unknown | Signer::Other => false,
        }
    }

    /// Takes the place of `earlier`: keys that were there before stay the same ones, and what the others have let in ends.
    pub(crate) fn replace(&mut self, earlier: &Self) {
        let is_same = |one: &Arc<VerifyingKey>, other: &Arc<VerifyingKey>| one.is_same_as(other);
        for key in &mut self.0 {
            if let Some(before) = earlier.0.iter().find(|before| is_same(before, key)) {
                *key = Arc::clone(before);
            }
        }
        for before in &earlier.0 {
            if !self.0.iter().any(|key| is_same(key, before)) {
                before.revocation.revoke();
            }
        }
    }
}

impl VerifyingKey {
    fn parse(text: &str) -> Option<Self> {
        let jwk: Jwk = serde_json::from_str(text).ok()?;
        let common = &jwk.common;
        let signs = common
            .public_key_use
            .as_ref()
            .is_none_or(|usage| *usage == PublicKeyUse::Signature);
        let operations = common.key_operations.as_deref();
        let verifies = operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let id = common.key_id.clone();
        if !(signs && verifies) || id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) {
            return None;
        }
        let (key, fitting): (Material, &'static [Algorithm]) = match &jwk.algorithm {
            AlgorithmParameters::RSA(key) => {
                let (n, e) = (without_zeros(&key.n)?, without_zeros(&key.e)?);
                // What ring verifies with.
                let fits = (256..=1024).contains(&n.len()) && (1..=4).contains(&e.len());
                (fits.then_some(Material::Rsa { n, e })?, RSA)
            }
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => (point(&key.x, &key.y, 32)?, &[Algorithm::ES256]),
                EllipticCurve::P384 => (point(&key.x, &key.y, 48)?, &[Algorithm::ES384]),
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                let x = decode(&key.x)?;
                ((x.len() == 32).then_some(Material::Curve(x))?, &[Algorithm::EdDSA])
            }
            _ => return None,
        };
        // A key that names its algorithm is for no other one.
        let algorithms = match common.key_algorithm {
            None => fitting,
            Some(named) => {
                let named = Algorithm::try_from(named).ok()?;
                let at = fitting.iter().position(|fitting| *fitting == named)?;
                &fitting[at..=at]
            }
        };
        Some(Self {
            id,
            algorithms,
            key,
            revocation: Revocation::default(),
        })
    }

    fn is_same_as(&self, other: &Self) -> bool {
        (&self.id, self.algorithms, &self.key) == (&other.id, other.algorithms, &other.key)
    }

    /// Revoked when the issuer withdraws the key.
    pub(crate) fn revocation(&self) -> &Revocation {
        &self.revocation
    }

    /// Whether the signature is this key's for the message, by an algorithm that the key is for.
    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.algorithms.contains(&algorithm) {
            return false;
        }
        let verified = match &self.key {
            Material::Rsa { n, e } => {
                let Some(parameters) = rsa(algorithm) else { return false };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            Material::Curve(point) => {
                let algorithm: &dyn signature::VerificationAlgorithm = match algorithm {
                    Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &signature::ED25519,
                    _ => return false,
                };
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

fn rsa(algorithm: Algorithm) -> Option<&'static signature::RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn point(x: &str, y: &str, length: usize) -> Option<Material> {
    /// The mark of a point with both coordinates.
    const UNCOMPRESSED: u8 = 4;
    let (x, y) = (decode(x)?, decode(y)?);
    let fits = x.len() == length && y.len() == length;
    fits.then(|| Material::Curve([&[UNCOMPRESSED], &x[..], &y[..]].concat()))
}

/// Some issuers write the sign's zero before the number, or pad it.
fn without_zeros(text: &str) -> Option<Vec<u8>> {
    let bytes = decode(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}
