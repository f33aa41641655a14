//! The URL under which clients reach the server.

use http::Uri;
use std::{fmt, str::FromStr};

/// The URL of the endpoint as clients write it, for example `https://mcp.example.com/mcp`. It is fixed: what a request says in `Host` never changes it.
///
/// ```
/// use longhaul_server::http::PublicUrl;
/// let url: PublicUrl = "https://mcp.example.com/mcp".parse()?;
/// assert_eq!((url.authority(), url.path()), ("mcp.example.com", "/mcp"));
/// assert_eq!(url.origin(), "https://mcp.example.com");
/// assert!("mcp.example.com".parse::<PublicUrl>().is_err());
/// # Ok::<(), longhaul_server::http::InvalidPublicUrl>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicUrl {
    text: String,
    uri: Uri,
}

/// A text that is no URL of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write the URL of the endpoint as clients see it, for example \"https://mcp.example.com/mcp\": http or https, a host, no user, query or fragment"
)]
pub struct InvalidPublicUrl;

impl PublicUrl {
    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, with the port if one is written.
    pub fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// The host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// The path; at least `/`.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// Scheme and authority.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.uri.scheme_str().unwrap_or_default(), self.authority())
    }

    /// Where the metadata of the endpoint as a protected resource is (RFC 9728).
    ///
    /// ```
    /// use longhaul_server::http::PublicUrl;
    /// let url: PublicUrl = "https://mcp.example.com/mcp".parse()?;
    /// assert_eq!(url.metadata_url(), "https://mcp.example.com/.well-known/oauth-protected-resource/mcp");
    /// # Ok::<(), longhaul_server::http::InvalidPublicUrl>(())
    /// ```
    pub fn metadata_url(&self) -> String {
        let path = self.path().trim_end_matches('/');
        format!("{}{}{path}", self.origin(), super::METADATA_PATH)
    }
}

impl FromStr for PublicUrl {
    type Err = InvalidPublicUrl;

    fn from_str(text: &str) -> Result<Self, InvalidPublicUrl> {
        let uri: Uri = text.parse().map_err(|_| InvalidPublicUrl)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'));
        match is_web && has_host && !has_user && uri.query().is_none() && !text.contains(['?', '#']) {
            true => Ok(Self {
                text: text.to_owned(),
                uri,
            }),
            false => Err(InvalidPublicUrl),
        }
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_of_an_endpoint_is_refused() {
        let wrong =
            "mcp.example.com /mcp ftp://a/mcp https:// https:///mcp https://user@a/mcp https://a/mcp?x https://a/mcp#x";
        for wrong in wrong.split(' ').chain(["https://a b/mcp", ""]) {
            assert_eq!(wrong.parse::<PublicUrl>(), Err(InvalidPublicUrl), "{wrong}");
        }
        let root: PublicUrl = "http://[::1]:81".parse().unwrap();
        assert_eq!((root.authority(), root.path()), ("[::1]:81", "/"));
        let metadata = "http://[::1]:81/.well-known/oauth-protected-resource";
        assert_eq!(root.metadata_url(), metadata);
    }
}
