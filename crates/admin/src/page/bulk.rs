//! An action on all tasks of a list: a page that says how many there are and asks, and what has become of them.

use super::{Frame, PageError, filters, render};
use crate::{
    access::Actor,
    action::{AT_ONCE, BulkAction},
    context::AdminContext,
    query,
};
use askama::Template;
use axum::{
    Extension,
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use longhaul_admin_api::{BulkPreview, BulkReport, TaskQuery, to_url};
use std::sync::Arc;

/// Tasks that one press of a button is for.
const MOST: usize = 20 * AT_ONCE;

#[derive(Template)]
#[template(path = "bulk.html")]
struct BulkPage {
    frame: Frame,
    action: &'static BulkAction,
    /// What is acted on: the parts of the filter.
    filter: Vec<(&'static str, String)>,
    address: String,
    /// The list of the tasks.
    list: String,
    preview: Option<BulkPreview>,
    report: Option<BulkReport>,
}

impl BulkPage {
    fn of(context: &AdminContext, action: &'static BulkAction, query: &TaskQuery) -> Self {
        let list = TaskQuery {
            after: String::new(),
            ..query.clone()
        };
        Self {
            frame: Frame::of(context, "tasks"),
            action,
            filter: query::filter(query),
            address: format!("/bulk/{}?{}", action.name, to_url(query)),
            list: format!("/?{}", to_url(&list)),
            preview: None,
            report: None,
        }
    }

    /// Further tasks, after those that were acted on.
    fn further(&self, query: &TaskQuery) -> Option<String> {
        let after = self.report.as_ref()?.next.clone()?;
        let query = TaskQuery { after, ..query.clone() };
        Some(format!("/bulk/{}?{}", self.action.name, to_url(&query)))
    }
}

pub(super) async fn show(
    State(context): State<Arc<AdminContext>>,
    Path(name): Path<String>,
    Query(query): Query<TaskQuery>,
) -> Response {
    let Some(action) = BulkAction::named(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match context.preview(action, &query).await {
        Ok(preview) => render(&BulkPage {
            preview: Some(preview),
            ..BulkPage::of(&context, action, &query)
        }),
        Err(error) => PageError::from(error).show(&context, "/"),
    }
}

pub(super) async fn act(
    State(context): State<Arc<AdminContext>>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
    Query(query): Query<TaskQuery>,
) -> Response {
    let Some(action) = BulkAction::named(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut page = BulkPage::of(&context, action, &query);
    let mut part = query.clone();
    let mut report = BulkReport::default();
    loop {
        match context.act_on_all(&actor, action, &part).await {
            Ok(done) => report.add(done),
            Err(error) => {
                let error = PageError::from(error);
                let text = format!("{} tasks are done. Then: {}", report.done, error.text);
                return PageError { text, ..error }.show(&context, &page.list);
            }
        }
        match &report.next {
            Some(next) if report.done + report.refused < MOST => part.after.clone_from(next),
            _ => break,
        }
    }
    page.report = Some(report);
    page.frame = Frame::of_result(&context, "tasks");
    if let Some(further) = page.further(&query) {
        page.address = further;
    }
    render(&page)
}
