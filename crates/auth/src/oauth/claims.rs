//! What a token or an introspection says, and whether that is for us.

use longhaul_core::UnixMillis;
use longhaul_server::auth::Denied;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// How far the clocks of the issuer and of this server may be apart.
const CLOCK_SKEW_MILLIS: u64 = 60_000;
/// The longest name of a subject or client: it becomes part of each task's record.
const LONGEST_SUBJECT: usize = 1024;

/// What issuers call the type of an access token that whoever has it may use.
const ACCESS_TOKEN_TYPES: [&str; 4] = [
    "bearer",
    "access",
    "access_token",
    "urn:ietf:params:oauth:token-type:access_token",
];

/// The members that decide. Others are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    sub: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    #[serde(default)]
    scope: ScopeList,
    #[serde(default)]
    scp: ScopeList,
    /// In ID tokens, never in access tokens.
    at_hash: Option<serde::de::IgnoredAny>,
    c_hash: Option<serde::de::IgnoredAny>,
    /// In logout tokens and security events.
    events: Option<serde::de::IgnoredAny>,
    /// What some issuers say that the token is for.
    token_use: Option<String>,
    typ: Option<String>,
    token_type: Option<String>,
    /// The key that its holder must prove to have (RFC 7800): by DPoP, or by a certificate of a client.
    cnf: Option<serde::de::IgnoredAny>,
}

/// A claim that is one text or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Scopes, as a list or with spaces between them.
#[derive(Debug, Default)]
pub(super) struct ScopeList(Vec<String>);

impl<'de> Deserialize<'de> for ScopeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
            OneOrMany::Many(list) => list,
        }))
    }
}

/// Seconds since 1970, which may have a fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumericDate(pub(super) UnixMillis);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        // Converting saturates.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "beyond the range it is the end of the range"
        )]
        match seconds.is_finite() && seconds >= 0.0 {
            true => Ok(Self(UnixMillis((seconds * 1000.0) as i64))),
            false => Err(serde::de::Error::custom("a date is a number of seconds, 0 or more")),
        }
    }
}

/// Who holds a token, of those that one issuer knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// A user.
    User(String),
    /// A client that acts for itself.
    Client(String),
}

impl Claims {
    /// Whether the token is an access token of `issuer` for `audience`, at this time.
    pub(super) fn check(&self, issuer: &str, audience: &str, now: UnixMillis) -> Result<(), Denied> {
        if self.iss.as_deref() != Some(issuer) {
            return Err(Denied::invalid("the token is of another issuer"));
        }
        self.check_apart_from_issuer(audience, now)
    }

    /// For an answer of the issuer itself, which may leave its name out.
    pub(super) fn check_introspected(&self, issuer: &str, audience: &str, now: UnixMillis) -> Result<(), Denied> {
        match &self.iss {
            Some(_) => self.check(issuer, audience, now),
            None => self.check_apart_from_issuer(audience, now),
        }
    }

    fn check_apart_from_issuer(&self, audience: &str, now: UnixMillis) -> Result<(), Denied> {
        let is_for_us = match &self.aud {
            None => false,
            Some(OneOrMany::One(named)) => is_same_resource(named, audience),
            Some(OneOrMany::Many(named)) => named.iter().any(|named| is_same_resource(named, audience)),
        };
        if !is_for_us {
            return Err(Denied::invalid("the token is not for this server"));
        }
        if !self.is_access_token() {
            return Err(Denied::invalid("the token is not an access token"));
        }
        if self.cnf.is_some() {
            // Its issuer has promised that it is of no use to whoever steals it.
            return Err(Denied::invalid(
                "the token is bound to a key of its holder, and this server takes only tokens that are not",
            ));
        }
        if self.exp.is_some_and(|exp| exp.0.plus(CLOCK_SKEW_MILLIS) <= now) {
            return Err(Denied::invalid("the token has expired"));
        }
        if self.nbf.is_some_and(|nbf| nbf.0 > now.plus(CLOCK_SKEW_MILLIS)) {
            return Err(Denied::invalid("the token is not valid yet"));
        }
        Ok(())
    }

    fn is_access_token(&self) -> bool {
        let is_other = |text: &Option<String>, access: &[&str]| {
            let text = text.as_deref();
            text.is_some_and(|text| !access.iter().any(|access| text.eq_ignore_ascii_case(access)))
        };
        self.at_hash.is_none()
            && self.c_hash.is_none()
            && self.events.is_none()
            && !is_other(&self.token_use, &["access", "access_token"])
            && !is_other(&self.typ, &["bearer", "jwt", "at+jwt"])
            && !is_other(&self.token_type, &ACCESS_TOKEN_TYPES)
    }

    /// When the token ends, with the clocks' difference.
    pub(super) fn ends(&self) -> Option<UnixMillis> {
        self.exp.map(|exp| exp.0.plus(CLOCK_SKEW_MILLIS))
    }

