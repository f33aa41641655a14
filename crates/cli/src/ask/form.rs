//! A question as a form on the terminal, made from its schema.

use crate::{
    fields::{Choice, choices, invalid_form},
    output::{note, plain},
};
use inquire::{Confirm, CustomType, InquireError, MultiSelect, Select, Text, validator::Validation};
use longhaul_client::{FormField, InputRequest, InputResponse};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fmt, str::FromStr};

/// What a form shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    message: String,
    url: Option<String>,
    /// Why the page must not be opened.
    page_problem: Option<String>,
    schema: Value,
    can_stay_open: bool,
}

impl Question {
    /// What this program asks itself.
    pub(crate) fn of_form(message: &str, schema: Value) -> Self {
        Self {
            message: message.to_owned(),
            url: None,
            page_problem: None,
            schema,
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
            schema: request.schema().cloned().unwrap_or_default(),
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
    if let Some(invalid) = invalid_form(&question.schema).filter(|_| !question.schema.is_null()) {
        note(&invalid);
        return Err(FormError::Dismissed);
    }
    let nothing = Map::new();
    let schema = &question.schema;
    let fields = schema["properties"].as_object().unwrap_or(&nothing);
    let required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|known| known == name))
    };
    if fields.is_empty() {
        return match Confirm::new("Do you agree?").prompt()? {
            true => Ok(Map::new()),
            false => Err(FormError::Dismissed),
        };
    }
    let mut content = Map::new();
    for (name, field) in fields {
        if let Some(value) = ask_field(name, field, required(name))? {
            content.insert(name.clone(), value);
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

/// What can be chosen in a list.
#[derive(Clone, PartialEq)]
enum ListItem {
    Choice(Choice),
    /// Of an optional field.
    Nothing,
}

impl fmt::Display for ListItem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Choice(choice) => &choice.title,
            Self::Nothing => "(leave it empty)",
        })
    }
}

/// `None` if an optional field is left empty.
fn ask_field(name: &str, field: &Value, required: bool) -> Result<Option<Value>, FormError> {
    let title = plain(field["title"].as_str().unwrap_or(name), "");
    let help = field["description"]
        .as_str()
        .map(|text| plain(text, ""))
        .unwrap_or_default();
    let help = match (help.is_empty(), required) {
        (true, true) => None,
        (true, false) => Some("optional".to_owned()),
        (false, true) => Some(help),
        (false, false) => Some(format!("{help} (optional)")),
    };
    let help = help.as_deref();
    let default = field.get("default");
    if field["type"] == "array" {
        return ask_several(&title, help, field, required, default);
    }
    let choices = match (choices(field), &field["type"]) {
        (choices, kind) if choices.is_empty() && kind == "boolean" && !required => yes_and_no(),
        (choices, _) => choices,
    };
    if !choices.is_empty() {
        return choose(&title, help, choices, required, default);
    }
    match field["type"].as_str() {
        Some("boolean") => {
            let title = format!("{title} (y/n)");
            let mut confirm = Confirm::new(&title);
            confirm.help_message = help;
            confirm.default = default.and_then(Value::as_bool);
            Ok(Some(confirm.prompt()?.into()))
        }
        Some("integer") => ask_number::<i64>(&title, help, field, required, default.and_then(Value::as_i64)),
        Some("number") => ask_number::<f64>(&title, help, field, required, default.and_then(Value::as_f64)),
        _ => ask_text(&title, help, field, required, default.and_then(Value::as_str)),
    }
}

fn yes_and_no() -> Vec<Choice> {
    [(true, "yes"), (false, "no")]
        .map(|(value, title)| Choice {
            value: value.into(),
            title: title.to_owned(),
        })
        .into()
}

fn choose(
    title: &str,
    help: Option<&str>,
    choices: Vec<Choice>,
    required: bool,
    default: Option<&Value>,
) -> Result<Option<Value>, FormError> {
    let start = choices.iter().position(|choice| Some(&choice.value) == default);
    let mut listed: Vec<ListItem> = choices.into_iter().map(ListItem::Choice).collect();
    if !required {
        listed.push(ListItem::Nothing);
    }
    // Without a default an optional field is empty.
    let start = start.unwrap_or(if required { 0 } else { listed.len() - 1 });
    let mut select = Select::new(title, listed).with_starting_cursor(start);
    select.help_message = help.or(select.help_message);
    Ok(match select.prompt()? {
        ListItem::Choice(choice) => Some(choice.value),
        ListItem::Nothing => None,
    })
}

/// How to choose several values.
const SEVERAL: &str = "Space chooses, Enter ends, type to filter";

