//! A question as a form on the terminal, made from its schema.

use super::format::format_problem;
use crate::output::{note, plain};
use inquire::{Confirm, CustomType, InquireError, MultiSelect, Select, Text, validator::Validation};
use longhaul_client::{InputRequest, InputResponse};
use serde_json::{Map, Value};
use std::fmt;

/// What has become of a question.
pub(crate) enum Answer {
    /// The server is answered this.
    Given(InputResponse),
    /// The user decides later.
    Later,
    /// The user has pressed Ctrl-C.
    Interrupted,
}

/// Why a form was not filled in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormError {
    /// The user has left it.
    Dismissed,
    /// The user has pressed Ctrl-C.
    Interrupted,
    /// There is no terminal.
    NoTerminal(String),
}

/// Asks the user, and returns what the server is answered.
pub(crate) fn ask(request: &InputRequest) -> Answer {
    if let Some(url) = request.url() {
        return ask_for_page(request, url);
    }
    match fill_in(request) {
        Ok(content) => Answer::Given(InputResponse::accept(content)),
        Err(FormError::Dismissed) => left(),
        Err(FormError::Interrupted) => Answer::Interrupted,
        Err(FormError::NoTerminal(why)) => {
            note(&format!("longhaul: the question cannot be shown: {why}"));
            Answer::Later
        }
    }
}

/// Shows the whole URL before anything is opened: the server has chosen it.
fn ask_for_page(request: &InputRequest, url: &str) -> Answer {
    note(&format!(
        "{}\nThe server asks you to open this page:\n  {}",
        plain(request.message(), "\n"),
        plain(url, "")
    ));
    match Confirm::new("Will you open it?").with_default(false).prompt() {
        Ok(true) => Answer::Given(InputResponse::accept_url()),
        Ok(false) => Answer::Given(InputResponse::decline()),
        Err(InquireError::OperationInterrupted) => Answer::Interrupted,
        Err(_) => Answer::Later,
    }
}

/// What to do with a form that was left with Esc.
fn left() -> Answer {
    const LATER: &str = "decide later: the question stays open";
    const NO: &str = "say no";
    const DISMISS: &str = "dismiss the question: the tool goes on without an answer";
    match Select::new("You have left the form.", vec![LATER, NO, DISMISS]).prompt() {
        Ok(NO) => Answer::Given(InputResponse::decline()),
        Ok(DISMISS) => Answer::Given(InputResponse::cancel()),
        Ok(_) | Err(InquireError::OperationCanceled) => Answer::Later,
        Err(_) => Answer::Interrupted,
    }
}

/// Asks for each field of the form.
pub(crate) fn fill_in(request: &InputRequest) -> Result<Map<String, Value>, FormError> {
    note(&plain(request.message(), "\n"));
    let nothing = Map::new();
    let schema = request.schema().unwrap_or(&Value::Null);
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

/// A value that can be chosen, and how it is shown.
#[derive(Clone, PartialEq)]
struct Choice {
    value: Value,
    title: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.title)
    }
}

/// The values of `enum` with `enumNames`, or those of `oneOf` and `anyOf` with titles.
fn choices(schema: &Value) -> Vec<Choice> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        let title = |index: usize, value: &Value| {
            schema["enumNames"][index]
                .as_str()
                .map_or_else(|| shown(value), str::to_owned)
        };
        return (values.iter().enumerate())
            .map(|(index, value)| Choice {
                value: value.clone(),
                title: plain(&title(index, value), ""),
            })
            .collect();
    }
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    (listed.into_iter().flatten())
        .filter_map(|choice| {
            let value = choice.get("const")?.clone();
            let title = choice["title"].as_str().map_or_else(|| shown(&value), str::to_owned);
            Some(Choice {
                value,
                title: plain(&title, ""),
            })
        })
        .collect()
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
        return ask_several(&title, help, field, default).map(Some);
    }
    let choices = choices(field);
    if !choices.is_empty() {
        let start = choices
            .iter()
            .position(|choice| Some(&choice.value) == default)
            .unwrap_or_default();
        let mut select = Select::new(&title, choices).with_starting_cursor(start);
        select.help_message = help.or(select.help_message);
        return match required {
            true => Ok(Some(select.prompt()?.value)),
            false => Ok(select.prompt_skippable()?.map(|choice| choice.value)),
        };
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

fn ask_several(title: &str, help: Option<&str>, field: &Value, default: Option<&Value>) -> Result<Value, FormError> {
    let choices = choices(&field["items"]);
    let chosen: Vec<usize> = (choices.iter().enumerate())
        .filter(|(_, choice)| {
            default
                .and_then(Value::as_array)
                .is_some_and(|all| all.contains(&choice.value))
        })
        .map(|(index, _)| index)
        .collect();
    let mut select = MultiSelect::new(title, choices).with_default(&chosen);
    select.help_message = help.or(select.help_message);
    let (least, most) = (
        field["minItems"].as_u64().unwrap_or(0),
        field["maxItems"].as_u64().unwrap_or(u64::MAX),
    );
    let select = select.with_validator(move |chosen: &[inquire::list_option::ListOption<&Choice>]| {
        let count = chosen.len() as u64;
        Ok(match count {
            _ if count < least => Validation::Invalid(format!("choose at least {least}").into()),
            _ if count > most => Validation::Invalid(format!("choose at most {most}").into()),
            _ => Validation::Valid,
        })
    });
    Ok(select.prompt()?.into_iter().map(|choice| choice.value).collect())
}

fn ask_number<T>(
    title: &str,
    help: Option<&str>,
    field: &Value,
    required: bool,
    default: Option<T>,
) -> Result<Option<Value>, FormError>
where
    T: Clone + fmt::Display + std::str::FromStr + Into<Value> + PartialOrd + Into<Value> + 'static,
    Value: From<T>,
{
    let (least, most) = (field["minimum"].as_f64(), field["maximum"].as_f64());
    let mut number = CustomType::<T>::new(title).with_validator(move |given: &T| {
        let given = Value::from(given.clone()).as_f64().unwrap_or_default();
        Ok(match (least, most) {
            (Some(least), _) if given < least => Validation::Invalid(format!("at least {least}").into()),
            (_, Some(most)) if given > most => Validation::Invalid(format!("at most {most}").into()),
            _ => Validation::Valid,
        })
    });
    number.help_message = help;
    number.default = default;
    number.error_message = "that is not such a number".to_owned();
    match required {
        true => Ok(Some(number.prompt()?.into())),
        false => Ok(number.prompt_skippable()?.map(Value::from)),
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
            _ if count < least => Validation::Invalid(format!("at least {least} characters").into()),
            Some(most) if count > most => Validation::Invalid(format!("at most {most} characters").into()),
            _ => match format_problem(&format, given) {
                Some(problem) => Validation::Invalid(problem.into()),
                None => Validation::Valid,
            },
        })
    });
    text.help_message = help;
    text.default = default;
    let given = text.prompt()?;
    Ok((required || !given.is_empty()).then(|| given.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn choices_have_the_titles_of_the_schema() {
        let titles = |schema: Value| choices(&schema).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(titles(json!({"enum": ["a", 2]})), ["a", "2"]);
        assert_eq!(titles(json!({"enum": ["a", "b"], "enumNames": ["A"]})), ["A", "b"]);
        let titled = json!({"oneOf": [{"const": "a", "title": "An a\u{1b}[2J"}, {"const": "b"}]});
        assert_eq!(titles(titled.clone()), ["An a [2J", "b"]);
        assert_eq!(choices(&titled)[0].value, "a");
        assert_eq!(titles(json!({"type": "string"})), [""; 0]);
    }
}
