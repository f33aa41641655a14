//! Detecting the era of a server: send a modern request first, then try the legacy handshake.

use crate::{
    EraChoice, Options, RequestError, RpcFailure, ServerDescription,
    connect::{
        era::{self, Era, LegacySession},
        response::{IncomingMessage, RpcResponse, ServerRequest, read_message, result_type},
    },
    error::excerpt,
    offer::era_cache::CachedEra,
    options::params_text::object_of,
    transport::{Outgoing, Transport},
};
use http::HeaderMap;
use longhaul_core::{Json, JsonMembers, MISSING_CAPABILITY, ParsedJson};
use longhaul_wire::{Generation, Method, Version};
use serde_json::{Map, Value};
use std::time::Duration;

/// Error codes that only modern servers have: header mismatch, missing capability, unsupported version.
pub(crate) const MODERN_CODES: [i32; 3] = [-32020, MISSING_CAPABILITY, UNSUPPORTED_VERSION];
const UNSUPPORTED_VERSION: i32 = -32022;

/// How long a server on a pipe may take to answer the modern request.
const SILENCE: Duration = Duration::from_secs(5);
/// How long one over HTTP may. A modern one that takes longer to start refuses the handshake, and is asked again.
const SILENCE_OVER_HTTP: Duration = Duration::from_secs(10);

/// What the modern request showed.
enum Finding {
    /// The server refuses the version that it supports. Servers may change while they are asked, so they are asked once more.
    Again,
    Modern(ServerDescription),
    /// The server is a legacy server or not an MCP server. The text describes its response.
    NotModern(String),
}

/// Finds out the server's era, from the cache or by asking. A legacy server is initialized on the way.
pub(crate) async fn probe(
    transport: &dyn Transport,
    options: &Options,
    ids: &(dyn Fn() -> u64 + Sync),
) -> Result<Era, RequestError> {
    let (cache, address) = (&options.era_cache, transport.address());
    if transport.is_session() {
        // A child that leaves the modern request unanswered costs some seconds: once, and not each child.
        let is_legacy = options.era == EraChoice::Auto && cache.is_legacy(address);
        if is_legacy {
            match initialize(transport, options, ids).await {
                Ok(legacy) => return Ok(Era::Legacy(legacy)),
                Err(error) => tracing::debug!(%error, "the server refuses the handshake that it took before"),
            }
            cache.forget(address, Generation::Legacy);
        }
        // Some servers exit at one of the two first requests alone, so a child that exits is started for each. Every second time, one is started to see whether it still
        // exits.
        if options.era == EraChoice::Auto && cache.take_exits(address) {
            match initialize(transport, options, ids).await {
                Err(error) if has_exited(&error) => return Err(error),
                _ => transport.close(HeaderMap::new()).await,
            }
        }
        let began = options.clock.monotonic();
        let era = match detect(transport, options, ids).await {
            Err(error) if has_exited(&error) && options.era == EraChoice::Auto => {
                cache.insert(address, CachedEra::Exits, false, began);
                return Err(error);
            }
            era => era?,
        };
        if options.era == EraChoice::Auto && era.legacy().is_some() {
            let now = options.clock.monotonic();
            cache.insert(address, CachedEra::Legacy, now.saturating_sub(began) >= SILENCE, now);
        }
        return Ok(era);
    }
    match cache.get(address, options.clock.monotonic()) {
        Some(CachedEra::Modern(server)) if matches!(options.era, EraChoice::Auto | EraChoice::Modern) => {
            return Ok(Era::Modern(*server));
        }
        Some(CachedEra::Legacy) if options.era == EraChoice::Auto => match initialize(transport, options, ids).await {
            Ok(legacy) => return Ok(Era::Legacy(legacy)),
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => cache.forget(address, Generation::Legacy),
        },
        _ => {}
    }
    let era = detect(transport, options, ids).await?;
    let cached = match &era {
        Era::Modern(server) => CachedEra::Modern(Box::new(server.clone())),
        Era::Legacy(_) => CachedEra::Legacy,
    };
    // A server that speaks both eras must not be taken for one that only has the wanted one.
    if options.era == EraChoice::Auto {
        cache.insert(address, cached, false, options.clock.monotonic());
    }
    Ok(era)
}

