//! What has to be confirmed before it runs.

use super::template::{Rules, TemplateUse};
use crate::config::section::{Entry, Section};
use longhaul_core::{ConfirmBy, TaskPolicy};

/// The longest question, in bytes, without the values in it.
const LONGEST: usize = 1_000;

/// The question whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfirmConfig {
    /// The template of its text.
    pub(crate) question: String,
    /// Who may answer it.
    pub(crate) by: ConfirmBy,
}

/// `None` after a problem.
pub(super) fn read(
    section: &Section<'_>,
    rules: &Rules<'_>,
    task: Option<TaskPolicy>,
) -> Option<Option<ConfirmConfig>> {
    let question = section.optional("confirm", |entry| {
        if task == Some(TaskPolicy::Never) {
            entry.report(
                "`confirm` makes each call a task that waits for the answer, and task = \"never\" makes none: leave one of them out"
                    .to_owned(),
            );
        }
        if let Some(task_entry) = section.get("task")
            && matches!(task, Some(TaskPolicy::Optional | TaskPolicy::After(_)))
        {
            task_entry.warn("`task` changes nothing here, since `confirm` makes each call a task: leave it out".to_owned());
        }
        read_question(entry, rules)
    });
    let by = section.optional("confirm_by", |entry| {
        if !section.has("confirm") {
            entry.report("`confirm_by` says who answers the question of `confirm`, which is missing".to_owned());
        }
        entry.choice(&[ConfirmBy::Client, ConfirmBy::Operator].map(|by| (by.as_str(), by)))
    });
    let by = by?.unwrap_or_default();
    Some(question?.map(|question| ConfirmConfig { question, by }))
}

fn read_question(entry: &Entry<'_>, rules: &Rules<'_>) -> Option<String> {
    let text = entry.filled_text()?;
    if text.len() > LONGEST {
        entry.report(format!(
            "`confirm` has {} bytes, and a question has at most {LONGEST}: say the rest in `description`",
            text.len()
        ));
        return None;
    }
    rules.check(entry, text, TemplateUse::Question).then(|| text.to_owned())
}
