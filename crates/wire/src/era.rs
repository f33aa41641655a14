//! Which family of revisions a message belongs to (protocol.md 2.6): decided for each message alone (invariant 7).

use crate::{
    capabilities::ClientCapabilities,
    error::RpcError,
    header::Headers,
    meta::{self, Meta},
    method::Method,
    version::{Generation, Version},
};
use serde_json::value::RawValue;

/// What surrounds a message.
#[derive(Debug, Clone)]
pub enum Peer<'a> {
    /// One HTTP request.
    Http {
        /// Its MCP headers.
        headers: Headers<'a>,
        /// What its `Mcp-Session-Id` came to.
        session: Session,
        /// Whether a request without a session is served: as its version header says, or without one as [`Version::ASSUMED`].
        sessionless: bool,
    },
    /// A line of a byte stream.
    Stdio {
        /// The revision its handshake settled on, if there was one.
        initialized: Option<Version>,
    },
}

impl<'a> Peer<'a> {
    /// The MCP headers, where there are headers.
    pub fn headers(&self) -> Option<&Headers<'a>> {
        match self {
            Self::Http { headers, .. } => Some(headers),
            Self::Stdio { .. } => None,
        }
    }
}

/// What a session id came to. A modern message does not care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// There is none.
    None,
    /// It is ours and alive, and its handshake settled on this revision.
    Live(Version),
    /// It has ended, or was never ours.
    Gone,
}

/// The era of one message.
#[derive(Debug, Clone, Copy)]
pub enum Era<'a> {
    /// Up to 2025-11-25.
    Legacy(Legacy),
    /// From 2026-07-28.
    Modern(Modern<'a>),
}

/// Where a legacy message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legacy {
    /// It is the handshake.
    Handshake,
    /// It follows a handshake that settled on this revision.
    Session(Version),
    /// It names no handshake that it would follow, and speaks this revision.
    Sessionless(Version),
}

/// All that a modern request says about its sender.
#[derive(Debug, Clone, Copy)]
pub struct Modern<'a> {
    /// Its revision, which is served.
    pub version: Version,
    /// What its sender can do.
    pub capabilities: ClientCapabilities,
    /// What its sender calls itself; for display only.
    pub client_info: Option<&'a RawValue>,
}

impl Era<'_> {
    /// The family.
    pub fn generation(&self) -> Generation {
        match self {
            Self::Legacy(_) => Generation::Legacy,
            Self::Modern(_) => Generation::Modern,
        }
    }
}

impl Legacy {
    /// The revision spoken; `None` before the handshake has settled it.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Handshake => None,
            Self::Session(version) | Self::Sessionless(version) => Some(version),
        }
    }
}

/// Decides the era of a message: rules 1 to 5 of protocol.md 2.6, and for a modern one also that its `_meta`, its version and
/// its `Mcp-Method` are in order. `method` is the name as it came; `None` for a response.
///
/// # Errors
/// In this order, for modern messages: −32602/400 (`_meta`), −32020/400 (version header), −32022/400, −32020/400 (`Mcp-Method`).
/// For legacy ones: −32022/400 (unknown version header), HTTP 404 (session gone), −32020/400 (no session, where one is needed),
/// −32600/400 (stdio before the handshake).
pub fn decide<'a>(method: Option<&str>, meta: &Meta<'a>, peer: &Peer<'_>) -> Result<Era<'a>, RpcError> {
    match meta.protocol_version()? {
        Some(version) => modern(&version, method, meta, peer).map(Era::Modern),
        None => legacy(method, peer).map(Era::Legacy),
    }
}

fn modern<'a>(named: &str, method: Option<&str>, meta: &Meta<'a>, peer: &Peer<'_>) -> Result<Modern<'a>, RpcError> {
    let capabilities = meta
        .client_capabilities()?
        .ok_or_else(|| lacks(meta::CLIENT_CAPABILITIES))?;
    if let Peer::Http { headers, .. } = peer {
        headers.check_version(named)?;
    }
    let version = Version::parse(named)
        .filter(|version| version.generation() == Generation::Modern)
        .ok_or_else(|| RpcError::unsupported_version(named))?;
    if let (Peer::Http { headers, .. }, Some(method)) = (peer, method) {
        headers.check_method(method)?;
    }
    Ok(Modern {
        version,
        capabilities,
        client_info: meta.client_info(),
    })
}

fn legacy(method: Option<&str>, peer: &Peer<'_>) -> Result<Legacy, RpcError> {
    let handshake = method == Some(Method::Initialize.as_str());
    match peer {
        _ if handshake => Ok(Legacy::Handshake),
        Peer::Stdio {
            initialized: Some(version),
        } => Ok(Legacy::Session(*version)),
        Peer::Stdio { initialized: None } => Err(RpcError::invalid_request(format!(
            "Not initialized: send initialize first, or {} in params._meta",
            meta::PROTOCOL_VERSION
        ))),
        Peer::Http {
            headers,
            session,
            sessionless,
        } => legacy_http(headers, *session, *sessionless),
    }
}

fn legacy_http(headers: &Headers<'_>, session: Session, sessionless: bool) -> Result<Legacy, RpcError> {
    let named = named_version(headers)?;
    match session {
        Session::Live(version) => Ok(Legacy::Session(version)),
        Session::Gone => Err(RpcError::session_not_found()),
        // Many a client never sends its session id back (C-51).
        Session::None if sessionless => Ok(Legacy::Sessionless(named.unwrap_or(Version::ASSUMED))),
        Session::None => Err(RpcError::header_mismatch(
            "Header Mcp-Session-Id is missing: initialize first, or send MCP-Protocol-Version 2026-07-28 with its _meta",
        )),
    }
}

/// The legacy revision in the version header, if there is one (T-15).
fn named_version(headers: &Headers<'_>) -> Result<Option<Version>, RpcError> {
    let Some(header) = headers.protocol_version else {
        return Ok(None);
    };
    let named = String::from_utf8_lossy(header);
    match Version::parse(&named) {
        // A modern header over a body without `_meta`: the suite wants to hear of the body.
        Some(version) if version.generation() == Generation::Modern => Err(lacks(meta::PROTOCOL_VERSION)),
        None => Err(RpcError::unsupported_version(&named)),
        legacy => Ok(legacy),
    }
}

fn lacks(key: &str) -> RpcError {
    RpcError::malformed_meta(format!("_meta lacks {key}"))
}
