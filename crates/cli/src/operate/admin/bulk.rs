//! An action on all tasks that a filter finds: says how many there are, and asks first.

use super::{
    api::{Answer, Api},
    confirmed,
};
use crate::{
    args::SomeTasks,
    exit::{failure::Failure, result::Exit},
    output,
};
use longhaul_admin_api::{BulkPreview, BulkRefusal, BulkReport, TaskQuery, to_url};
use serde_json::json;
use std::io::{self, IsTerminal};

pub(super) async fn run(some: &SomeTasks, action: &str) -> Result<Exit, Failure> {
    let api = Api::of(&some.of)?;
    let mut query = some.filter.query();
    let found: Answer<BulkPreview> = api.get(&address(action, &query)).await?;
    let BulkPreview { tasks, or_more, hint } = found.read;
    let count = match (tasks, or_more) {
        (1, false) => "1 task".to_owned(),
        (tasks, false) => format!("{tasks} tasks"),
        (tasks, true) => format!("more than {tasks} tasks"),
    };
    if tasks == 0 && !or_more {
        some.filter.explain_principal();
        if let Some(hint) = hint {
            output::note(&hint);
        }
    } else if !some.yes && !agreed(&format!("{action} {count}?"))? {
        output::note("nothing was changed");
        return Ok(Exit::Cancelled);
    }
    let mut report = BulkReport::default();
    loop {
        let part: Result<Answer<BulkReport>, Failure> = api.post(&address(action, &query)).await;
        let part = part.inspect_err(|_| output::note(&format!("{} tasks are done; then:", report.done)))?;
        report.add(part.read);
        match report.next.take() {
            Some(next) => query.after = next,
            None => break,
        }
        output::note(&format!("{} of {count}", report.done));
    }
    match some.of.json {
        true => output::json_line(&json!(report)),
        false => {
            let why = |refusal: &BulkRefusal| format!("\n{}: {}", refusal.task, refusal.message);
            let refusals: String = report.refusals.iter().map(why).collect();
            output::text(&format!(
                "{action}: {} done, {} not{refusals}",
                report.done, report.refused
            ));
        }
    }
    Ok(match report.refused {
        0 => Exit::Answered,
        _ => Exit::ToolError,
    })
}

fn address(action: &str, query: &TaskQuery) -> String {
    format!("/api/bulk/{action}?{}", to_url(query))
}

fn agreed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} Nothing was changed: --yes does it without asking"
        )));
    }
    confirmed(question)
}
