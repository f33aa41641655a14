//! Logging in with the key, for browsers of other users and behind proxies.

use super::{Frame, render};
use crate::{
    access::ConnectedPeer,
    audit::denied_requests::{WRONG_KEY, audit_denial},
    context::AdminContext,
};
use askama::Template;
use axum::{
    Form,
    extract::{ConnectInfo, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    problem: Option<&'static str>,
    /// The page that is shown then.
    to: String,
}

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
    #[serde(default)]
    to: String,
}

#[derive(Deserialize)]
pub(super) struct LoginQuery {
    #[serde(default)]
    to: String,
}

fn page(context: &AdminContext, problem: Option<&'static str>, to: &str) -> Response {
    let frame = Frame::of_result(context, "");
    let to = own_page(to).to_owned();
    render(&LoginPage { frame, problem, to })
}

/// A page of this server, whatever was asked for.
fn own_page(asked: &str) -> &str {
    let is_path = asked.starts_with('/') && !asked.starts_with("//");
    let is_plain = asked.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_path && is_plain { asked } else { "/" }
}

/// The address of the login before this page is shown.
pub(crate) fn before(page: &str) -> String {
    format!("/login?to={}", utf8_percent_encode(page, NON_ALPHANUMERIC))
}

/// What is answered to a form that is sent without a session.
pub(crate) fn instead_of_an_action(context: &AdminContext) -> Response {
    let why = "Nothing was done: you are not logged in, or not any more. Log in, and do it again.";
    (StatusCode::UNAUTHORIZED, page(context, Some(why), "/")).into_response()
}

pub(super) async fn show(
    State(context): State<Arc<AdminContext>>,
    Query(LoginQuery { to }): Query<LoginQuery>,
) -> Response {
    page(&context, None, &to)
}

pub(super) async fn log_in(
    State(context): State<Arc<AdminContext>>,
    ConnectInfo(ConnectedPeer(peer)): ConnectInfo<ConnectedPeer>,
    Form(Key { key, to }): Form<Key>,
) -> Response {
    let admin_key = &context.access.admin_key;
    let (true, Some(digest)) = (admin_key.admits(key.trim()), admin_key.digest()) else {
        audit_denial(&context, &peer, WRONG_KEY);
        return (
            StatusCode::UNAUTHORIZED,
            page(&context, Some("That is not the key."), &to),
        )
            .into_response();
    };
    let entropy = &context.engine.ports().entropy;
    let cookie = context.logins.begin(&**entropy, context.now(), digest);
    ([(header::SET_COOKIE, cookie)], Redirect::to(own_page(&to))).into_response()
}

pub(super) async fn log_out(State(context): State<Arc<AdminContext>>, headers: HeaderMap) -> Redirect {
    context.logins.end(&headers);
    Redirect::to("/login")
}
