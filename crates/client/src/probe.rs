//! Detecting the era of a server: send a modern request first, then try the legacy handshake.

use crate::{
    Options, RequestError, RpcFailure,
    era::{self, Era, LegacySession},
    error::excerpt,
    http::{Http, Post},
    response::{RpcResponse, read_response},
};
use http::HeaderMap;
use longhaul_core::MISSING_CAPABILITY;
use longhaul_wire::{Generation, Method, Version};
use serde_json::{Map, Value, json};

/// Error codes that only modern servers have: header mismatch, missing capability, unsupported version (L-15).
pub(crate) const MODERN_CODES: [i32; 3] = [-32020, MISSING_CAPABILITY, UNSUPPORTED_VERSION];
const UNSUPPORTED_VERSION: i32 = -32022;

/// What the modern request showed.
enum Finding {
    Modern,
    /// The server is a legacy server or not an MCP server. The text describes its response.
    NotModern(String),
}

/// Detects the server's era. A legacy server is initialized on the way.
pub(crate) async fn probe(http: &Http, options: &Options, ids: &mut dyn FnMut() -> u64) -> Result<Era, RequestError> {
    let response = match discover(http, options, ids()).await? {
        Finding::Modern => return Ok(Era::Modern),
        Finding::NotModern(response) => response,
    };
    tracing::debug!(response, "not a modern server; trying the handshake");
    let legacy = initialize(http, options, ids()).await.map_err(|error| match error {
        error if error.is_transient() => error,
        error => {
            let legacy = describe(&error);
            RequestError::NotMcp(match legacy == response {
                true => format!("it answers clients of every revision with {response}"),
                false => format!("to a modern client it answers: {response}; to a legacy client: {legacy}"),
            })
        }
    })?;
    Ok(Era::Legacy(legacy))
}

async fn discover(http: &Http, options: &Options, id: u64) -> Result<Finding, RequestError> {
    let mut params = Map::new();
    era::add_modern_meta(&mut params, &options.client);
    let headers = era::modern_headers(Method::Discover, &params);
    match send(http, options, Method::Discover, id, headers, params).await {
        Ok(RpcResponse {
            outcome: Ok(result), ..
        }) => interpret_result(result.as_str()),
        Ok(RpcResponse {
            outcome: Err(failure), ..
        }) => interpret_failure(failure),
        Err(error @ RequestError::Http { status, .. }) if is_client_error(status) => {
            Ok(Finding::NotModern(describe(&error)))
        }
        Err(error @ RequestError::Invalid(_)) => Ok(Finding::NotModern(describe(&error))),
        Err(error) => Err(error),
    }
}

/// Whether the status says that the request is wrong, rather than unauthorized or untimely.
fn is_client_error(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 408 | 429)
}

fn interpret_result(result: &str) -> Result<Finding, RequestError> {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let versions = version_list(&result["supportedVersions"]);
    if versions.contains(&Version::V2026_07_28) {
        return Ok(Finding::Modern);
    }
    Ok(Finding::NotModern(format!(
        "it supports {}",
        excerpt(&result["supportedVersions"].to_string())
    )))
}

fn interpret_failure(failure: RpcFailure) -> Result<Finding, RequestError> {
    if failure.code == UNSUPPORTED_VERSION {
        let data: Value = failure
            .data
            .as_ref()
            .and_then(|data| serde_json::from_str(data.as_str()).ok())
            .unwrap_or_default();
        let legacy = |version: &Version| version.generation() == Generation::Legacy;
        if !version_list(&data["supported"]).iter().any(legacy) {
            let reason = format!(
                "it supports only revisions unknown to this client: {}",
                excerpt(&data["supported"].to_string())
            );
            return Err(RequestError::NotMcp(reason));
        }
    } else if MODERN_CODES.contains(&failure.code) {
        // The server refused the request, but with a modern error.
        return Ok(Finding::Modern);
    }
    Ok(Finding::NotModern(describe(&RequestError::Rpc(failure))))
}

/// A response that is not what an MCP server would send, in the words of either handshake.
fn describe(error: &RequestError) -> String {
    match error {
        RequestError::Http { status, body, .. } => {
            format!("HTTP status {status} {}", excerpt(body)).trim_end().to_owned()
        }
        RequestError::Rpc(failure) => format!("error {} {}", failure.code, excerpt(&failure.message)),
        RequestError::Invalid(reason) => reason.clone(),
        error => error.to_string(),
    }
}

fn version_list(versions: &Value) -> Vec<Version> {
    versions
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter_map(Version::parse)
        .collect()
}

/// Makes the legacy handshake (L-01, L-02).
async fn initialize(http: &Http, options: &Options, id: u64) -> Result<LegacySession, RequestError> {
    let params = json!({
        "protocolVersion": Version::V2025_11_25.as_str(),
        "capabilities": {},
        "clientInfo": options.client.to_json(),
    });
    let Value::Object(params) = params else {
        return Err(RequestError::Invalid("its handshake cannot be made".to_owned()));
    };
    let response = send(http, options, Method::Initialize, id, HeaderMap::new(), params).await?;
    let result: Value = serde_json::from_str(response.outcome.map_err(RequestError::Rpc)?.as_str()).unwrap_or_default();

    let version = result["protocolVersion"].as_str().unwrap_or_default();
    let version = Version::parse(version)
        .filter(|version| version.generation() == Generation::Legacy)
        .ok_or_else(|| RequestError::Invalid(format!("it negotiates the unknown revision {:?}", excerpt(version))))?;
    let legacy = LegacySession {
        version,
        session: response.session,
        tool_tasks: version.has_core_tasks()
            && result["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object(),
    };

    let initialized = Post {
        body: era::build_message(Method::Initialized, None, Map::new()),
        headers: legacy.headers(),
        timeout: Some(options.request_timeout),
    };
    http.send(initialized).await?;
    Ok(legacy)
}

async fn send(
    http: &Http,
    options: &Options,
    method: Method,
    id: u64,
    headers: HeaderMap,
    params: Map<String, Value>,
) -> Result<RpcResponse, RequestError> {
    let post = Post {
        body: era::build_message(method, Some(id), params),
        headers,
        timeout: Some(options.request_timeout),
    };
    let mut reply = http.send(post).await?;
    read_response(&mut reply, id, &mut |_| {}).await
}
