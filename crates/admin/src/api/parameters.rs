//! The parameters of a request of the API.

use super::error::ApiError;
use axum::extract::{FromRequestParts, Query};
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;
use std::error::Error;

/// The query of an address, as `T` is written. Each parameter is text there, so that what is wrong with its value is said as of every other one.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                // It names the parameter, and those that there are.
                let cause = rejection
                    .source()
                    .map_or_else(|| rejection.body_text(), ToString::to_string);
                let message = format!("the query of the address cannot be used: {cause}");
                Err(ApiError::of(StatusCode::BAD_REQUEST, "invalid", message))
            }
        }
    }
}
