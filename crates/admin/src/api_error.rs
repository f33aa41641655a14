//! What the JSON API answers instead.

use crate::{action::ActionError, audit_view::AuditReadError, details::ReadError, query::InvalidQuery};
use axum::{
    Json, body,
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use longhaul_core::store::{CreateError, StoreError};
use longhaul_runtime::{DeleteError, OperatorError};
use serde_json::json;

/// Of an error that is not the API's own, in bytes.
const LONGEST_ERROR: usize = 64 << 10;

/// An error, as the API describes it.
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl ApiError {
    pub(crate) fn of(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"kind": self.kind, "message": self.message}});
        (self.status, Json(body)).into_response()
    }
}

/// Gives errors that the API has not made itself, such as that of a parameter that cannot be read, its form.
pub(crate) async fn errors_as_json(request: Request, next: Next) -> Response {
    let is_of_api = request.uri().path().starts_with("/api/");
    let response = next.run(request).await;
    let status = response.status();
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_of_api || !is_error || response.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = body::to_bytes(body, LONGEST_ERROR).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let message = match text.trim() {
        "" => status.canonical_reason().unwrap_or("not done"),
        text => text,
    };
    let kind = match status {
        StatusCode::FORBIDDEN => "forbidden",
        _ => "invalid",
    };
    let mut answer = ApiError::of(status, kind, message).into_response();
    head.headers.remove(header::CONTENT_TYPE);
    head.headers.remove(header::CONTENT_LENGTH);
    answer.headers_mut().extend(head.headers);
    answer
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, "store", error.to_string())
    }
}

impl From<InvalidQuery> for ApiError {
    fn from(error: InvalidQuery) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "invalid", error.to_string())
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Query(error) => error.into(),
            ReadError::NotFound | ReadError::NotWhole(_) => {
                Self::of(StatusCode::NOT_FOUND, "not_found", error.to_string())
            }
            ReadError::Store(error) => error.into(),
        }
    }
}

impl From<AuditReadError> for ApiError {
    fn from(error: AuditReadError) -> Self {
        match error {
            AuditReadError::Query(error) => error.into(),
            AuditReadError::None => Self::of(StatusCode::NOT_FOUND, "no_audit_log", error.to_string()),
            AuditReadError::Io(_) => Self::of(StatusCode::SERVICE_UNAVAILABLE, "audit_log", error.to_string()),
        }
    }
}

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        let (status, kind) = match &error {
            ActionError::Invalid(_) | ActionError::DoesNotFit(_) | ActionError::Query(_) => {
                (StatusCode::BAD_REQUEST, "invalid")
            }
            ActionError::UnknownTool | ActionError::UnknownUpstream => (StatusCode::NOT_FOUND, "not_found"),
            ActionError::ReadsOnly => (StatusCode::CONFLICT, "not_now"),
            ActionError::Refused(error) => match error {
                OperatorError::NotFound => (StatusCode::NOT_FOUND, "not_found"),
                OperatorError::NoEntry { .. } => (StatusCode::BAD_REQUEST, "invalid"),
                OperatorError::Create(CreateError::Quota(_)) => (StatusCode::TOO_MANY_REQUESTS, "quota"),
                OperatorError::Store(_)
                | OperatorError::Create(CreateError::Store(_))
                | OperatorError::Delete(DeleteError::Store(_) | DeleteError::Files) => {
                    (StatusCode::SERVICE_UNAVAILABLE, "store")
                }
                _ => (StatusCode::CONFLICT, "not_now"),
            },
        };
        Self::of(status, kind, error.to_string())
    }
}