/// An optional field with nothing chosen is empty.
fn ask_several(
    title: &str,
    help: Option<&str>,
    field: &Value,
    required: bool,
    default: Option<&Value>,
) -> Result<Option<Value>, FormError> {
    let choices = choices(&field["items"]);
    let chosen: Vec<usize> = (choices.iter().enumerate())
        .filter(|(_, choice)| {
            default
                .and_then(Value::as_array)
                .is_some_and(|all| all.contains(&choice.value))
        })
        .map(|(index, _)| index)
        .collect();
    let listed: Vec<ListItem> = choices.into_iter().map(ListItem::Choice).collect();
    let mut select = MultiSelect::new(title, listed).with_default(&chosen);
    // The user has to know it, whatever else is said.
    let help = help.map(|help| format!("{help} ({SEVERAL})"));
    select.help_message = Some(help.as_deref().unwrap_or(SEVERAL));
    let (least, most) = (
        field["minItems"].as_u64().unwrap_or(0),
        field["maxItems"].as_u64().unwrap_or(u64::MAX),
    );
    let select = select.with_validator(move |chosen: &[inquire::list_option::ListOption<&ListItem>]| {
        let count = chosen.len() as u64;
        Ok(match count {
            0 if !required => Validation::Valid,
            _ if count < least => Validation::Invalid(format!("choose at least {least}").into()),
            _ if count > most => Validation::Invalid(format!("choose at most {most}").into()),
            _ => Validation::Valid,
        })
    });
    let chosen: Vec<Value> = (select.prompt()?.into_iter())
        .filter_map(|listed| match listed {
            ListItem::Choice(choice) => Some(choice.value),
            ListItem::Nothing => None,
        })
        .collect();
    Ok((required || !chosen.is_empty()).then(|| chosen.into()))
}

/// A number, or nothing in an optional field.
#[derive(Clone)]
struct MaybeNumber<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for MaybeNumber<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |number| number.fmt(out))
    }
}

impl<T: FromStr> FromStr for MaybeNumber<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text.trim() {
            "" => Ok(Self(None)),
            number => number.parse().map(|number| Self(Some(number))),
        }
    }
}

fn ask_number<T>(
    title: &str,
    help: Option<&str>,
    field: &Value,
    required: bool,
    default: Option<T>,
) -> Result<Option<Value>, FormError>
where
    T: Clone + fmt::Display + FromStr + 'static,
    Value: From<T>,
{
    let (least, most) = (field["minimum"].as_f64(), field["maximum"].as_f64());
    let mut number = CustomType::<MaybeNumber<T>>::new(title).with_validator(move |given: &MaybeNumber<T>| {
        let given = given
            .0
            .clone()
            .map(|given| Value::from(given).as_f64().unwrap_or_default());
        Ok(match (given, least, most) {
            (None, ..) if required => Validation::Invalid("a number is required".into()),
            (Some(given), Some(least), _) if given < least => Validation::Invalid(format!("at least {least}").into()),
            (Some(given), _, Some(most)) if given > most => Validation::Invalid(format!("at most {most}").into()),
            _ => Validation::Valid,
        })
    });
    number.help_message = help;
    number.default = default.map(|default| MaybeNumber(Some(default)));
    number.error_message = "that is not such a number".to_owned();
    Ok(number.prompt()?.0.map(Value::from))
}

fn characters(count: u64) -> String {
    match count {
        1 => "1 character".to_owned(),
        _ => format!("{count} characters"),
    }
}

fn ask_text(
    title: &str,
    help: Option<&str>,
    field: &Value,
    required: bool,
    default: Option<&str>,
) -> Result<Option<Value>, FormError> {
    let (least, most) = (
        field["minLength"].as_u64().unwrap_or(u64::from(required)),
        field["maxLength"].as_u64(),
    );
    let format = field.clone();
    let mut text = Text::new(title).with_validator(move |given: &str| {
        let count = given.chars().count() as u64;
        Ok(match most {
            _ if count == 0 && !required => Validation::Valid,
            _ if count == 0 && least == 1 => Validation::Invalid("an answer is required".into()),
            _ if count < least => Validation::Invalid(format!("at least {}", characters(least)).into()),
            Some(most) if count > most => Validation::Invalid(format!("at most {}", characters(most)).into()),
            _ => match FormField::new(&format) {
                field if field.takes(&given.into()) => Validation::Valid,
                field => Validation::Invalid(format!("it must be {}", field.expected()).into()),
            },
        })
    });
    text.help_message = help;
    text.default = default;
    let given = text.prompt()?;
    Ok((required || !given.is_empty()).then(|| given.into()))
}