    /// Who holds it.
    pub(super) fn holder(&self) -> Result<Holder, Denied> {
        let client = self.client_id.as_deref().or(self.azp.as_deref());
        let holder = match (self.sub.as_deref(), client) {
            // A client could choose the name of a user as its id. So this is never taken for a user.
            (Some(subject), Some(client)) if subject == client => Holder::Client(client.to_owned()),
            (Some(subject), _) => Holder::User(subject.to_owned()),
            (None, Some(client)) => Holder::Client(client.to_owned()),
            (None, None) => return Err(Denied::invalid("the token names neither a subject nor a client")),
        };
        let (Holder::User(name) | Holder::Client(name)) = &holder;
        match (1..=LONGEST_SUBJECT).contains(&name.len()) {
            true => Ok(holder),
            false => Err(Denied::invalid("the token's subject is empty or too long")),
        }
    }

    /// Its scopes.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scope.0.iter().chain(&self.scp.0).map(String::as_str)
    }
}

/// Whether both name the same resource. A slash at the end of an address without a path makes no difference (RFC 3986, 6.2.3).
fn is_same_resource(named: &str, ours: &str) -> bool {
    named == ours || trim(named) == trim(ours)
}

fn trim(address: &str) -> Cow<'_, str> {
    match address.strip_suffix('/') {
        Some(bare) if !bare.split_once("://").map_or(bare, |(_, rest)| rest).contains('/') => Cow::Borrowed(bare),
        _ => Cow::Borrowed(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const ISSUER: &str = "https://a.example";
    const US: &str = "https://mcp.example/mcp";

    fn claims(more: &str) -> Claims {
        let json = format!(r#"{{"iss":"{ISSUER}","aud":"{US}","exp":1800000100,"sub":"u"{more}}}"#);
        serde_json::from_str(&json).expect("claims")
    }

    #[test]
    fn an_access_token_for_us_is_accepted_within_its_time() {
        let claims = claims(r#","nbf":1799999999.5,"scope":"a b","scp":["c"],"typ":"Bearer""#);
        assert_eq!(claims.check(ISSUER, US, NOW), Ok(()));
        assert_eq!(Vec::from_iter(claims.scopes()), ["a", "b", "c"]);
        let at = |seconds: i64| claims.check(ISSUER, US, UnixMillis(seconds * 1000));
        assert_eq!(at(1_800_000_159), Ok(()));
        assert!(at(1_800_000_160).is_err());
        assert_eq!(at(1_799_999_940), Ok(()));
        assert!(at(1_799_999_939).is_err());
        assert!(claims.check("https://a.example/", US, NOW).is_err());
        assert!(claims.check(ISSUER, "https://mcp.example", NOW).is_err());
    }

    #[test]
    fn tokens_for_other_purposes_are_refused() {
        for more in [
            r#","at_hash":"x""#,
            r#","c_hash":"x""#,
            r#","events":{}"#,
            r#","token_use":"id""#,
            r#","typ":"ID""#,
            r#","typ":"Refresh""#,
        ] {
            assert!(claims(more).check(ISSUER, US, NOW).is_err(), "{more}");
        }
    }

    #[test]
    fn dates_that_are_none_are_refused() {
        for exp in [r#""9999999999""#, "-1", "null1", "1e999", "true", "[]"] {
            let json = format!(r#"{{"iss":"{ISSUER}","aud":"{US}","exp":{exp},"sub":"u"}}"#);
            assert!(serde_json::from_str::<Claims>(&json).is_err(), "{exp}");
        }
        // The last of two could be another one than the issuer checked.
        assert!(serde_json::from_str::<Claims>(r#"{"sub":"a","sub":"b"}"#).is_err());
    }

    #[test]
    fn a_client_is_never_taken_for_a_user() {
        let holder = |json: &str| serde_json::from_str::<Claims>(json).expect("claims").holder();
        assert_eq!(
            holder(r#"{"sub":"a","client_id":"b"}"#),
            Ok(Holder::User("a".to_owned()))
        );
        assert_eq!(
            holder(r#"{"sub":"a","client_id":"a"}"#),
            Ok(Holder::Client("a".to_owned()))
        );
        assert_eq!(holder(r#"{"azp":"b"}"#), Ok(Holder::Client("b".to_owned())));
        assert!(holder("{}").is_err());
        assert!(holder(r#"{"sub":""}"#).is_err());
    }

    #[test]
    fn an_address_without_a_path_may_end_with_a_slash() {
        assert!(is_same_resource("https://a.example/", "https://a.example"));
        assert!(!is_same_resource("https://a.example/mcp/", "https://a.example/mcp"));
        assert!(!is_same_resource("https://a.example", "https://b.example"));
    }
}
