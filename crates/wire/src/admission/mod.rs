//! The checks a request must pass before its method sees it, in the order that docs/protocol-coverage.md gives.

pub(crate) mod era;

use crate::{
    jsonrpc::Request,
    meta::Meta,
    params::Params,
    protocol::{Method, RpcError, Version},
};
use era::{Era, LegacyPhase, MessageTransport, detect_era};
use longhaul_core::{Capability, ClientCapabilities};

/// The server's side of the checks in [`admit`].
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRules<F> {
    /// Refuse a missing `Mcp-Name` on `tasks/*` too.
    pub strict_headers: bool,
    /// The methods that are served, among those that exist in the message's generation.
    pub serves: F,
}

/// A request whose era, headers, method and capabilities have been checked. Its params have not.
#[derive(Debug, Clone, Copy)]
pub struct Admitted<'a> {
    /// Its era.
    pub era: Era<'a>,
    /// Its method, which exists in that era and is served.
    pub method: Method,
    /// Its params, not yet validated.
    pub params: &'a Params<'a>,
    /// Its `_meta`.
    pub meta: &'a Meta<'a>,
}

/// Checks a parsed request: `_meta`, version header, version, `Mcp-Method`, method, `Mcp-Name`, capabilities, in this order.
///
/// # Errors
/// The first check that fails: those of [`detect_era`], then −32601 (404 modern, 200 legacy), −32020/400, −32021/400.
pub fn admit<'a>(
    request: &'a Request<'_>,
    transport: &MessageTransport<'_>,
    rules: &AdmissionRules<impl Fn(Method) -> bool>,
) -> Result<Admitted<'a>, RpcError> {
    let params = request.params()?;
    let meta = params.meta()?;
    let era = detect_era(Some(&request.method), meta, transport)?;
    let method = Method::require(&request.method, era.generation())?;
    let unserved = match era {
        Era::Modern(_) => false,
        Era::Legacy(legacy) => method.is_about_legacy_tasks() && !has_legacy_tasks(legacy),
    };
    if unserved || !(rules.serves)(method) {
        return Err(RpcError::method_not_found(era.generation(), &request.method));
    }
    if let Era::Modern(modern) = era {
        if let MessageTransport::Http { headers, .. } = transport {
            headers.check_name(method, params, rules.strict_headers)?;
        }
        if method.needs_tasks_extension() && !reaches_tasks(method, &modern.capabilities) {
            return Err(RpcError::missing_capability(Capability::Tasks));
        }
    }
    Ok(Admitted {
        era,
        method,
        params,
        meta,
    })
}

/// Does the same as [`admit`] for a custom method of the server, one that MCP does not define.
///
/// # Errors
/// As [`detect_era`].
pub fn admit_custom<'a>(
    request: &'a Request<'_>,
    transport: &MessageTransport<'_>,
) -> Result<(Era<'a>, &'a Params<'a>, &'a Meta<'a>), RpcError> {
    let params = request.params()?;
    let meta = params.meta()?;
    let era = detect_era(Some(&request.method), meta, transport)?;
    Ok((era, params, meta))
}

/// A client that declares the legacy `tasks` instead may still read and cancel tasks it created as a legacy client. The
/// server knows which those are, and must answer −32021 for any other task.
fn reaches_tasks(method: Method, declared: &ClientCapabilities) -> bool {
    declared.tasks || declared.legacy_tasks && matches!(method, Method::TasksGet | Method::TasksCancel)
}

/// Whether the negotiated revision has tasks.
fn has_legacy_tasks(legacy: LegacyPhase) -> bool {
    legacy.version().is_some_and(Version::has_legacy_tasks)
}
