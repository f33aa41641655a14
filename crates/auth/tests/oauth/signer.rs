//! An issuer's keys, and tokens signed with them.

use crate::{RESOURCE, support::START};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
        KeyPair as _, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
    },
};
use serde_json::{Value, json};

/// For tests only, as everyone can read it.
const RSA_TEST_KEY: &[u8] = include_bytes!("rsa_test_key.der");

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Curve(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

/// A key pair of an issuer.
pub(crate) struct Signer {
    pair: Pair,
    pub(crate) id: String,
    pub(crate) algorithm: &'static str,
}

impl Signer {
    /// A new pair for this algorithm; always the same one for RSA.
    pub(crate) fn new(algorithm: &'static str, id: &str) -> Self {
        let random = SystemRandom::new();
        let curve = |algorithm| {
            let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a pair");
            Pair::Curve(EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).expect("a pair"))
        };
        let pair = match algorithm {
            "ES256" => curve(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => curve(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let pair = Ed25519KeyPair::generate_pkcs8(&random).expect("a pair");
                Pair::Edwards(Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("a pair"))
            }
            _ => Pair::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA_TEST_KEY).expect("a pair"))),
        };
        Self {
            pair,
            id: id.to_owned(),
            algorithm,
        }
    }

    /// Its public half as a JWK.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({"kty": "RSA", "n": text(&n), "e": text(&e)})
            }
            Pair::Curve(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if self.algorithm == "ES256" { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": text(x), "y": text(y)})
            }
            Pair::Edwards(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())}),
        };
        jwk["kid"] = json!(self.id);
        jwk["alg"] = json!(self.algorithm);
        jwk["use"] = json!("sig");
        jwk
    }

    /// The header of its tokens.
    pub(crate) fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.algorithm, "kid": self.id})
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&self.header(), claims)
    }

    /// A token with this header and these claims, signed as this key signs, whatever the header says.
    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let random = SystemRandom::new();
        let signed = match &self.pair {
            Pair::Rsa(pair) => {
                let encoding: &dyn RsaEncoding = match self.algorithm {
                    "RS256" => &signature::RSA_PKCS1_SHA256,
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    _ => &signature::RSA_PSS_SHA512,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message.as_bytes(), &mut signature)
                    .expect("signed");
                signature
            }
            Pair::Curve(pair) => pair
                .sign(&random, message.as_bytes())
                .expect("signed")
                .as_ref()
                .to_vec(),
            Pair::Edwards(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signed))
    }
}

/// A token signed with a shared secret.
pub(crate) fn sign_with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = message(header, claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    format!(
        "{message}.{}",
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()))
    )
}

/// What is signed.
pub(crate) fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A JWK set of these keys.
pub(crate) fn key_set<'a>(signers: impl IntoIterator<Item = &'a Signer>) -> Value {
    json!({"keys": signers.into_iter().map(Signer::jwk).collect::<Vec<_>>()})
}

/// The claims of an access token that is valid for an hour.
pub(crate) fn claims(issuer: &str) -> Value {
    let now = START.0 / 1000;
    json!({
        "iss": issuer, "sub": "alice", "aud": RESOURCE, "client_id": "app", "iat": now, "exp": now + 3600,
        "scope": "tools:build tasks:write",
    })
}

/// The claims with one of them changed; removed if the value is `null`.
pub(crate) fn but(claims: &Value, name: &str, value: Value) -> Value {
    let mut changed = claims.clone();
    match value {
        Value::Null => drop(changed.as_object_mut().expect("an object").remove(name)),
        value => changed[name] = value,
    }
    changed
}
