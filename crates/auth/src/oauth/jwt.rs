//! JWTs: which issuer one names, what is signed, and what it says.

use super::claims::Claims;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, AlgorithmFamily, Header};
use longhaul_server::auth::Denied;
use serde::Deserialize;

/// The longest token that is looked at. A request's head may be longer.
pub(super) const LONGEST: usize = 16 * 1024;

/// A JWT whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct UnverifiedJwt<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// Whom it claims to be from.
    pub(super) issuer: String,
    /// What is signed.
    pub(super) message: &'a str,
    signature: &'a str,
    payload: Vec<u8>,
}

#[derive(Deserialize)]
struct ClaimedIssuer {
    iss: String,
}

impl<'a> UnverifiedJwt<'a> {
    /// Takes a token apart. `None` if it is no JWT, but what only its issuer can read.
    ///
    /// # Errors
    /// If it is a JWT of a kind that is never accepted.
    pub(super) fn parse(token: &'a str) -> Result<Option<Self>, Denied> {
        if token.len() > LONGEST {
            return Err(Denied::invalid("the token is too long"));
        }
        let Some((message, signature)) = token.rsplit_once('.') else {
            return Ok(None);
        };
        let Some((header, payload)) = message.split_once('.') else {
            return Ok(None);
        };
        let Some(header) = decode(header).filter(|header| is_jose_header(header)) else {
            return Ok(None);
        };
        // A JWE, which only its issuer can decrypt.
        if token.bytes().filter(|byte| *byte == b'.').count() == 4 {
            return Ok(None);
        }
        let header: Header = serde_json::from_slice(&header)
            .map_err(|_| Denied::invalid("the header of the token is not one that is accepted"))?;
        if header.alg.family() == AlgorithmFamily::Hmac {
            return Err(Denied::invalid("the token must be signed with a key pair"));
        }
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return Err(Denied::invalid(
                "the header of the token asks for something that is not supported",
            ));
        }
        if header.typ.as_deref().is_some_and(|typ| !is_access_token(typ)) {
            return Err(Denied::invalid("the token is not an access token"));
        }
        let malformed = || Denied::invalid("the token is malformed");
        let payload = decode(payload).ok_or_else(malformed)?;
        let ClaimedIssuer { iss } = serde_json::from_slice(&payload).map_err(|_| malformed())?;
        Ok(Some(Self {
            algorithm: header.alg,
            key_id: header.kid,
            issuer: iss,
            message,
            signature,
            payload,
        }))
    }

    /// The signature, if it can be read.
    pub(super) fn signature(&self) -> Option<Vec<u8>> {
        decode(self.signature)
    }

    /// What it says. True only if its issuer has signed it.
    ///
    /// # Errors
    /// If it is not what an issuer says of an access token.
    pub(super) fn claims(&self) -> Result<Claims, Denied> {
        let claims: Claims = serde_json::from_slice(&self.payload)
            .map_err(|_| Denied::invalid("the claims of the token are malformed"))?;
        match claims.ends() {
            Some(_) => Ok(claims),
            None => Err(Denied::invalid("the token has no end (exp)")),
        }
    }
}

/// Whether this is the header of a JWT and not part of a token that happens to have dots.
fn is_jose_header(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct AnyHeader {
        #[serde(rename = "alg")]
        _alg: serde::de::IgnoredAny,
    }
    serde_json::from_slice::<AnyHeader>(text).is_ok()
}

/// RFC 9068 names `at+jwt`, most issuers say `JWT`, and some nothing.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "at+jwt" | "jwt")
}

/// Strict: no padding, no other alphabet, no bits beyond the last byte. So each token has one text.
fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
