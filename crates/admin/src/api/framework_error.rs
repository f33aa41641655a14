//! Errors that the HTTP library has written, such as that of a parameter that cannot be read.

use axum::{body, response::Response};
use http::{header, response::Parts};

/// Of the text of one, in bytes.
const LONGEST: usize = 64 << 10;

/// Whether it is an error, and not one of ours, which have this media type.
pub(crate) fn is_other_error(response: &Response, ours: &str) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_ours = kind.is_some_and(|kind| kind.as_bytes().starts_with(ours.as_bytes()));
    let status = response.status();
    (status.is_client_error() || status.is_server_error()) && !is_ours
}

/// Its head without what is said of the body, and its text.
pub(crate) async fn read_error(response: Response) -> (Parts, String) {
    let (mut head, body) = response.into_parts();
    let text = body::to_bytes(body, LONGEST).await.unwrap_or_default();
    head.headers.remove(header::CONTENT_TYPE);
    head.headers.remove(header::CONTENT_LENGTH);
    (head, String::from_utf8_lossy(&text).into_owned())
}
