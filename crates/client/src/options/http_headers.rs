//! The headers that the requests of a connection carry.

use http::HeaderMap;
use parking_lot::RwLock;
use std::sync::Arc;

/// Headers that every HTTP request carries. Clones share them, and they can be replaced while connections are open: each request carries those of its time.
///
/// ```
/// use longhaul_client::{HttpHeaders, Options};
/// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
/// let key = |key| HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(key))]);
/// let headers = HttpHeaders::from(key("Bearer old"));
/// let mut options = Options::named("agent", "1.0");
/// options.headers = headers.clone();
/// // Also for connections with these options that are open.
/// headers.replace(key("Bearer new"));
/// ```
#[derive(Clone, Default)]
pub struct HttpHeaders(Arc<RwLock<HeaderMap>>);

impl From<HeaderMap> for HttpHeaders {
    fn from(headers: HeaderMap) -> Self {
        Self(Arc::new(RwLock::new(headers)))
    }
}

impl HttpHeaders {
    /// Replaces all of them.
    pub fn replace(&self, headers: HeaderMap) {
        *self.0.write() = headers;
    }

    /// Adds them to a request, except those that it has.
    pub(crate) fn add_to(&self, request: &mut HeaderMap) {
        for (name, value) in &*self.0.read() {
            request.entry(name).or_insert_with(|| value.clone());
        }
    }
}
