//! Who did what to which task.

use super::{Frame, PageError, filters, render};
use crate::{
    audit_view::{AuditQuery, OUTCOMES, actions},
    context::AdminContext,
};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use longhaul_core::plain_line;
use longhaul_server::audit::AuditAction;
use serde_json::Value;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    query: AuditQuery,
    actions: [&'static str; AuditAction::ALL.len()],
    outcomes: [&'static str; 5],
    missing: u64,
    rows: Vec<AuditRow>,
}

struct AuditRow {
    /// As RFC 3339.
    time: String,
    action: String,
    outcome: String,
    principal: String,
    /// As the log has it.
    of_principal: String,
    task: String,
    /// The tool, the resource, the prompt or the method.
    what: String,
    from: String,
    detail: String,
}

impl AuditRow {
    fn of(line: &Value) -> Self {
        let text = |member: &str| plain_line(line[member].as_str().unwrap_or_default());
        let first_of = |members: &[&str]| {
            let mut found = members.iter().map(|member| text(member));
            found.find(|text| !text.is_empty()).unwrap_or_default()
        };
        let outcome = match line["code"].as_i64() {
            Some(code) => format!("{} ({code})", text("outcome")),
            None => text("outcome"),
        };
        let detail = match line["leftOut"].as_u64() {
            Some(left_out) => format!("{} ({left_out} more like this one)", text("detail")),
            None => text("detail"),
        };
        Self {
            time: text("time"),
            action: text("action"),
            outcome,
            principal: text("principal"),
            of_principal: line["principal"].as_str().unwrap_or_default().to_owned(),
            task: text("task"),
            what: first_of(&["tool", "resource", "prompt", "method"]),
            from: first_of(&["client", "address"]),
            detail,
        }
    }
}

pub(super) async fn show(State(context): State<Arc<AdminContext>>, Query(query): Query<AuditQuery>) -> Response {
    match context.audit_lines(&query) {
        Ok(found) => render(&AuditPage {
            frame: Frame::of(&context, "audit"),
            query,
            actions: actions(),
            outcomes: OUTCOMES,
            missing: found.missing,
            rows: found.lines.iter().map(AuditRow::of).collect(),
        }),
        Err(error) => PageError::from(error).show(&context, "/"),
    }
}
