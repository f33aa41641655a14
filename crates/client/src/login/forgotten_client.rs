//! Whether an authorization server still knows this client.

use super::{
    auth_error::{INVALID_CLIENT, UNAUTHORIZED_CLIENT},
    filtered_client::FilteredClient,
    registered_client::RegisteredClient,
};
use http::{HeaderValue, Method, header};
use reqwest::{Body, Request, Url};
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;

/// As short as a verifier may be (RFC 7636, section 4.1).
const VERIFIER: &str = "this-verifier-belongs-to-no-code-of-anybody";

/// Whether it has forgotten how a client without a secret has registered itself. Most authorization servers tell that only to the user, on a page from which nothing comes
/// back. At the token endpoint they tell the client (RFC 6749, section 5.2), which asks there with a code that nobody has; one that it knows gets another error.
pub(super) async fn is_forgotten(
    client: &RegisteredClient,
    resource: &Url,
    metadata: &AuthorizationMetadata,
    http: &FilteredClient,
) -> bool {
    if client.registered_for.is_none() || client.client_secret.is_some() {
        return false;
    }
    let Ok(endpoint) = Url::parse(&metadata.token_endpoint) else {
        return false;
    };
    let asked = [
        ("grant_type", "authorization_code"),
        ("code", "unknown"),
        ("client_id", &*client.client_id),
        ("redirect_uri", &*client.redirect_uri),
        ("code_verifier", VERIFIER),
        ("resource", resource.as_str()),
    ];
    let form = Url::parse_with_params("http://form/", asked).map(|url| url.query().unwrap_or_default().to_owned());
    let mut request = Request::new(Method::POST, endpoint);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    *request.body_mut() = form.ok().map(Body::from);
    // If it does not answer, the login says so.
    let Ok(response) = http.execute(request).await else {
        return false;
    };
    let answer = response.bytes().await.unwrap_or_default();
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    matches!(answer["error"].as_str(), Some(INVALID_CLIENT | UNAUTHORIZED_CLIENT))
}
