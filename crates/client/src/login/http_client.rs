//! The HTTP client of logins: it reaches only what the metadata of a server may lead to.

use super::{LoginOptions, chosen_issuer::only_issuer, filtered_client::FilteredClient};
use crate::TokenError;
use futures_util::StreamExt;
use http::{HeaderName, Method, header};
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use reqwest::{Request, Response, Url};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpRequest};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest body that is read, in bytes.
const MOST_BODY: usize = 1 << 20;

/// Where authorization servers describe themselves (RFC 8414, OpenID Connect Discovery).
const PLACES: [&str; 2] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
];

/// Makes the requests of one login. rmcp asks the authorization servers that a server names one after the other, and gives up at the first one that does not answer.
/// This client says of such a one that it has no metadata, as long as there are others.
pub(super) struct LoginHttpClient {
    client: FilteredClient,
    /// The only authorization server that is shown to rmcp.
    issuer: Option<String>,
    /// The permissions that the server names are not shown to rmcp.
    hides_scopes: bool,
    /// The server has named several authorization servers.
    has_several: AtomicBool,
    /// Those that did not answer: where their metadata should be, and why not.
    silent: Mutex<Vec<(Url, String)>>,
}

impl LoginHttpClient {
    pub(super) fn new(server: &Url, options: &LoginOptions, issuer: Option<&str>) -> Result<Self, TokenError> {
        Ok(Self {
            client: FilteredClient::new(server, options, issuer)?,
            issuer: issuer.map(str::to_owned),
            hides_scopes: false,
            has_several: AtomicBool::new(false),
            silent: Mutex::default(),
        })
    }

    pub(super) fn hiding_scopes(mut self) -> Self {
        self.hides_scopes = true;
        self
    }

    pub(super) fn client(&self) -> &FilteredClient {
        &self.client
    }

    /// Why authorization servers did not answer, for an error.
    pub(super) fn why_silent(&self) -> Option<String> {
        let silent = self.silent.lock();
        let each: Vec<&str> = silent.iter().map(|(_, why)| why.as_str()).collect();
        (!each.is_empty()).then(|| each.join("; "))
    }

    async fn send(&self, request: OAuthHttpRequest) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let request = Request::try_from(request.request)?;
        let url = request.url().clone();
        let is_one_of_several = self.has_several.load(Ordering::Relaxed)
            && request.method() == Method::GET
            && PLACES.iter().any(|place| url.path().contains(place));
        if !is_one_of_several {
            return self.read(self.client.execute(request).await?).await;
        }
        let is_known = |(at, _): &(Url, String)| at.origin() == url.origin();
        if self.silent.lock().iter().any(is_known) {
            return Ok(not_found()?);
        }
        let why = match self.client.execute(request).await {
            Ok(response) if !response.status().is_server_error() => return self.read(response).await,
            Ok(response) => format!("{url} answers with HTTP status {}", response.status().as_u16()),
            Err(error) => error.to_string(),
        };
        self.silent.lock().push((url, why));
        Ok(not_found()?)
    }

    async fn read(&self, response: Response) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let mut head = http::Response::builder().status(response.status());
        // Of a challenge nothing is used but where metadata and permissions are.
        let is_hidden = |name: &HeaderName| self.hides_scopes && name == header::WWW_AUTHENTICATE;
        for (name, value) in response.headers().iter().filter(|(name, _)| !is_hidden(name)) {
            head = head.header(name, value);
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            // The protected server itself was asked, and has no end to tell.
            return Ok(head.body(Vec::new())?);
        }
        let (mut body, mut parts) = (Vec::new(), response.bytes_stream());
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part?);
            if body.len() > MOST_BODY {
                return Err("the answer is too long".into());
            }
        }
        if let Some(issuer) = &self.issuer {
            body = only_issuer(issuer, body, self.hides_scopes)?;
        } else if let Ok(metadata) = serde_json::from_slice::<Value>(&body)
            && let Some(named) = metadata["authorization_servers"].as_array()
        {
            self.has_several.store(named.len() > 1, Ordering::Relaxed);
        }
        Ok(head.body(body)?)
    }
}

fn not_found() -> http::Result<http::Response<Vec<u8>>> {
    http::Response::builder().status(404).body(Vec::new())
}

impl OAuthHttpClient for LoginHttpClient {
    fn execute(
        &self,
        request: OAuthHttpRequest,
    ) -> BoxFuture<'_, Result<http::Response<Vec<u8>>, OAuthHttpClientError>> {
        Box::pin(self.send(request))
    }
}
