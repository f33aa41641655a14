//! A question as a form on the terminal.

use crate::{
    ask::fields,
    output::{note, plain},
};
use inquire::{Confirm, InquireError, MultiSelect, Select, Text, list_option::ListOption, validator::Validation};
use longhaul_client::{FieldKind, Form, FormChoice, FormField, InputRequest, InputResponse};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::fmt;

/// What a form shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    message: String,
    url: Option<String>,
    /// Why the page must not be opened.
    page_problem: Option<String>,
    form: Form,
    /// Why its form cannot be filled in.
    invalid: Option<String>,
    can_stay_open: bool,
}

impl Question {
    /// What this program asks itself.
    pub(crate) fn of_form(message: &str, form: Form) -> Self {
        Self {
            message: message.to_owned(),
            url: None,
            page_problem: None,
            form,
            invalid: None,
            can_stay_open: false,
        }
    }
}

impl From<&InputRequest> for Question {
    fn from(request: &InputRequest) -> Self {
        Self {
            message: request.message().to_owned(),
            url: request.url().map(str::to_owned),
            page_problem: request.page_problem(),
            form: fields::form(request).cloned().unwrap_or_default(),
            invalid: fields::invalid_form(request),
            can_stay_open: can_stay_open(request),
        }
    }
}

/// What has become of a question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FormAnswer {
    /// The server is answered this: an [`InputResponse`].
    Given(Value),
    /// The user decides later.
    Later,
    /// The user has pressed Ctrl-C.
    Interrupted,
}

/// Why a form was not filled in.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FormError {
    /// The user has left it.
    Dismissed,
    /// The user has pressed Ctrl-C.
    Interrupted,
    /// There is no terminal.
    NoTerminal(String),
}

/// Asks the user, and returns what the server is answered.
pub(super) fn ask(question: &Question) -> FormAnswer {
    loop {
        let answered = match &question.url {
            Some(url) => agree_to_page(question, url),
            None => fill_in(question).map(InputResponse::accept),
        };
        let left = match answered {
            Ok(response) => return given(&response),
            Err(FormError::Dismissed) => left(question),
            Err(FormError::Interrupted) => return FormAnswer::Interrupted,
            Err(FormError::NoTerminal(why)) => {
                not_shown(&why);
                return FormAnswer::Later;
            }
        };
        if let Some(answer) = left {
            return answer;
        }
    }
}

fn given(response: &InputResponse) -> FormAnswer {
    FormAnswer::Given(response.as_value().clone())
}

pub(super) fn not_shown(why: &str) {
    note(&format!("longhaul: the question cannot be shown: {why}"));
}

/// Shows the whole URL before anything is opened: the server has chosen it.
fn agree_to_page(question: &Question, url: &str) -> Result<InputResponse, FormError> {
    if let Some(problem) = &question.page_problem {
        note(&format!("{}\n{problem}", plain(&question.message, "\n")));
        return match Confirm::new("Say no to it?").with_default(true).prompt()? {
            true => Ok(InputResponse::decline()),
            false => Err(FormError::Dismissed),
        };
    }
    note(&format!(
        "{}\nThe server asks you to open this page:\n  {}",
        plain(&question.message, "\n"),
        crate::output::url(url)
    ));
    Ok(match Confirm::new("Will you open it?").with_default(false).prompt()? {
        true => InputResponse::accept_url(),
        false => InputResponse::decline(),
    })
}

/// Whether the user has finished with the page that they were sent to.
pub(super) fn page_finished() -> Result<bool, FormError> {
    let question = Confirm::new("Have you finished on the page? Then the call is made again; no gives it up.");
    Ok(question.with_default(true).prompt()?)
}

/// What to do with a form that was left with Esc. `None` to show it again.
fn left(question: &Question) -> Option<FormAnswer> {
    const BACK: &str = "back to the form";
    const LATER: &str = "decide later: the question stays open";
    const NO: &str = "say no";
    const DISMISS: &str = "dismiss the question: the tool goes on without an answer";
    let mut ways = vec![BACK, NO, DISMISS];
    if question.can_stay_open {
        ways.insert(1, LATER);
    }
    match Select::new("You have left the form.", ways).prompt() {
        Ok(LATER) => Some(FormAnswer::Later),
        Ok(NO) => Some(given(&InputResponse::decline())),
        Ok(DISMISS) => Some(given(&InputResponse::cancel())),
        Ok(_) | Err(InquireError::OperationCanceled) => None,
        Err(_) => Some(FormAnswer::Interrupted),
    }
}

/// Whether the question can be answered later: that of a modern task. A call that asks before there is a task would be cancelled, and some legacy
/// servers ask only once.
fn can_stay_open(request: &InputRequest) -> bool {
    request.key.is_some() && request.task.is_some()
}

/// Asks for each field of the form.
pub(super) fn fill_in(question: &Question) -> Result<Map<String, Value>, FormError> {
    note(&plain(&question.message, "\n"));
    if let Some(invalid) = &question.invalid {
        note(&plain(invalid, ""));
        return Err(FormError::Dismissed);
    }
    if question.form.fields.is_empty() {
        return match Confirm::new("Do you agree?").prompt()? {
            true => Ok(Map::new()),
            false => Err(FormError::Dismissed),
        };
    }
    let mut content = Map::new();
    for field in &question.form.fields {
        if let Some(value) = FieldPrompt::of(field).ask()? {
            content.insert(field.name.clone(), value);
        }
    }
    Ok(content)
}

impl From<InquireError> for FormError {
    fn from(error: InquireError) -> Self {
        match error {
            InquireError::OperationCanceled => Self::Dismissed,
            InquireError::OperationInterrupted => Self::Interrupted,
            other => Self::NoTerminal(other.to_string()),
        }
    }
}

