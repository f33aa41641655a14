//! Whether a request may be looked at by the method it names: the whole order of protocol.md 2.6, in one place.

use crate::{
    capabilities::ClientCapabilities,
    envelope::Request,
    era::{self, Era, Legacy, Peer},
    error::{Capability, RpcError},
    meta::Meta,
    method::Method,
    params::Params,
    version::Version,
};

/// What the server brings to the decision.
#[derive(Debug, Clone, Copy)]
pub struct Rules<F> {
    /// Refuse a missing `Mcp-Name` on `tasks/*` too.
    pub strict_headers: bool,
    /// The methods that are served, among those that exist in the message's generation.
    pub serves: F,
}

/// A request whose era, headers, method and capabilities are in order. What remains are the params themselves.
#[derive(Debug, Clone, Copy)]
pub struct Admitted<'a> {
    /// Its era.
    pub era: Era<'a>,
    /// Its method, which exists in that era and is served.
    pub method: Method,
    /// Its params, not yet judged.
    pub params: Params<'a>,
    /// Its `_meta`.
    pub meta: Meta<'a>,
}

/// Admits a request: JSON (done) → `_meta` → version header → version → `Mcp-Method` → method → `Mcp-Name` → capability gate.
///
/// # Errors
/// The first that fails: as [`era::decide`], then −32601 (404 modern, 200 legacy), −32020/400, −32021/400.
pub fn admit<'a>(
    request: &Request<'a>,
    peer: &Peer<'_>,
    rules: &Rules<impl Fn(Method) -> bool>,
) -> Result<Admitted<'a>, RpcError> {
    let params = Params::read(request.params)?;
    let meta = params.meta()?;
    let era = era::decide(Some(&request.method), &meta, peer)?;
    let method = Method::require(&request.method, era.generation())?;
    let unserved = match era {
        Era::Modern(_) => false,
        Era::Legacy(legacy) => method.is_core_task() && !has_core_tasks(legacy),
    };
    if unserved || !(rules.serves)(method) {
        return Err(RpcError::method_not_found(era.generation(), &request.method));
    }
    if let Era::Modern(modern) = era {
        if let Peer::Http { headers, .. } = peer {
            headers.check_name(method, &params, rules.strict_headers)?;
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

/// As [`admit`], for a request of a method that is none of the protocol's and that the server has found to be its own.
///
/// # Errors
/// As [`era::decide`].
pub fn admit_custom<'a>(request: &Request<'a>, peer: &Peer<'_>) -> Result<(Era<'a>, Params<'a>, Meta<'a>), RpcError> {
    let params = Params::read(request.params)?;
    let meta = params.meta()?;
    let era = era::decide(Some(&request.method), &meta, peer)?;
    Ok((era, params, meta))
}

/// A client that declares the legacy `tasks` instead may still read and cancel tasks it created as a legacy client (C-12). Which
/// those are the server knows; every other one it must answer with −32021 all the same.
fn reaches_tasks(method: Method, declared: &ClientCapabilities) -> bool {
    declared.tasks || declared.legacy_tasks && matches!(method, Method::TasksGet | Method::TasksCancel)
}

/// Whether tasks were part of what the two sides settled on (L-04).
fn has_core_tasks(legacy: Legacy) -> bool {
    legacy.version().is_some_and(Version::has_core_tasks)
}
