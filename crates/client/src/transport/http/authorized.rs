//! HTTP requests with the headers and the token for their server.

use crate::{AccessToken, HttpHeaders, Refusal, TokenError, TokenProvider};
use http::{HeaderMap, header};
use reqwest::{Client, Request, RequestBuilder, Response, StatusCode};
use std::sync::Arc;

/// How often a request is sent with another token: once for a token that has ended, once for one that permits too little, and once more.
const MOST_REPLACEMENTS: u32 = 3;

/// An HTTP client that shows a token to its server.
#[derive(Clone)]
pub(crate) struct AuthorizedClient {
    client: Client,
    headers: HttpHeaders,
    tokens: Option<Arc<dyn TokenProvider>>,
}

/// A request was not answered.
pub(crate) enum SendError {
    /// There is no token for it.
    Token(TokenError),
    Http(reqwest::Error),
}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error)
    }
}

impl From<TokenError> for SendError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl AuthorizedClient {
    pub(crate) fn new(client: Client, headers: HttpHeaders, tokens: Option<Arc<dyn TokenProvider>>) -> Self {
        Self {
            client,
            headers,
            tokens,
        }
    }

    /// For building requests; they are sent with [`send`](Self::send).
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request. If the server refuses its token and there is another one, sends it again: a refused request has done nothing.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let mut request = request.build()?;
        self.headers.add_to(request.headers_mut());
        let Some(tokens) = &self.tokens else {
            return Ok(self.client.execute(request).await?);
        };
        let mut token = tokens.token().await?;
        for _ in 0..MOST_REPLACEMENTS {
            let Some(attempt) = request.try_clone() else { break };
            let response = self.execute(attempt, token.as_ref()).await?;
            let status = response.status();
            let challenge = challenges(response.headers());
            if !is_refusal(status, challenge.as_deref()) {
                return Ok(response);
            }
            let refusal = Refusal {
                status: status.as_u16(),
                challenge: challenge.as_deref(),
                sent: token.as_ref(),
            };
            match tokens.replace(refusal).await? {
                Some(other) => token = Some(other),
                None => return Ok(response),
            }
        }
        Ok(self.execute(request, token.as_ref()).await?)
    }

    async fn execute(&self, mut request: Request, token: Option<&AccessToken>) -> Result<Response, reqwest::Error> {
        if let Some(token) = token {
            request.headers_mut().insert(header::AUTHORIZATION, token.header());
        }
        self.client.execute(request).await
    }
}

/// What a server says of its refusal. Each scheme may have a header of its own, and they are a list then (RFC 9110, section 5.3).
fn challenges(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let all: Vec<&str> = all.filter_map(|challenge| challenge.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Whether another token may help: 403 is also the answer to what nobody may do.
fn is_refusal(status: StatusCode, challenge: Option<&str>) -> bool {
    match status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => challenge.is_some_and(|challenge| challenge.contains("insufficient_scope")),
        _ => false,
    }
}
