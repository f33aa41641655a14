//! Which generation of the protocol a message belongs to. It is detected for each message alone.

use crate::{
    http::Headers,
    meta::{self, Meta},
    protocol::{Generation, Method, RpcError, Version},
};
use longhaul_core::ClientCapabilities;
use serde_json::value::RawValue;

/// How a message was received.
#[derive(Debug, Clone)]
pub enum MessageTransport<'a> {
    /// One HTTP request.
    Http {
        /// Its MCP headers.
        headers: Headers<'a>,
        /// The state of the session in its `Mcp-Session-Id`.
        session: SessionState,
        /// Whether a request without a session is served, at the revision of its version header or at [`Version::ASSUMED`].
        sessionless: bool,
    },
    /// A line of a byte stream.
    Stdio {
        /// The revision negotiated by the handshake, if there was one.
        initialized: Option<Version>,
    },
}

impl<'a> MessageTransport<'a> {
    /// The MCP headers; `None` over stdio.
    pub fn headers(&self) -> Option<&Headers<'a>> {
        match self {
            Self::Http { headers, .. } => Some(headers),
            Self::Stdio { .. } => None,
        }
    }
}

/// The state of the session a request names. Modern requests ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The request names no session.
    None,
    /// The session is live and negotiated this revision.
    Live(Version),
    /// The session has ended or never existed.
    Gone,
}

/// The era of one message.
#[derive(Debug, Clone, Copy)]
pub enum Era<'a> {
    /// Up to 2025-11-25.
    Legacy(LegacyPhase),
    /// From 2026-07-28.
    Modern(ModernClient<'a>),
}

/// Where a legacy message stands in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyPhase {
    /// It is the handshake.
    Handshake,
    /// It belongs to a session that negotiated this revision.
    Session(Version),
    /// It names no session and is served at this revision.
    Sessionless(Version),
}

/// What a modern request says about its sender.
#[derive(Debug, Clone, Copy)]
pub struct ModernClient<'a> {
    /// The revision, one that is served.
    pub version: Version,
    /// What the client declares.
    pub capabilities: ClientCapabilities,
    /// The client's `clientInfo`, for display only.
    pub client_info: Option<&'a RawValue>,
}

impl Era<'_> {
    /// The generation.
    pub fn generation(&self) -> Generation {
        match self {
            Self::Legacy(_) => Generation::Legacy,
            Self::Modern(_) => Generation::Modern,
        }
    }
}

impl LegacyPhase {
    /// The revision; `None` before it has been negotiated.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Handshake => None,
            Self::Session(version) | Self::Sessionless(version) => Some(version),
        }
    }
}

/// Detects the era of a message. For a modern message it also checks `_meta`, the version and `Mcp-Method`. `method` is the name
/// as received; `None` for a response.
///
/// # Errors
/// In this order, for modern messages: −32602/400 (`_meta`), −32020/400 (version header), −32022/400, −32020/400 (`Mcp-Method`).
/// For legacy ones: −32022/400 (unknown version header), HTTP 404 (session gone), −32020/400 (no session, where one is needed),
/// −32600/400 (stdio before the handshake).
pub fn detect_era<'a>(
    method: Option<&str>,
    meta: &Meta<'a>,
    transport: &MessageTransport<'_>,
) -> Result<Era<'a>, RpcError> {
    match meta.protocol_version()? {
        Some(version) => modern(&version, method, meta, transport).map(Era::Modern),
        None => legacy(method, transport).map(Era::Legacy),
    }
}

fn modern<'a>(
    named: &str,
    method: Option<&str>,
    meta: &Meta<'a>,
    transport: &MessageTransport<'_>,
) -> Result<ModernClient<'a>, RpcError> {
    let capabilities = meta
        .client_capabilities()?
        .ok_or_else(|| lacks(meta::CLIENT_CAPABILITIES))?;
    if let MessageTransport::Http { headers, .. } = transport {
        headers.check_version(named, method)?;
    }
    let version = Version::parse(named)
        .filter(|version| version.generation() == Generation::Modern)
        .ok_or_else(|| RpcError::unsupported_version(named))?;
    if let (MessageTransport::Http { headers, .. }, Some(method)) = (transport, method) {
        headers.check_method(method)?;
    }
    Ok(ModernClient {
        version,
        capabilities,
        client_info: meta.client_info(),
    })
}

fn legacy(method: Option<&str>, transport: &MessageTransport<'_>) -> Result<LegacyPhase, RpcError> {
    let handshake = method == Some(Method::Initialize.as_str());
    match transport {
        _ if handshake => Ok(LegacyPhase::Handshake),
        MessageTransport::Stdio {
            initialized: Some(version),
        } => Ok(LegacyPhase::Session(*version)),
        // Lifecycle, "Initialization".
        MessageTransport::Stdio { initialized: None } if method == Some(Method::Ping.as_str()) => {
            Ok(LegacyPhase::Sessionless(Version::ASSUMED))
        }
        MessageTransport::Stdio { initialized: None } => Err(RpcError::invalid_request(format!(
            "Not initialized: send initialize first, or {} in params._meta",
            meta::PROTOCOL_VERSION
        ))),
        MessageTransport::Http {
            headers,
            session,
            sessionless,
        } => legacy_http(headers, *session, *sessionless),
    }
}

fn legacy_http(headers: &Headers<'_>, session: SessionState, sessionless: bool) -> Result<LegacyPhase, RpcError> {
    let named = named_version(headers)?;
    match session {
        SessionState::Live(version) => Ok(LegacyPhase::Session(version)),
        SessionState::Gone => Err(RpcError::session_not_found()),
        // Many clients never send their session id back.
        SessionState::None if sessionless => Ok(LegacyPhase::Sessionless(named.unwrap_or(Version::ASSUMED))),
        SessionState::None => Err(RpcError::header_mismatch(
            "Header Mcp-Session-Id is missing: initialize first, or send MCP-Protocol-Version 2026-07-28 with its _meta",
        )),
    }
}

/// The legacy revision in the version header, if any.
fn named_version(headers: &Headers<'_>) -> Result<Option<Version>, RpcError> {
    let Some(header) = headers.protocol_version else {
        return Ok(None);
    };
    let named = String::from_utf8_lossy(header);
    match Version::parse(&named) {
        // A modern header over a body without `_meta`: the conformance suite expects the error about the body.
        Some(version) if version.generation() == Generation::Modern => Err(lacks(meta::PROTOCOL_VERSION)),
        None => Err(RpcError::unsupported_version(&named)),
        legacy => Ok(legacy),
    }
}

fn lacks(key: &str) -> RpcError {
    RpcError::malformed_meta(format!("_meta lacks {key}"))
}
