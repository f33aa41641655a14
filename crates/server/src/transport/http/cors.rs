//! What web pages of allowed origins may send and read.
//!
//! Credentials are not allowed: there are no cookies, and a page that has a token sends it itself.

use super::response::{Response, empty};
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// What a page may send, besides what it may send anyway.
const HEADERS: &str =
    "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID";
/// Arguments mirrored into headers; their names are the tools' own.
const PARAMS: &str = "mcp-param-";
/// What a page may read, besides what it may read anyway.
const EXPOSED: HeaderValue = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate");
/// How long a browser may cache the answer, in seconds, which is the longest that browsers allow.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Answers OPTIONS: which methods there are, and to a browser that asks for a page, what that page may do.
pub(super) fn preflight(headers: &HeaderMap, methods: &'static str) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let methods = HeaderValue::from_static(methods);
    let answer = response.headers_mut();
    answer.insert(header::ALLOW, methods.clone());
    if headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }
    response
}

fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let asked = headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let names = asked
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .map(str::trim);
    let mut allowed = HEADERS.to_owned();
    for name in names.filter(|name| is_param(name)) {
        allowed.push_str(", ");
        allowed.push_str(name);
    }
    HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static(HEADERS))
}

fn is_param(name: &str) -> bool {
    let prefix = name.get(..PARAMS.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PARAMS)) && http::HeaderName::try_from(name).is_ok()
}

/// Lets the page at `origin`, which is allowed, read the response, also an error.
pub(super) fn expose(response: &mut Response, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}
