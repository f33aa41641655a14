//! Tools whose calls are confirmed before they run.

use super::{Tool, call_text::defaults_of};
use longhaul_command::Template;
use longhaul_core::{ConfirmBy, TaskPolicy};
use longhaul_runtime::{ConfirmSettings, ToolSettings};
use longhaul_wire::Form;
use std::sync::Arc;

/// The longest template of a question, in bytes.
const LONGEST_QUESTION: usize = 1_000;

impl Tool {
    /// Has somebody confirm each call before it runs: asks `question`, in which `{name}` stands for an argument, after [`ask_before`](Self::ask_before)
    /// and once for all attempts. Each call is a task then, and waits without a slot. A client of the same principal answers, or an operator; if the answer is
    /// no, or none comes within the [`input_timeout`](Self::input_timeout), the task fails. What a caller wrote cannot be taken for a part of the question.
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Deploy {
    ///     tag: String,
    /// }
    /// let tool = longhaul::Tool::new("deploy", async |args: Deploy| args.tag).confirm("Deploy {tag} to production?");
    /// ```
    #[must_use]
    pub fn confirm(mut self, question: impl Into<String>) -> Self {
        self.confirm = Some(question.into());
        self
    }

    /// Who may [confirm](Self::confirm) a call: with [`ConfirmBy::Operator`] clients are not asked, and their answers are refused.
    ///
    /// ```
    /// use longhaul::{ConfirmBy, Tool};
    /// let tool = Tool::new("reset", async || "done").confirm("Reset the database?").confirm_by(ConfirmBy::Operator);
    /// ```
    #[must_use]
    pub fn confirm_by(mut self, who: ConfirmBy) -> Self {
        self.confirm_by = Some(who);
        self
    }
}

/// What is asked about a call. The policy of a tool with `confirm` is that of all its calls.
pub(super) fn settings<E>(
    text: Option<&str>,
    by: Option<ConfirmBy>,
    settings: &ToolSettings<E>,
    has_intake: bool,
) -> Result<Option<ConfirmSettings>, String> {
    let Some(text) = text else {
        return match by {
            Some(_) => Err("`confirm_by` says who confirms, and there is no `confirm`".to_owned()),
            None => Ok(None),
        };
    };
    if settings.policy == TaskPolicy::Never {
        return Err("`confirm` makes a task of each call, and its task policy is `Never`".to_owned());
    }
    if text.trim().is_empty() || text.len() > LONGEST_QUESTION {
        return Err(format!("`confirm` is a question of 1 to {LONGEST_QUESTION} bytes"));
    }
    let template = Template::parse(text).map_err(|error| format!("`confirm`: {error}"))?;
    let schema = &settings.input_schema;
    let is_unknown = |name: &&str| !has_intake && schema["properties"].get(*name).is_none();
    // What an intake returns may have other names than what it takes.
    if let Some(name) = template.properties().find(is_unknown) {
        return Err(format!("`confirm`: `{{{name}}}` is not one of the arguments"));
    }
    if let Some(name) = template.properties().find(|name| settings.secrets.contains(*name)) {
        return Err(format!(
            "`confirm`: `{name}` is secret, and who is asked would see it: name another argument"
        ));
    }
    let defaults = defaults_of(&template, schema);
    Ok(Some(ConfirmSettings {
        request: Arc::new(move |arguments| {
            let question = template.question_of(arguments.as_str(), &defaults);
            Form::default().request(&question).into()
        }),
        by: by.unwrap_or_default(),
    }))
}
