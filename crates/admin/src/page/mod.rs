//! The pages. They work without a script, which only draws them anew when something has changed.

mod audit;
mod bulk;
mod call;
#[expect(unreachable_pub, reason = "`filter_fn` makes public types")]
mod filters;
pub(crate) mod login;
mod nodes;
mod principals;
mod question;
mod reset;
mod schedules;
mod task;
mod tasks;
mod tools;
mod upstreams;

use crate::{
    action::ActionError,
    api::framework_error::{is_other_error, read_error},
    audit::view::AuditReadError,
    context::AdminContext,
    view::details::ReadError,
};
use askama::Template;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderValue, StatusCode, header};
use longhaul_core::store::{GiveUpError, StoreError};
use longhaul_runtime::{CordonError, OperatorError};
use std::sync::Arc;

/// Nothing comes from outside, nothing is inline, and nobody frames it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What pages load: the path, its media type and the text.
const ASSETS: [(&str, &str, &str); 7] = [
    ("/assets/style.css", "text/css", include_str!("../../assets/style.css")),
    (
        "/assets/icon.svg",
        "image/svg+xml",
        include_str!("../../assets/icon.svg"),
    ),
    ("/assets/live.js", SCRIPT, include_str!("../../assets/live.js")),
    ("/assets/morph.js", SCRIPT, include_str!("../../assets/morph.js")),
    (
        "/assets/held_forms.js",
        SCRIPT,
        include_str!("../../assets/held_forms.js"),
    ),
    (
        "/assets/local_times.js",
        SCRIPT,
        include_str!("../../assets/local_times.js"),
    ),
    (
        "/assets/pointed_button.js",
        SCRIPT,
        include_str!("../../assets/pointed_button.js"),
    ),
];
const SCRIPT: &str = "text/javascript";

pub(crate) fn router(context: &Arc<AdminContext>) -> Router<Arc<AdminContext>> {
    let assets = ASSETS.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(async move || asset(kind, text)))
    });
    assets
        .route("/", get(tasks::show))
        .route("/tasks/{id}", get(task::show))
        .route("/tasks/{id}/log", get(task::log))
        .route("/tasks/{id}/answer", post(task::answer))
        .route("/tasks/{id}/reset", get(reset::show).post(reset::act))
        .route("/tasks/{id}/{action}", post(task::act))
        .route("/tools", get(tools::show))
        .route("/tools/{name}/call", get(call::show).post(call::act))
        .route("/tools/{name}/{action}", post(tools::act))
        .route("/audit", get(audit::show))
        .route("/schedules", get(schedules::show))
        .route("/schedules/{name}/{action}", post(schedules::act))
        .route("/upstreams", get(upstreams::show))
        .route("/upstreams/{name}/{action}", post(upstreams::act))
        .route("/nodes", get(nodes::show))
        .route("/nodes/{node}/{action}", post(nodes::act))
        .route("/nodes/drain", get(nodes::show_again).post(nodes::drain))
        .route("/principals", get(principals::show))
        .route("/bulk/{action}", get(bulk::show).post(bulk::act))
        .route("/login", get(login::show).post(login::log_in))
        .route("/logout", post(login::log_out))
        .fallback(async || StatusCode::NOT_FOUND)
        .layer(middleware::from_fn_with_state(Arc::clone(context), errors_as_pages))
}

/// Gives errors that no page has drawn, such as that of a parameter that cannot be read, a page.
async fn errors_as_pages(State(context): State<Arc<AdminContext>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if !is_other_error(&response, "text/html") {
        return response;
    }
    let (head, said) = read_error(response).await;
    let status = head.status;
    // What has failed to be read is of no use to who sees it.
    let said = match said.strip_prefix("Failed to deserialize ") {
        Some(said) => said.split_once(": ").map_or(said, |(_, why)| why),
        None => &*said,
    };
    let text = match (status, said.trim()) {
        (StatusCode::NOT_FOUND, "") => "There is no such page.".to_owned(),
        (StatusCode::METHOD_NOT_ALLOWED, "") => "There is no page here: it is the address of an action.".to_owned(),
        (_, "") => status.canonical_reason().unwrap_or("not done").to_owned(),
        (_, why) => format!("The request cannot be read: {why}."),
    };
    let mut page = PageError { status, text }.show(&context, "/");
    page.headers_mut().extend(head.headers);
    page
}

/// What every answer says to browsers.
pub(crate) async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut put = |name, value| headers.insert(name, HeaderValue::from_static(value));
    put(header::CONTENT_SECURITY_POLICY, POLICY);
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "same-origin");
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    // It changes with the program: asked for again each time, which costs nothing on this machine.
    (
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")],
        text,
    )
        .into_response()
}