/// What can be chosen in a list: a value, or nothing in an optional field.
#[derive(Clone)]
struct ListItem {
    value: Option<Value>,
    title: String,
}

impl fmt::Display for ListItem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.title)
    }
}

impl From<&FormChoice> for ListItem {
    fn from(choice: &FormChoice) -> Self {
        Self {
            value: Some(choice.value.as_str().into()),
            title: plain(choice.label(), ""),
        }
    }
}

/// How to choose several values.
const SEVERAL: &str = "Space chooses, Enter ends, type to filter";

/// A field as it is asked for.
struct FieldPrompt<'a> {
    field: &'a FormField,
    title: String,
    help: Option<String>,
}

impl<'a> FieldPrompt<'a> {
    fn of(field: &'a FormField) -> Self {
        let about = field.description.as_deref().map(|text| plain(text, ""));
        let about = about.filter(|about| !about.is_empty());
        Self {
            field,
            title: plain(field.label(), ""),
            help: match (about, field.is_required) {
                (about, true) => about,
                (None, false) => Some("optional".to_owned()),
                (Some(about), false) => Some(format!("{about} (optional)")),
            },
        }
    }

    /// `None` if an optional field is left empty.
    fn ask(&self) -> Result<Option<Value>, FormError> {
        match &self.field.kind {
            FieldKind::Choices(choices) => self.ask_several(choices),
            FieldKind::Choice(choices) | FieldKind::NamedChoice(choices) => {
                self.choose(choices.iter().map(ListItem::from).collect())
            }
            FieldKind::Boolean if !self.field.is_required => {
                let item = |(value, title): (bool, &str)| ListItem {
                    value: Some(value.into()),
                    title: title.to_owned(),
                };
                self.choose([(true, "yes"), (false, "no")].map(item).into())
            }
            FieldKind::Boolean => {
                let title = format!("{} (y/n)", self.title);
                let mut confirm = Confirm::new(&title);
                confirm.help_message = self.help.as_deref();
                confirm.default = self.field.default.as_ref().and_then(Value::as_bool);
                Ok(Some(confirm.prompt()?.into()))
            }
            FieldKind::Text { .. } | FieldKind::Integer | FieldKind::Number => self.ask_line(),
        }
    }

    fn choose(&self, mut listed: Vec<ListItem>) -> Result<Option<Value>, FormError> {
        let default = &self.field.default;
        let start = listed
            .iter()
            .position(|item| default.is_some() && item.value == *default);
        if !self.field.is_required {
            listed.push(ListItem {
                value: None,
                title: "(leave it empty)".to_owned(),
            });
        }
        // Without a default an optional field is empty.
        let start = start.unwrap_or(if self.field.is_required { 0 } else { listed.len() - 1 });
        let mut select = Select::new(&self.title, listed).with_starting_cursor(start);
        select.help_message = self.help.as_deref().or(select.help_message);
        Ok(select.prompt()?.value)
    }

    /// An optional field with nothing chosen is empty.
    fn ask_several(&self, choices: &[FormChoice]) -> Result<Option<Value>, FormError> {
        let default = self.field.default.as_ref().and_then(Value::as_array);
        let is_suggested = |choice: &FormChoice| default.is_some_and(|all| all.iter().any(|one| *one == *choice.value));
        let chosen: Vec<usize> = (choices.iter().enumerate())
            .filter(|(_, choice)| is_suggested(choice))
            .map(|(index, _)| index)
            .collect();
        let listed = choices.iter().map(ListItem::from).collect();
        let mut select = MultiSelect::new(&self.title, listed).with_default(&chosen);
        // The user has to know it, whatever else is said.
        let help = self.help.as_ref().map(|help| format!("{help} ({SEVERAL})"));
        select.help_message = Some(help.as_deref().unwrap_or(SEVERAL));
        let field = self.field.clone();
        let values = |chosen: &[ListItem]| chosen.iter().filter_map(|item| item.value.clone()).collect::<Value>();
        let select = select.with_validator(move |chosen: &[ListOption<&ListItem>]| {
            let chosen: Vec<ListItem> = chosen.iter().map(|option| option.value.clone()).collect();
            Ok(match chosen.is_empty() && !field.is_required {
                true => Validation::Valid,
                false => validation(&field, &values(&chosen)),
            })
        });
        let chosen = select.prompt()?;
        Ok((self.field.is_required || !chosen.is_empty()).then(|| values(&chosen)))
    }

    /// A text or a number.
    fn ask_line(&self) -> Result<Option<Value>, FormError> {
        let field = self.field.clone();
        let may_be_empty = !field.is_required || field.min.as_ref().and_then(Number::as_u64) == Some(0);
        let mut text = Text::new(&self.title).with_validator(move |given: &str| {
            Ok(match given.is_empty() {
                true if may_be_empty => Validation::Valid,
                true => Validation::Invalid("an answer is required".into()),
                false => validation(&field, &value(&field, given)),
            })
        });
        let default = self.field.default.as_ref().map(fields::as_word);
        text.help_message = self.help.as_deref();
        text.default = default.as_deref();
        let given = text.prompt()?;
        Ok((self.field.is_required || !given.is_empty()).then(|| value(self.field, &given)))
    }
}

/// What was typed. A text that is no number does not fit a field that wants one.
fn value(field: &FormField, given: &str) -> Value {
    match field.kind {
        FieldKind::Text { .. } => given.into(),
        _ => (given.trim().parse::<Number>()).map_or_else(|_| given.into(), Value::Number),
    }
}

fn validation(field: &FormField, value: &Value) -> Validation {
    match field.problem(Some(value)) {
        Some(_) => Validation::Invalid(format!("it must be {}", field.expected()).into()),
        None => Validation::Valid,
    }
}
