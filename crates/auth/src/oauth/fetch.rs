//! Requests to issuers: bounded in time and size, and never redirected.

use super::{
    error::IssuerError,
    issuer::{Introspection, is_loopback},
};
use longhaul_runtime::Ports;
use reqwest::{Client, ClientBuilder, RequestBuilder, StatusCode, Url, header, redirect::Policy};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::Verifier;
use std::{sync::Arc, time::Duration};

/// For the whole answer.
pub(super) const TIME: Duration = Duration::from_secs(10);
/// A set of a hundred keys with their certificates has less.
const LARGEST_DOCUMENT: usize = 512 * 1024;
const LARGEST_INTROSPECTION: usize = 64 * 1024;

/// Asks issuers.
#[derive(Clone)]
pub(super) struct Fetcher {
    /// For addresses of this machine, where no proxy stands between.
    direct: Client,
    /// For all others, through the proxies of the environment.
    remote: Client,
    ports: Ports,
}

/// A whole answer.
pub(super) struct FetchedResponse {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// No connection, or nothing came in time. It does not depend on what was asked.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The answer broke off or is too large.
    #[error("{0}")]
    Broken(String),
}

impl Fetcher {
    /// For these addresses.
    pub(super) fn new<'a>(urls: impl IntoIterator<Item = &'a Url>, ports: &Ports) -> Result<Self, IssuerError> {
        let needs_tls = urls.into_iter().any(|url| url.scheme() == "https");
        let tls = tls(needs_tls).map_err(IssuerError::Tls)?;
        let builder = || {
            Client::builder()
                .redirect(Policy::none())
                .tls_backend_preconfigured(tls.clone())
        };
        let built = |builder: ClientBuilder| builder.build().map_err(|error| IssuerError::Tls(error.to_string()));
        Ok(Self {
            direct: built(builder().no_proxy())?,
            remote: built(builder())?,
            ports: ports.clone(),
        })
    }

    fn client(&self, url: &Url) -> &Client {
        match is_loopback(url) {
            true => &self.direct,
            false => &self.remote,
        }
    }

    /// The JSON document at an address.
    pub(super) async fn document(&self, url: &Url) -> Result<Vec<u8>, String> {
        let accept = "application/jwk-set+json, application/json";
        let request = self.client(url).get(url.clone()).header(header::ACCEPT, accept);
        let fetched = self.send(request, LARGEST_DOCUMENT).await;
        match fetched.map_err(|error| error.to_string())? {
            FetchedResponse {
                status: StatusCode::OK,
                body,
            } => Ok(body),
            FetchedResponse { status, .. } => Err(format!("it answered with status {status}")),
        }
    }

    /// What the issuer says about a token.
    pub(super) async fn introspection(&self, at: &Introspection, token: &str) -> Result<FetchedResponse, FetchError> {
        let form = [("token", token), ("token_type_hint", "access_token")];
        let request = self
            .client(&at.url)
            .post(at.url.clone())
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .basic_auth(encode(&at.client_id), Some(encode(&at.client_secret)))
            .body(encode_form(&form));
        self.send(request, LARGEST_INTROSPECTION).await
    }

    async fn send(&self, request: RequestBuilder, largest: usize) -> Result<FetchedResponse, FetchError> {
        let answer = self.ports.within(TIME, read(request, largest)).await;
        let late = || FetchError::Unreachable(format!("it did not answer within {} s", TIME.as_secs()));
        answer.unwrap_or_else(|| Err(late()))
    }
}

async fn read(request: RequestBuilder, largest: usize) -> Result<FetchedResponse, FetchError> {
    let mut response = request.send().await.map_err(|error| match error.is_connect() {
        true => FetchError::Unreachable(innermost(error)),
        false => FetchError::Broken(innermost(error)),
    })?;
    let status = response.status();
    let mut body = Vec::new();
    let broken = |error| FetchError::Broken(innermost(error));
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > largest {
            return Err(FetchError::Broken(format!("its answer has more than {largest} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(FetchedResponse { status, body })
}

/// The outer errors only say that sending failed.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Certificate authorities are loaded only if some address uses HTTPS, since a system may have none.
fn tls(is_needed: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = if is_needed {
        let verifier = Verifier::new(provider)
            .map_err(|error| format!("{error}; SSL_CERT_FILE can name a file with certificates of authorities"))?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    } else {
        builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn encode_form(form: &[(&str, &str)]) -> String {
    let pairs = form.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    Vec::from_iter(pairs).join("&")
}

/// As in a form, which also the credentials are encoded as (RFC 6749, 2.3.1).
fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_cannot_add_fields_to_the_form() {
        assert_eq!(
            encode_form(&[("token", "a&b=c+d %é"), ("x", "y")]),
            "token=a%26b%3Dc%2Bd%20%25%C3%A9&x=y"
        );
    }
}
