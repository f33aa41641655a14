//! Logging in with the key, for browsers of other users and behind proxies.

use super::{Frame, render};
use crate::{
    admission::{WRONG_KEY, audit_denial},
    context::AdminContext,
    listener::ConnectedPeer,
};
use askama::Template;
use axum::{
    Form,
    extract::{ConnectInfo, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    is_wrong: bool,
}

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
}

fn page(context: &AdminContext, is_wrong: bool) -> Response {
    let frame = Frame::of_result(context, "");
    render(&LoginPage { frame, is_wrong })
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>) -> Response {
    page(&context, false)
}

pub(super) async fn log_in(
    State(context): State<Arc<AdminContext>>,
    ConnectInfo(ConnectedPeer(peer)): ConnectInfo<ConnectedPeer>,
    Form(Key { key }): Form<Key>,
) -> Response {
    let admin_key = &context.access.admin_key;
    let (true, Some(digest)) = (admin_key.admits(key.trim()), admin_key.digest()) else {
        audit_denial(&context, &peer, WRONG_KEY);
        return (StatusCode::UNAUTHORIZED, page(&context, true)).into_response();
    };
    let entropy = &context.engine.ports().entropy;
    let cookie = context.logins.begin(&**entropy, context.now(), digest);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

pub(super) async fn log_out(State(context): State<Arc<AdminContext>>, headers: HeaderMap) -> Redirect {
    context.logins.end(&headers);
    Redirect::to("/login")
}
