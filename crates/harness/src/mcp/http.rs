//! HTTP requests to the server under test.

use std::{io, net::SocketAddr, time::Duration};
use ureq::{Agent, http::Response};

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one server. It keeps its connection for the next request, and sends each request once.
pub(crate) struct Connection {
    agent: Agent,
    url: String,
}

/// A whole response. One that broke off is an error, never a reply.
pub(crate) struct Reply(Response<Vec<u8>>);

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.0.body()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name)?.to_str().ok()
    }
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::with_timeout(address, TIMEOUT)
    }

    /// A connection whose requests fail after this time.
    pub(crate) fn with_timeout(address: SocketAddr, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout));
        Self {
            agent: config.build().new_agent(),
            url: format!("http://{address}/mcp"),
        }
    }

    /// Posts JSON to the endpoint.
    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> io::Result<Reply> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, mut body) = request.send(body).map_err(ureq::Error::into_io)?.into_parts();
        let body = body.with_config().limit(u64::MAX).read_to_vec();
        Ok(Reply(Response::from_parts(head, body.map_err(ureq::Error::into_io)?)))
    }
}