/// Whether a child process has ended instead of answering.
fn has_exited(error: &RequestError) -> bool {
    matches!(error, RequestError::Unreachable { .. })
}

/// Asks the server for its era.
async fn detect(
    transport: &dyn Transport,
    options: &Options,
    ids: &(dyn Fn() -> u64 + Sync),
) -> Result<Era, RequestError> {
    if options.era == EraChoice::Legacy {
        let error = match initialize(transport, options, ids).await {
            Ok(legacy) => return Ok(Era::Legacy(legacy)),
            Err(error) => error,
        };
        return initialize_otherwise(transport, options, ids, error)
            .await
            .map(Era::Legacy);
    }
    if options.era == EraChoice::PreferLegacy {
        match initialize(transport, options, ids).await {
            Ok(legacy) => return Ok(Era::Legacy(legacy)),
            Err(error) if error.is_transient() && !transport.is_session() => return Err(error),
            Err(error) => tracing::debug!(%error, "the server refuses the handshake; trying a modern request"),
        }
    }
    // Some servers of 2025 fail at methods that they do not know, before they look at anything else. One that says how long to wait means it.
    // Others do not answer, or close the connection.
    let mut refused = None;
    let mut finding = match discover(transport, options, ids()).await {
        Err(error)
            if options.era != EraChoice::Modern
                && (is_silence(&error)
                    || (options.tokens.is_none() || is_server_error(&error))
                        && is_status(&error)
                        && error.retry_after().is_none()) =>
        {
            let finding = Finding::NotModern(describe(&error));
            refused = Some(error);
            finding
        }
        finding => finding?,
    };
    if matches!(finding, Finding::Again) {
        finding = discover(transport, options, ids()).await?;
    }
    let response = match finding {
        Finding::Again => "that it does not support the version that it supports".to_owned(),
        Finding::Modern(server) => return Ok(Era::Modern(server)),
        Finding::NotModern(response) if options.era == EraChoice::Modern => {
            return Err(RequestError::HandshakeFailed(format!(
                "to a modern client it answers: {response}"
            )));
        }
        Finding::NotModern(response) => response,
    };
    tracing::debug!(response, "not a modern server; trying the handshake");
    let error = match initialize(transport, options, ids).await {
        Ok(legacy) => return Ok(Era::Legacy(legacy)),
        Err(error) => error,
    };
    // The server started slowly, and reads the modern request by now.
    let was_silent = refused.as_ref().is_some_and(is_silence) && !error.is_transient();
    if (is_modern(&error) || was_silent)
        && let Finding::Modern(server) = discover(transport, options, ids()).await?
    {
        return Ok(Era::Modern(server));
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    let error = match initialize_otherwise(transport, options, ids, error).await {
        Ok(legacy) => return Ok(Era::Legacy(legacy)),
        Err(error) => error,
    };
    // A refusal that has nothing to do with the handshake is the same error as that of any other request.
    let is_general = error.is_refusal() && !matches!(error, RequestError::Rpc(_));
    let is_explained = matches!(
        error,
        RequestError::HandshakeFailed(_) | RequestError::UnknownRevision { .. }
    );
    if error.is_transient() || is_general || is_explained {
        return Err(error);
    }
    let legacy = describe(&error);
    Err(RequestError::HandshakeFailed(match legacy == response {
        true => format!("it answers clients of every revision with {response}"),
        false => format!("to a modern client it answers: {response}; to a legacy client: {legacy}"),
    }))
}

/// Makes the handshake over the transport of 2024-11-05, after `error`.
async fn initialize_otherwise(
    transport: &dyn Transport,
    options: &Options,
    ids: &(dyn Fn() -> u64 + Sync),
    error: RequestError,
) -> Result<LegacySession, RequestError> {
    let is_refusal = match &error {
        RequestError::Http { status, .. } => is_client_error(*status),
        RequestError::Rpc(_) | RequestError::Invalid(_) => true,
        // The stream that was the session has ended.
        error => error.is_transient() && transport.is_session(),
    };
    if !is_refusal || !transport.fall_back().await? {
        return Err(error);
    }
    initialize(transport, options, ids).await
}

/// Whether only a modern server refuses a handshake like this.
fn is_modern(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(failure) if MODERN_CODES.contains(&failure.code))
}

