//! What the JSON API answers instead.

use super::framework_error::{is_other_error, read_error};
use crate::{action::ActionError, audit::view::AuditReadError, query::InvalidQuery, view::details::ReadError};
use axum::{
    Json,
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use longhaul_admin_api::{ErrorBody, ErrorReason};
use longhaul_core::store::{CreateError, GiveUpError, StoreError};
use longhaul_runtime::{CordonError, DeleteError, OperatorError};

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
        let error = ErrorReason {
            kind: self.kind.to_owned(),
            message: self.message,
        };
        (self.status, Json(ErrorBody { error })).into_response()
    }
}

/// Gives errors that the API has not made itself, such as that of a parameter that cannot be read, its form.
pub(crate) async fn errors_as_json(request: Request, next: Next) -> Response {
    let is_of_api = request.uri().path().starts_with("/api/");
    let response = next.run(request).await;
    if !is_of_api || !is_other_error(&response, "application/json") {
        return response;
    }
    let (head, text) = read_error(response).await;
    let status = head.status;
    let message = match text.trim() {
        "" => status.canonical_reason().unwrap_or("not done"),
        text => text,
    };
    let kind = match status {
        StatusCode::FORBIDDEN => "forbidden",
        _ => "invalid",
    };
    let mut answer = ApiError::of(status, kind, message).into_response();
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
            ActionError::UnknownTool | ActionError::UnknownUpstream | ActionError::UnknownSchedule => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            ActionError::GiveUp(GiveUpError::UnknownNode) | ActionError::Cordon(CordonError::NotAlive) => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            ActionError::GiveUp(_) | ActionError::Cordon(_) | ActionError::ReadsOnly => {
                (StatusCode::CONFLICT, "not_now")
            }
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
