//! An issuer as it is configured.

use super::{error::IssuerError, scopes::Scopes};
use reqwest::Url;
use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A JWK set at this address.
    Url(Url),
    /// A JWK set in this file.
    File(PathBuf),
}

impl FromStr for KeySource {
    type Err = IssuerError;

    /// # Errors
    /// [`IssuerError::Address`].
    fn from_str(source: &str) -> Result<Self, IssuerError> {
        Ok(match source.contains("://") {
            true => Self::Url(parse("jwks", source)?),
            false => Self::File(source.into()),
        })
    }
}

/// Where an issuer tells about its tokens, and as whom it is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct Introspection {
    pub(crate) url: Url,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
}

impl Introspection {
    /// The endpoint, and the credentials of this server as a client of the issuer.
    ///
    /// # Errors
    /// [`IssuerError::Address`].
    pub fn new(url: &str, client_id: impl Into<String>, client_secret: impl Into<String>) -> Result<Self, IssuerError> {
        Ok(Self {
            url: parse("introspection", url)?,
            client_id: client_id.into(),
            client_secret: client_secret.into(),
        })
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_str();
        f.debug_struct("Introspection")
            .field("url", &url)
            .finish_non_exhaustive()
    }
}

/// Whose tokens are accepted, and how they are verified.
///
/// ```
/// use longhaul_auth::oauth::{Issuer, Scopes};
///
/// let issuer = Issuer::new("https://login.example.com/realms/main")?
///     .jwks("https://login.example.com/realms/main/certs")?
///     .scopes(Scopes::Everything);
/// # Ok::<(), longhaul_auth::oauth::IssuerError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    pub(crate) name: String,
    pub(crate) keys: Option<KeySource>,
    pub(crate) introspection: Option<Introspection>,
    pub(crate) scopes: Scopes,
}

impl Issuer {
    /// An issuer by its identifier, exactly as its tokens name it (`iss`).
    ///
    /// # Errors
    /// [`IssuerError::Address`].
    pub fn new(issuer: &str) -> Result<Self, IssuerError> {
        parse_identifier("issuer", issuer)?;
        Ok(Self {
            name: issuer.to_owned(),
            keys: None,
            introspection: None,
            scopes: Scopes::default(),
        })
    }

    /// Where its keys are: an address, or the path of a file.
    ///
    /// # Errors
    /// [`IssuerError::Address`].
    pub fn jwks(self, source: &str) -> Result<Self, IssuerError> {
        Ok(self.keys(source.parse()?))
    }

    /// Where its keys are.
    pub fn keys(mut self, source: KeySource) -> Self {
        self.keys = Some(source);
        self
    }

    /// Where it tells about tokens that are not JWTs.
    pub fn introspection(mut self, introspection: Introspection) -> Self {
        self.introspection = Some(introspection);
        self
    }

    /// What the scopes of its tokens mean here.
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Where requests go to.
    pub(super) fn urls(&self) -> impl Iterator<Item = &Url> {
        let keys = self.keys.as_ref().and_then(|keys| match keys {
            KeySource::Url(url) => Some(url),
            KeySource::File(_) => None,
        });
        let introspection = self.introspection.as_ref().map(|introspection| &introspection.url);
        keys.into_iter().chain(introspection)
    }

    /// Whether both issuers have the same scopes. If not all issuers of a server do, clients are told only of those of the first before they log in.
    ///
    /// ```
    /// use longhaul_auth::oauth::{Issuer, Scopes};
    ///
    /// let [one, two] = [Issuer::new("https://one.example")?, Issuer::new("https://two.example")?];
    /// assert!(one.has_scopes_of(&two));
    /// assert!(!one.has_scopes_of(&two.scopes(Scopes::Everything)));
    /// # Ok::<(), longhaul_auth::oauth::IssuerError>(())
    /// ```
    pub fn has_scopes_of(&self, other: &Self) -> bool {
        let sorted = |issuer: &'_ Self| {
            let mut scopes: Vec<String> = issuer.scopes.supported().into_iter().map(str::to_owned).collect();
            scopes.sort_unstable();
            scopes
        };
        sorted(self) == sorted(other)
    }

    /// Whether it tells about tokens that are not JWTs.
    pub fn has_introspection(&self) -> bool {
        self.introspection.is_some()
    }

    /// Its identifier.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// An address that nobody on the way can answer for.
fn parse(what: &'static str, text: &str) -> Result<Url, IssuerError> {
    let url = Url::parse(text).map_err(|error| wrong(what, text, error))?;
    let is_fine = match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(&url),
        _ => false,
    };
    if !is_fine {
        return Err(wrong(what, text, "use https://, or http:// to this machine"));
    }
    match url.username().is_empty() && url.password().is_none() {
        true => Ok(url),
        false => Err(wrong(what, text, "it must not contain a password")),
    }
}

/// The same for an address that is compared, and of which others are made.
pub(super) fn parse_identifier(what: &'static str, text: &str) -> Result<Url, IssuerError> {
    let url = parse(what, text)?;
    match url.query().is_none() && url.fragment().is_none() {
        true => Ok(url),
        false => Err(wrong(what, text, "it must have neither a query nor a fragment")),
    }
}

/// Whether it is an address of this machine. All without TLS are.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

fn wrong(what: &'static str, text: &str, reason: impl fmt::Display) -> IssuerError {
    IssuerError::Address {
        what,
        text: text.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_anybody_could_answer_for_are_refused() {
        for fine in [
            "https://a.example",
            "https://a.example/x",
            "http://localhost:8080/realm",
            "http://127.0.0.1",
            "http://[::1]:9",
        ] {
            assert!(Issuer::new(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "",
            "a.example",
            "http://a.example",
            "ftp://a",
            "https://u:p@a.example",
            "https://a.example?x",
            "https://a.example#x",
            "http://localhost.example",
            "http://10.0.0.1",
            "file:///x",
        ] {
            assert!(Issuer::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_at_an_address_or_in_a_file() {
        let source = |text| {
            Issuer::new("https://a.example")
                .and_then(|issuer| issuer.jwks(text))
                .map(|issuer| issuer.keys)
        };
        assert!(matches!(source("https://a.example/keys"), Ok(Some(KeySource::Url(_)))));
        assert!(matches!(source("keys/issuer.json"), Ok(Some(KeySource::File(_)))));
        assert!(source("http://a.example/keys").is_err());
    }

    #[test]
    fn the_secret_is_never_shown() {
        let introspection = Introspection::new("https://a.example/introspect", "me", "hush").expect("it is fine");
        assert!(!format!("{introspection:?}").contains("hush"));
    }
}
