//! Finding out which era a server speaks (L-16): ask as a modern client, fall back to the handshake.

use crate::{
    Options, RequestError, RpcFailure,
    connection::{Answer, read_answer},
    era::{self, Era, Legacy, excerpt},
    http::{Http, Post},
};
use http::HeaderMap;
use longhaul_wire::{Generation, Method, Version};
use serde_json::{Map, Value, json};

/// Codes that only a modern server answers with: header mismatch, missing capability, unsupported version (L-15).
pub(crate) const MODERN_CODES: [i32; 3] = [-32020, -32021, UNSUPPORTED_VERSION];
const UNSUPPORTED_VERSION: i32 = -32022;

/// What the modern question revealed.
enum Sight {
    Modern,
    /// Something that a legacy server, or no MCP server, would say.
    NotModern(String),
}

/// Finds the server's era; a legacy server is greeted on the way.
pub(crate) async fn probe(http: &Http, options: &Options, ids: &mut dyn FnMut() -> u64) -> Result<Era, RequestError> {
    let seen = match ask_modern(http, options, ids()).await? {
        Sight::Modern => return Ok(Era::Modern),
        Sight::NotModern(seen) => seen,
    };
    tracing::debug!(seen, "not a modern server; trying the handshake");
    let legacy = greet(http, options, ids()).await.map_err(|error| match error {
        error if error.is_transient() => error,
        error => RequestError::NotMcp(format!("as a modern client: {seen}; as a legacy client: {error}")),
    })?;
    Ok(Era::Legacy(legacy))
}

async fn ask_modern(http: &Http, options: &Options, id: u64) -> Result<Sight, RequestError> {
    let mut params = Map::new();
    era::complete_modern(&mut params, &options.client);
    let headers = era::modern_headers(Method::Discover, &params);
    match ask(http, options, Method::Discover, id, headers, params).await {
        Ok(Answer {
            outcome: Ok(result), ..
        }) => judge_discovery(result.as_str()),
        Ok(Answer {
            outcome: Err(failure), ..
        }) => judge_failure(failure),
        Err(RequestError::Http { status, body, .. }) if is_client_error(status) => Ok(Sight::NotModern(
            format!("HTTP status {status} {}", excerpt(&body)).trim_end().to_owned(),
        )),
        Err(RequestError::Invalid(reason)) => Ok(Sight::NotModern(reason)),
        Err(error) => Err(error),
    }
}

/// Whether the status speaks of the request and not of who asks or of the moment.
fn is_client_error(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 408 | 429)
}

fn judge_discovery(result: &str) -> Result<Sight, RequestError> {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let versions = version_list(&result["supportedVersions"]);
    if versions.contains(&Version::V2026_07_28) {
        return Ok(Sight::Modern);
    }
    Ok(Sight::NotModern(format!(
        "it supports {}",
        excerpt(&result["supportedVersions"].to_string())
    )))
}

fn judge_failure(failure: RpcFailure) -> Result<Sight, RequestError> {
    if failure.code == UNSUPPORTED_VERSION {
        let data: Value = failure
            .data
            .as_ref()
            .and_then(|data| serde_json::from_str(data.as_str()).ok())
            .unwrap_or_default();
        let legacy = |version: &Version| version.generation() == Generation::Legacy;
        if !version_list(&data["supported"]).iter().any(legacy) {
            let reason = format!(
                "it speaks only revisions unknown to this client: {}",
                excerpt(&data["supported"].to_string())
            );
            return Err(RequestError::NotMcp(reason));
        }
    } else if MODERN_CODES.contains(&failure.code) {
        // The request was wrong somewhere, but the server speaks this era.
        return Ok(Sight::Modern);
    }
    Ok(Sight::NotModern(format!(
        "error {} {}",
        failure.code,
        excerpt(&failure.message)
    )))
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

/// The legacy handshake (L-01, L-02).
async fn greet(http: &Http, options: &Options, id: u64) -> Result<Legacy, RequestError> {
    let hello = json!({
        "protocolVersion": Version::V2025_11_25.as_str(),
        "capabilities": {},
        "clientInfo": options.client.to_json(),
    });
    let Value::Object(hello) = hello else {
        return Err(RequestError::Invalid("no greeting".to_owned()));
    };
    let answer = ask(http, options, Method::Initialize, id, HeaderMap::new(), hello).await?;
    let result: Value = serde_json::from_str(answer.outcome.map_err(RequestError::Rpc)?.as_str()).unwrap_or_default();

    let version = result["protocolVersion"].as_str().unwrap_or_default();
    let version = Version::parse(version)
        .filter(|version| version.generation() == Generation::Legacy)
        .ok_or_else(|| RequestError::Invalid(format!("it wants to speak revision {:?}", excerpt(version))))?;
    let legacy = Legacy {
        version,
        session: answer.session,
        tool_tasks: version.has_core_tasks()
            && result["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object(),
    };

    let initialized = Post {
        body: era::message(Method::Initialized, None, Map::new()),
        headers: legacy.headers(),
        timeout: Some(options.request_timeout),
    };
    http.send(initialized).await?;
    Ok(legacy)
}

async fn ask(
    http: &Http,
    options: &Options,
    method: Method,
    id: u64,
    headers: HeaderMap,
    params: Map<String, Value>,
) -> Result<Answer, RequestError> {
    let post = Post {
        body: era::message(method, Some(id), params),
        headers,
        timeout: Some(options.request_timeout),
    };
    let mut reply = http.send(post).await?;
    read_answer(&mut reply, id, &mut |_| {}).await
}
