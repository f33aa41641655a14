//! Which requests are served.
//!
//! Each request is checked before anything else of it is read: its `Host`, its `Origin`, then its sender.

use crate::{
    access::{Access, Actor, ConnectedPeer, cookie, is_of_own_user},
    audit::denied_requests::{WRONG_KEY, audit_denial},
    context::AdminContext,
    page::login,
};
use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use longhaul_auth::same_user::is_forwarded;
use longhaul_server::{
    auth::{Peer, RequestHead},
    http::is_local_request,
};
use std::sync::Arc;

/// Lets a request through, or answers it.
pub(crate) async fn check(
    State(context): State<Arc<AdminContext>>,
    ConnectInfo(ConnectedPeer(peer)): ConnectInfo<ConnectedPeer>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if ["/healthz", "/readyz"].contains(&path) {
        return next.run(request).await;
    }
    if let Err(why) = check_origin(&context.access, &peer, &request) {
        audit_denial(&context, &peer, why.trim_end());
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let is_open = path.starts_with("/assets/") || path == "/login";
    // Who checks one of them must not be followed by somebody who checks another.
    let is_ambiguous = request.headers().get_all(header::AUTHORIZATION).iter().count() > 1;
    let known = operator(&context, &peer, request.headers(), request.uri()).filter(|_| !is_ambiguous);
    let may_read = path == "/metrics" && !is_ambiguous && reads_metrics(&context.access, &request);
    match known {
        Some(by) => {
            let address = peer.address().map(|address| address.ip());
            request.extensions_mut().insert(Actor { by, address });
            let changes = ![Method::GET, Method::HEAD].contains(request.method());
            let answered = next.run(request);
            match changes {
                // What is done is recorded whether or not the operator waits for the answer.
                true => context.engine.ports().run_to_completion(answered).await,
                false => answered.await,
            }
        }
        None if is_open || may_read => next.run(request).await,
        None => {
            // A browser that has no session yet has done nothing wrong.
            if request.headers().contains_key(header::AUTHORIZATION) || request.method() != Method::GET {
                audit_denial(&context, &peer, WRONG_KEY);
            }
            refused(&context, &request)
        }
    }
}

/// By what an operator is known.
fn operator(context: &AdminContext, peer: &Peer, headers: &HeaderMap, uri: &Uri) -> Option<&'static str> {
    let access = &context.access;
    let head = RequestHead { headers, uri, peer };
    if let Some(key) = head.bearer_token() {
        return access.admin_key.admits(key).then_some("the admin key");
    }
    if context.logins.knows(headers, context.now(), &access.admin_key) {
        return Some("the admin key, in a browser");
    }
    let is_local = match peer {
        Peer::Tcp { local, .. } => access.same_user && is_local_request(headers, uri, local.port()),
        _ => true,
    };
    let is_direct = !headers.contains_key(header::AUTHORIZATION) && !is_forwarded(headers);
    (is_of_own_user(peer) && is_local && is_direct).then_some("the server's user")
}

fn reads_metrics(access: &Access, request: &Request) -> bool {
    let Some(key) = &access.metrics_key else { return true };
    let peer = Peer::default();
    let head = RequestHead {
        headers: request.headers(),
        uri: request.uri(),
        peer: &peer,
    };
    head.bearer_token().is_some_and(|shown| key.admits(shown))
}

/// Whether a request names this server, and no page of another origin has sent it. Browsers name the page's origin in whatever may change something.
fn check_origin(access: &Access, peer: &Peer, request: &Request) -> Result<(), &'static str> {
    const HOST: &str = "Host is not a name of this server: use its address, or set allowed_hosts in [admin]\n";
    const ORIGIN: &str = "a web page of another origin has sent this request\n";
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).ok_or(HOST)?;
    let is_allowed = access.allowed_hosts.iter().any(|allowed| allowed.matches(host));
    let is_local = match peer {
        Peer::Tcp { local, .. } => {
            names_this_machine(host) || host == local.to_string() || host == local.ip().to_string()
        }
        _ => true,
    };
    if !is_local && !is_allowed {
        return Err(HOST);
    }
    match text(header::ORIGIN) {
        Some(origin) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority
                .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
                .then_some(())
                .ok_or(ORIGIN)
        }
        // Every browser sends it with what is not GET or HEAD.
        None => {
            let is_read = [Method::GET, Method::HEAD].contains(request.method());
            let is_of_browser = cookie(headers).is_some() || headers.contains_key("sec-fetch-site");
            let is_foreign = text(header::HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
            let is_navigation = text(header::HeaderName::from_static("sec-fetch-mode")) == Some("navigate");
            let is_allowed = match is_read {
                true => !is_foreign || is_navigation,
                false => !is_of_browser,
            };
            is_allowed.then_some(()).ok_or(ORIGIN)
        }
    }
}

fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

fn refused(context: &AdminContext, request: &Request) -> Response {
    let accepts = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let is_page = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_page && !request.uri().path().starts_with("/api/") {
        let asked = request.uri().path_and_query().map_or("/", |asked| asked.as_str());
        return match *request.method() {
            Method::GET => Redirect::to(&login::before(asked)).into_response(),
            _ => login::instead_of_an_action(context),
        };
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let why =
        "{\"error\":{\"kind\":\"unauthorized\",\"message\":\"this needs the admin key: Authorization: Bearer KEY\"}}\n";
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::UNAUTHORIZED, challenge, json, why).into_response()
}
