//! Requests to a server that does not speak MCP.

use crate::{
    RequestError,
    options::proxy::Proxy,
    transport::http::{builder, retry_after::retry_after, unreachable::unreachable},
};
use http::{HeaderMap, Request};
use longhaul_core::{Clock, Millis};
use reqwest::{Client, Url};
use std::{sync::Arc, time::Duration};

/// An HTTP client for one server that does not speak MCP, with the proxies, the trusted certificates and the errors of a
/// [`Connection`](crate::Connection). It follows no redirect.
pub struct HttpExchange {
    client: Client,
    proxy: Option<String>,
    /// The server, for error messages.
    shown: String,
    clock: Arc<dyn Clock>,
}

/// What the server has answered, whatever its status.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// All of the body.
    pub body: Vec<u8>,
    /// `Retry-After`, in milliseconds from now.
    pub retry_after: Option<Millis>,
}

impl HttpExchange {
    /// A client for the server of this URL. Nothing is sent.
    ///
    /// # Errors
    /// Why there is none: the certificates of the system, or the proxy of the environment, cannot be used.
    pub fn new(server: &Url, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let builder = builder(server)?.redirect(reqwest::redirect::Policy::none());
        let (builder, proxy) = Proxy::Environment.apply(builder, server)?;
        Ok(Self {
            client: builder.build().map_err(|error| error.to_string())?,
            proxy,
            shown: server.origin().ascii_serialization(),
            clock,
        })
    }

    /// Sends a request, and reads the answer within `timeout`.
    ///
    /// # Errors
    /// There is no answer, or its body has more than `max_body` bytes. [`RequestError::is_unsent`] says whether the server can have received the request.
    pub async fn send(
        &self,
        request: Request<Vec<u8>>,
        timeout: Duration,
        max_body: usize,
    ) -> Result<HttpAnswer, RequestError> {
        let unreachable = |error: reqwest::Error| unreachable(&self.shown, self.proxy.as_deref(), &error);
        let mut request =
            reqwest::Request::try_from(request).map_err(|error| RequestError::Setup(error.to_string()))?;
        *request.timeout_mut() = Some(timeout);
        let mut response = self.client.execute(request).await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > max_body {
                return Err(RequestError::TooLarge { limit: max_body });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(HttpAnswer {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers(), self.clock.now()),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }
}