/// What is around every page.
pub(crate) struct Frame {
    name: String,
    place: &'static str,
    /// Whether it is a gateway.
    has_upstreams: bool,
    has_schedules: bool,
    has_audit: bool,
    /// Whether the server only reads, so that no action is offered.
    reads_only: bool,
    /// [`Live::version`](crate::context::live::Live::version) before anything of the page was read.
    version: u64,
    /// Where the page is drawn anew from, empty if from its own address. Without it the page stays as it is: it is a result.
    source: Option<String>,
}

impl Frame {
    /// Made before anything of the page is read: then nothing that changes meanwhile is missed.
    fn of(context: &AdminContext, place: &'static str) -> Self {
        Self {
            name: context.name.clone(),
            place,
            has_schedules: context.engine.schedule_count() > 0,
            has_upstreams: context
                .upstreams
                .as_ref()
                .is_some_and(|upstreams| !upstreams.is_empty()),
            has_audit: context.has_audit_file,
            reads_only: context.reads_only.is_some(),
            version: context.live.version(),
            source: Some(String::new()),
        }
    }

    /// Of a page that stays as it is.
    fn of_result(context: &AdminContext, place: &'static str) -> Self {
        Self {
            source: None,
            ..Self::of(context, place)
        }
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
    back: &'a str,
    /// Whether a script shall try again.
    redraws: bool,
}

/// What a page cannot show or do.
pub(crate) struct PageError {
    status: StatusCode,
    text: String,
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        ReadError::from(error).into()
    }
}

impl From<ReadError> for PageError {
    fn from(error: ReadError) -> Self {
        let status = match &error {
            ReadError::Query(_) => StatusCode::BAD_REQUEST,
            ReadError::NotFound | ReadError::NotWhole(_) => StatusCode::NOT_FOUND,
            ReadError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let text = match error {
            ReadError::NotFound => "There is no such task. It may have been deleted.".to_owned(),
            error => error.to_string(),
        };
        Self { status, text }
    }
}

impl From<AuditReadError> for PageError {
    fn from(error: AuditReadError) -> Self {
        let status = match &error {
            AuditReadError::Query(_) => StatusCode::BAD_REQUEST,
            AuditReadError::None => StatusCode::NOT_FOUND,
            AuditReadError::Io(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            text: error.to_string(),
        }
    }
}

impl From<ActionError> for PageError {
    fn from(error: ActionError) -> Self {
        let status = match &error {
            ActionError::Invalid(_) | ActionError::DoesNotFit(_) | ActionError::Query(_) => StatusCode::BAD_REQUEST,
            ActionError::UnknownTool
            | ActionError::UnknownUpstream
            | ActionError::UnknownSchedule
            | ActionError::GiveUp(GiveUpError::UnknownNode)
            | ActionError::Cordon(CordonError::NotAlive)
            | ActionError::Refused(OperatorError::NotFound) => StatusCode::NOT_FOUND,
            ActionError::Refused(OperatorError::Store(_)) => StatusCode::SERVICE_UNAVAILABLE,
            ActionError::GiveUp(_) | ActionError::Cordon(_) | ActionError::ReadsOnly | ActionError::Refused(_) => {
                StatusCode::CONFLICT
            }
        };
        Self {
            status,
            text: error.to_string(),
        }
    }
}

impl PageError {
    /// In place of what was to be done.
    fn show(&self, context: &AdminContext, back: &str) -> Response {
        self.draw(context, back, false)
    }

    /// In place of a page, which is drawn once it can be.
    fn show_for_now(&self, context: &AdminContext) -> Response {
        self.draw(context, "/", self.status == StatusCode::SERVICE_UNAVAILABLE)
    }

    fn draw(&self, context: &AdminContext, back: &str, redraws: bool) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::SERVICE_UNAVAILABLE => "The store does not answer",
            _ => "Not done",
        };
        let frame = match redraws {
            true => Frame::of(context, ""),
            false => Frame::of_result(context, ""),
        };
        let page = MessagePage {
            frame,
            title,
            text: &self.text,
            back,
            redraws,
        };
        (self.status, render(&page)).into_response()
    }
}

/// The page at `address`, drawn anew if something has changed since it was drawn last; else what went wrong.
async fn shown(
    context: &AdminContext,
    address: String,
    draw: impl Future<Output = Result<String, PageError>>,
) -> Response {
    let clock = &context.engine.ports().clock;
    let page = context.drawn.page(&context.live, &**clock, address, draw).await;
    page.unwrap_or_else(|error| error.show_for_now(context))
}

/// A page as text. The templates are part of the program, so they can be drawn.
fn drawn(page: &impl Template) -> String {
    page.render().unwrap_or_else(|error| error.to_string())
}

fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::warn!(%error, "a page cannot be drawn");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