async fn discover(transport: &dyn Transport, options: &Options, id: u64) -> Result<Finding, RequestError> {
    let mut meta = JsonMembers::new();
    era::add_modern_meta(&mut meta, options, true);
    let headers = era::modern_headers(Method::Discover.as_str(), &Map::new());
    let params = JsonMembers::from([("_meta".to_owned(), object_of(&meta))]);
    match send(transport, options, Method::Discover, id, headers, &params).await {
        Ok(RpcResponse {
            outcome: Ok(result), ..
        }) => match result_type::check(Method::Discover.as_str(), &result) {
            Ok(()) => interpret_result(result.as_str()),
            Err(error) => Ok(Finding::NotModern(describe(&error))),
        },
        Ok(RpcResponse {
            outcome: Err(failure), ..
        }) => interpret_failure(failure),
        Err(error @ RequestError::Http { status, .. }) if is_client_error(status) => {
            Ok(Finding::NotModern(describe(&error)))
        }
        Err(error @ RequestError::Invalid(_)) => Ok(Finding::NotModern(describe(&error))),
        // A legacy server may ignore the request, or exit.
        Err(error @ (RequestError::Unreachable { .. } | RequestError::TimedOut { .. }))
            if transport.is_session() && options.era != EraChoice::Modern =>
        {
            Ok(Finding::NotModern(describe(&error)))
        }
        Err(error) => Err(error),
    }
}

/// Whether a server that was reached has not answered.
fn is_silence(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::TimedOut { .. } | RequestError::Unreachable { connected: true, .. }
    )
}

/// Whether an HTTP server has refused the request by its status.
fn is_status(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::Unauthorized { .. } | RequestError::Unavailable { .. } | RequestError::Http { .. }
    )
}

/// Whether an HTTP server says that it has failed itself.
fn is_server_error(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::Unavailable { status: 500..=599, .. } | RequestError::Http { status: 500..=599, .. }
    )
}

/// Whether the status says that the request is wrong, rather than unauthorized, untimely or too large.
fn is_client_error(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 408 | 413 | 429)
}

