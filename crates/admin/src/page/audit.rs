//! Who did what to which task.

use super::{Frame, PageError, filters, render};
use crate::{
    audit::view::{OUTCOMES, actions},
    context::AdminContext,
};
use askama::Template;
use axum::{
    extract::{Query, State},
    response::Response,
};
use longhaul_admin_api::{AuditLine, AuditQuery};
use longhaul_core::plain_line;
use longhaul_server::audit::AuditAction;
use serde::Deserialize as _;
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
        // A line that something else has written has nothing to show.
        let line = AuditLine::deserialize(line).unwrap_or_default();
        let mut detail = plain_line(&line.detail);
        if line.left_out > 0 {
            detail.push_str(&format!(" ({} more like this one)", line.left_out));
        }
        Self {
            outcome: plain_line(&line.outcome_in_words()),
            what: plain_line(line.about()),
            from: plain_line(line.from()),
            time: plain_line(&line.time),
            action: plain_line(&line.action),
            principal: plain_line(&line.principal),
            of_principal: line.principal,
            task: plain_line(&line.task),
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
