//! What a request of the API is to carry.

use super::error::ApiError;
use axum::{
    Json,
    extract::{FromRequest, Request, rejection::JsonRejection},
};
use http::StatusCode;
use serde::de::DeserializeOwned;
use std::error::Error;

/// A body in JSON, as `T` is written.
pub(crate) struct ApiBody<T>(pub(crate) T);

/// The body of a request.
pub(crate) trait RequestBody: DeserializeOwned {
    /// An example of a right one, for the error message.
    const EXAMPLE: &str;
}

impl<T: RequestBody, S: Send + Sync> FromRequest<S> for ApiBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let rejection = match Json::from_request(request, state).await {
            Ok(Json(body)) => return Ok(Self(body)),
            Err(rejection) => rejection,
        };
        let wanted = format!("the body must be JSON such as `{}`", T::EXAMPLE);
        let (status, message) = match &rejection {
            JsonRejection::JsonDataError(error) => (StatusCode::BAD_REQUEST, format!("{wanted}: {}", cause(error))),
            JsonRejection::JsonSyntaxError(error) => (StatusCode::BAD_REQUEST, format!("{wanted}: {}", cause(error))),
            JsonRejection::MissingJsonContentType(_) => (
                rejection.status(),
                format!("{wanted}, with `Content-Type: application/json`"),
            ),
            _ => (rejection.status(), rejection.body_text()),
        };
        Err(ApiError::of(status, "invalid", message))
    }
}

/// The first cause, which names what is wrong and where.
fn cause(mut error: &dyn Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
