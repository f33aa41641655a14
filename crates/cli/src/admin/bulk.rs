//! An action on all tasks that a filter finds: says how many there are, and asks first.

use super::{
    api::Api,
    show::{list, text},
    shown,
};
use crate::{args::SomeTasks, failure::Failure, output, result::Exit};
use inquire::{Confirm, InquireError};
use longhaul_admin::TaskQuery;
use serde_json::{Value, json};
use std::io::{self, IsTerminal};

/// Refusals that are printed.
const PRINTED: usize = 20;

pub(super) async fn run(some: &SomeTasks, action: &str) -> Result<Exit, Failure> {
    let api = Api::of(&some.of)?;
    let mut query = some.filter.query();
    let found = api.get(&address(action, &query)).await?;
    let (tasks, or_more) = (found["tasks"].as_u64().unwrap_or_default(), found["orMore"] == true);
    let count = match (tasks, or_more) {
        (1, false) => "1 task".to_owned(),
        (tasks, false) => format!("{tasks} tasks"),
        (tasks, true) => format!("more than {tasks} tasks"),
    };
    if tasks == 0 && !or_more {
        some.filter.explain_principal();
        if let Some(hint) = found["hint"].as_str() {
            output::note(hint);
        }
    } else if !some.yes && !agreed(&format!("{action} {count}?"))? {
        output::note("nothing was changed");
        return Ok(Exit::Cancelled);
    }
    let (mut done, mut refused, mut refusals) = (0, 0, Vec::new());
    loop {
        let part = api.post(&address(action, &query), None).await;
        let part = part.inspect_err(|_| output::note(&format!("{done} tasks are done; then:")))?;
        done += part["done"].as_u64().unwrap_or_default();
        refused += part["refused"].as_u64().unwrap_or_default();
        refusals.extend(list(&part, "refusals").iter().cloned());
        refusals.truncate(PRINTED);
        match part["next"].as_str() {
            Some(next) => next.clone_into(&mut query.after),
            None => break,
        }
        output::note(&format!("{done} of {count}"));
    }
    let report = json!({"done": done, "refused": refused, "refusals": refusals});
    shown(&some.of, &report, |_| {
        let mut lines = vec![format!("{action}: {done} done, {refused} not")];
        let why = |refusal: &Value| format!("{}: {}", text(refusal, "task"), text(refusal, "message"));
        lines.extend(refusals.iter().map(why));
        lines.join("\n")
    })?;
    Ok(match refused {
        0 => Exit::Answered,
        _ => Exit::ToolError,
    })
}

fn address(action: &str, query: &TaskQuery) -> String {
    format!("/api/bulk/{action}?{}", query.to_url())
}

fn agreed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} Nothing was changed: --yes does it without asking"
        )));
    }
    match Confirm::new(question).with_default(false).prompt() {
        Ok(agreed) => Ok(agreed),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => Ok(false),
        Err(error) => Err(Failure::usage(error)),
    }
}