fn interpret_result(result: &str) -> Result<Finding, RequestError> {
    let result = ParsedJson::of(result);
    let versions = version_list(&result["supportedVersions"]);
    if versions.contains(&Version::V2026_07_28) {
        return Ok(Finding::Modern(ServerDescription::read(Version::V2026_07_28, &result)));
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
        let supported = version_list(&data["supported"]);
        if supported.contains(&Version::V2026_07_28) {
            return Ok(Finding::Again);
        }
        let legacy = |version: &Version| version.generation() == Generation::Legacy;
        if !supported.iter().any(legacy) {
            return Err(RequestError::UnsupportedRevisions {
                supported: excerpt(&data["supported"].to_string()).into_owned(),
            });
        }
    } else if MODERN_CODES.contains(&failure.code) {
        // The server refused the request, but with a modern error.
        return Ok(Finding::Modern(ServerDescription::read(
            Version::V2026_07_28,
            &ParsedJson::default(),
        )));
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
        RequestError::Invalid(reason) | RequestError::Unreachable { reason, .. } => reason.clone(),
        RequestError::TimedOut { .. } => "nothing in time".to_owned(),
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

/// Makes the legacy handshake.
async fn initialize(
    transport: &dyn Transport,
    options: &Options,
    ids: &(dyn Fn() -> u64 + Sync),
) -> Result<LegacySession, RequestError> {
    let params = [
        ("protocolVersion", Value::from(Version::V2025_11_25.as_str()).into()),
        ("capabilities", options.declared_to_legacy()),
        ("clientInfo", options.client.as_json().clone()),
    ];
    let params = params.map(|(name, value)| (name.to_owned(), value)).into();
    let response = send(transport, options, Method::Initialize, ids(), HeaderMap::new(), &params).await?;
    let result = ParsedJson::from(response.outcome.map_err(RequestError::Rpc)?);

    let version = result["protocolVersion"].as_str().unwrap_or_default();
    let version = Version::parse(version)
        .filter(|version| version.generation() == Generation::Legacy)
        .ok_or_else(|| RequestError::UnknownRevision {
            revision: excerpt(version).into_owned(),
        })?;
    let legacy = LegacySession {
        version,
        session: response.session,
        is_resumed: false,
        tool_tasks: version.has_legacy_tasks()
            && result["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object(),
        server: ServerDescription::read(version, &result),
    };

    let initialized = Outgoing {
        body: era::build_message(Method::Initialized.as_str(), None, Map::new()),
        id: None,
        headers: legacy.headers(),
        timeout: Some(options.request_timeout),
    };
    transport.send(initialized).await?;
    if let Some(logging) = &options.logging
        && legacy.server.capabilities["logging"].is_object()
    {
        let level = Value::from(logging.level().as_str());
        let params = JsonMembers::from([("level".to_owned(), level.into())]);
        let headers = legacy.headers();
        if let Err(error) = send(transport, options, Method::LoggingSetLevel, ids(), headers, &params).await {
            tracing::warn!(%error, "the log level could not be set");
        }
    }
    Ok(legacy)
}

async fn send(
    transport: &dyn Transport,
    options: &Options,
    method: Method,
    id: u64,
    headers: HeaderMap,
    params: &JsonMembers,
) -> Result<RpcResponse, RequestError> {
    let timeout = match method {
        // Silence means that it is a legacy server.
        Method::Discover if transport.is_session() => options.request_timeout.min(SILENCE),
        Method::Discover if options.era != EraChoice::Modern => options.request_timeout.min(SILENCE_OVER_HTTP),
        _ => options.request_timeout,
    };
    let request = Outgoing {
        body: era::build_written(method.as_str(), Some(id), Map::new(), params, &JsonMembers::new()),
        id: Some(id),
        headers,
        timeout: Some(timeout),
    };
    let mut reply = transport.send(request).await?;
    loop {
        match read_message(&mut reply, id, &mut |_| {}).await? {
            IncomingMessage::Response(response) => return Ok(response),
            IncomingMessage::Request(asked) => answer_early(transport, options, &asked).await,
        }
    }
}

/// Answers a request that the server makes before the session has begun. It may only be a ping (Lifecycle, "Initialization"); any other gets an error, so that the
/// server does not wait for it.
async fn answer_early(transport: &dyn Transport, options: &Options, asked: &ServerRequest) {
    let too_early = || RpcFailure {
        code: -32600,
        message: format!("{} may not be asked before the client is initialized", asked.method).into(),
        data: None,
    };
    let answer = match asked.method == Method::Ping.as_str() {
        true => Ok(Json::trusted("{}")),
        false => Err(asked.malformed.clone().unwrap_or_else(too_early)),
    };
    let response = Outgoing {
        body: asked.respond(answer),
        id: None,
        headers: HeaderMap::new(),
        timeout: Some(options.request_timeout),
    };
    if let Err(error) = transport.send(response).await {
        tracing::debug!(%error, "a request of the server before its session was not answered");
    }
}
