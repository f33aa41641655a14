//! Reading a form, which anybody may have written.

use super::{FieldKind, Form, FormChoice, FormField, TextFormat};
use crate::json::{ObjectError, object};
use longhaul_core::shorten;
use longhaul_json_schema::{Schema, SchemaAuthor, SchemaError};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value, json, value::RawValue};

/// The largest form that is read, in bytes.
const MOST_BYTES: usize = 256 * 1024;
/// The most fields of a form.
const MOST_FIELDS: usize = 100;
/// The most choices of a field.
const MOST_CHOICES: usize = 1_000;
/// The most patterns of a form, each of which may take some memory.
const MOST_PATTERNS: usize = 16;
/// The longest name or keyword that an error shows, in bytes.
const SHOWN: usize = 80;

/// Keywords that say something about a value, and change nothing for which values fit. `x-…` does neither.
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// A form that MCP does not allow, or that is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the form is invalid: {}{problem}", .field.as_ref().map(|name| format!("`{}`: ", shorten(name, SHOWN))).unwrap_or_default())]
pub struct InvalidForm {
    /// The field that is wrong; `None` for the whole.
    pub field: Option<String>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl InvalidForm {
    fn whole(problem: impl Into<String>) -> Self {
        Self {
            field: None,
            problem: problem.into(),
        }
    }
}

impl Form {
    /// Reads the form of an elicitation with these params; `None` without a schema, as some servers ask for an approval.
    pub fn of_params(params: &str) -> Option<Result<Self, InvalidForm>> {
        let schema = object::find(params, &["requestedSchema"])?;
        (schema.get() != "null").then(|| Self::parse(schema.get()))
    }

    /// Reads a form from its schema. Besides what MCP allows it may have annotations, formats that nobody checks, and values that may be
    /// `null`, as SDKs write fields that may be left out; of these nothing is kept.
    ///
    /// # Errors
    /// [`InvalidForm`] names the field and the reason.
    pub fn parse(schema: &str) -> Result<Self, InvalidForm> {
        if schema.len() > MOST_BYTES {
            let size = schema.len();
            return Err(InvalidForm::whole(format!(
                "it has {size} bytes, and at most {MOST_BYTES} are read"
            )));
        }
        let (mut form, mut required, mut wrong) = (Self::default(), Vec::new(), None);
        let read = object::for_each_member(schema, |keyword, value| {
            let read = match keyword {
                "type" => is_object(value),
                "properties" => fields(value).map(|fields| form.fields = fields),
                "required" => names(value).map(|names| required = names),
                "additionalProperties" => flag(value).map(|takes_others| form.is_closed = !takes_others),
                "$schema" | "$id" => Ok(()),
                keyword if is_annotation(keyword) => Ok(()),
                keyword => Err(InvalidForm::whole(unknown(keyword))),
            };
            if let Err(error) = read {
                wrong.get_or_insert(error);
            }
        });
        read.map_err(|error| {
            InvalidForm::whole(match error {
                ObjectError::NotAnObject => "its schema must be that of an object".to_owned(),
                ObjectError::Syntax(error) => format!("its schema is not JSON: {error}"),
                ObjectError::Duplicate(member) => format!("its schema has `{member}` twice"),
            })
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for name in required {
            let field = form.fields.iter_mut().find(|field| field.name == name);
            let field = field.ok_or_else(|| InvalidForm {
                field: Some(name),
                problem: "it is required, and the form has no such field".to_owned(),
            })?;
            field.is_required = true;
        }
        Ok(form)
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Self::parse(schema.get()).map_err(de::Error::custom)
    }
}

fn is_object(value: &RawValue) -> Result<(), InvalidForm> {
    match value.get() {
        r#""object""# => Ok(()),
        other => Err(InvalidForm::whole(format!(
            "its schema must be that of an object, and its type is {}",
            shorten(other, SHOWN)
        ))),
    }
}

fn names(value: &RawValue) -> Result<Vec<String>, InvalidForm> {
    serde_json::from_str(value.get())
        .map_err(|_| InvalidForm::whole("`required` must be a list of the names of fields"))
}

fn flag(value: &RawValue) -> Result<bool, InvalidForm> {
    serde_json::from_str(value.get()).map_err(|_| InvalidForm::whole("`additionalProperties` must be true or false"))
}

fn fields(properties: &RawValue) -> Result<Vec<FormField>, InvalidForm> {
    let mut fields: Result<Vec<FormField>, InvalidForm> = Ok(Vec::new());
    let mut patterns = 0;
    let read = object::for_each_member(properties.get(), |name, schema| {
        let Ok(known) = &mut fields else { return };
        let read = match known.len() < MOST_FIELDS {
            true => serde_json::from_str(schema.get()).map_err(|error| format!("its schema cannot be read: {error}")),
            false => Err(format!("the form has more than {MOST_FIELDS} fields")),
        };
        let field = read.and_then(|schema: Value| FormField::parse(name, &schema));
        let field = field.and_then(|field| {
            patterns += usize::from(matches!(field.kind, FieldKind::Text { pattern: Some(_), .. }));
            if known.iter().any(|other| other.name == name) {
                return Err("the form has it twice".to_owned());
            }
            if patterns > MOST_PATTERNS {
                return Err(format!("the form has more than {MOST_PATTERNS} patterns"));
            }
            Ok(field)
        });
        match field {
            Ok(field) => known.push(field),
            Err(problem) => {
                fields = Err(InvalidForm {
                    field: Some(name.to_owned()),
                    problem,
                });
            }
        }
    });
    read.map_err(|_| InvalidForm::whole("its `properties` must be an object with a schema for each field"))?;
    fields
}

impl FormField {
    /// Reads a field from its schema.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(name: &str, schema: &Value) -> Result<Self, String> {
        let whole = members(schema)?;
        let mut field = match nullable(whole)? {
            Some(inner) => Self::of_value(name, members(inner)?)?,
            None => Self::of_value(name, whole)?,
        };
        // Beside `anyOf`, or in it.
        let text = |keyword| whole.get(keyword).and_then(Value::as_str).map(str::to_owned);
        field.title = text("title").or(field.title);
        field.description = text("description").or(field.description);
        let default = whole.get("default").or(field.default.as_ref());
        field.default = default.filter(|default| !default.is_null()).cloned();
        match &field.default {
            Some(default) if !field.kind.has_type_of(default) => Err(format!(
                "its default must be {}, or left out",
                Self::new(name, field.kind.clone()).expected()
            )),
            _ => Ok(field),
        }
    }

    /// Of a schema of values that are not `null`.
    fn of_value(name: &str, schema: &Map<String, Value>) -> Result<Self, String> {
        let kind = kind(schema)?;
        let mut keywords = kind.keywords().to_vec();
        keywords.extend(kind.bounds().into_iter().flatten());
        only(schema, &keywords)?;
        let text = |keyword| schema.get(keyword).and_then(Value::as_str).map(str::to_owned);
        let mut field = Self::new(name, kind);
        field.title = text("title");
        field.description = text("description");
        field.default = schema.get("default").cloned();
        if let Some([least, most]) = field.kind.bounds() {
            field.min = bound(schema, least)?;
            field.max = bound(schema, most)?;
        }
        if let FieldKind::Text { pattern: Some(_), .. } = &field.kind {
            text_schema(&field.kind).map_err(|error| error.problem.to_string())?;
        }
        Ok(field)
    }
}

fn members(schema: &Value) -> Result<&Map<String, Value>, String> {
    schema
        .as_object()
        .ok_or_else(|| "its schema must be an object".to_owned())
}

/// The schema beside `{"type":"null"}`, if there is one.
fn nullable(schema: &Map<String, Value>) -> Result<Option<&Value>, String> {
    let Some(any) = schema.get("anyOf") else {
        return Ok(None);
    };
    only(schema, &["anyOf"])?;
    let any = any.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut values = any.iter().filter(|one| one["type"] != "null");
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(Some(value)),
        _ => Err(unknown("anyOf")),
    }
}

/// What the field takes, by the type and what goes with it.
fn kind(schema: &Map<String, Value>) -> Result<FieldKind, String> {
    let text = |keyword| schema.get(keyword).and_then(Value::as_str);
    match type_of(schema)? {
        "boolean" => Ok(FieldKind::Boolean),
        "integer" => Ok(FieldKind::Integer),
        "number" => Ok(FieldKind::Number),
        "array" => Ok(FieldKind::Choices(items(schema)?)),
        "string" if schema.contains_key("enumNames") => Ok(FieldKind::NamedChoice(named_choices(schema)?)),
        "string" => match choices(schema, "oneOf")? {
            Some(choices) => Ok(FieldKind::Choice(choices)),
            None => Ok(FieldKind::Text {
                format: text("format").and_then(TextFormat::named),
                pattern: match schema.get("pattern") {
                    None => None,
                    Some(Value::String(pattern)) => Some(pattern.clone()),
                    Some(_) => return Err("`pattern` must be a text".to_owned()),
                },
            }),
        },
        other => Err(format!(
            "its type is {}; a form has texts, numbers, booleans and choices",
            shorten(other, SHOWN)
        )),
    }
}

/// The type of the values that are not `null`.
fn type_of(schema: &Map<String, Value>) -> Result<&str, String> {
    let other = || match schema.keys().find(|keyword| !is_annotation(keyword)) {
        Some(keyword) if keyword != "type" => unknown(keyword),
        _ => "its type must be string, number, integer, boolean or array".to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(name)) => Ok(name),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter(|name| *name != "null").filter_map(Value::as_str);
            match (names.next(), names.next()) {
                (Some(name), None) => Ok(name),
                _ => Err(other()),
            }
        }
        None if ["enum", "oneOf"].iter().any(|keyword| schema.contains_key(*keyword)) => Ok("string"),
        _ => Err(other()),
    }
}

fn items(schema: &Map<String, Value>) -> Result<Vec<FormChoice>, String> {
    let not_choices = || "a list must be one of choices: `items` with `enum`, or with `anyOf` of `const` and `title`";
    let items = schema.get("items").and_then(Value::as_object).ok_or_else(not_choices)?;
    only(items, &["type", "enum", "anyOf"])?;
    Ok(choices(items, "anyOf")?.ok_or_else(not_choices)?)
}

/// Those of `enum`, or with titles, as `titled` has them; `None` without either.
fn choices(schema: &Map<String, Value>, titled: &str) -> Result<Option<Vec<FormChoice>>, String> {
    let texts = match schema.get("enum") {
        Some(values) => texts(values, "enum")?.into_iter().map(|value| (value, None)).collect(),
        None => match schema.get(titled) {
            Some(choices) => titled_texts(choices, titled)?,
            None => return Ok(None),
        },
    };
    limited(texts).map(Some)
}

/// Those of `enum` and `enumNames`.
fn named_choices(schema: &Map<String, Value>) -> Result<Vec<FormChoice>, String> {
    let of = |keyword| texts(schema.get(keyword).unwrap_or(&Value::Null), keyword);
    let mut names = of("enumNames")?.into_iter();
    limited(of("enum")?.into_iter().map(|value| (value, names.next())).collect())
}

fn limited(choices: Vec<(String, Option<String>)>) -> Result<Vec<FormChoice>, String> {
    match choices.len() {
        0 => Err("it has no choices".to_owned()),
        1..=MOST_CHOICES => Ok(choices
            .into_iter()
            .map(|(value, title)| FormChoice { value, title })
            .collect()),
        _ => Err(format!("it has more than {MOST_CHOICES} choices")),
    }
}

fn texts(values: &Value, keyword: &str) -> Result<Vec<String>, String> {
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let texts: Option<_> = values.map(|value| value.as_str().map(str::to_owned)).collect();
    texts.ok_or_else(|| format!("`{keyword}` must be a list of texts"))
}

fn titled_texts(choices: &Value, keyword: &str) -> Result<Vec<(String, Option<String>)>, String> {
    let choices = choices.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let choice = |choice: &Value| {
        only(choice.as_object()?, &["const", "type"]).ok()?;
        let title = choice.get("title").and_then(Value::as_str).map(str::to_owned);
        Some((choice["const"].as_str()?.to_owned(), title))
    };
    let choices: Option<_> = choices.map(choice).collect();
    choices.ok_or_else(|| format!("`{keyword}` must be a list of choices with `const`, a text, and `title`"))
}

fn bound(schema: &Map<String, Value>, keyword: &str) -> Result<Option<Number>, String> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Number(number)) if ["minimum", "maximum"].contains(&keyword) || number.is_u64() => {
            Ok(Some(number.clone()))
        }
        Some(_) => Err(format!(
            "`{keyword}` must be a number, and no negative one if it counts"
        )),
    }
}

fn only(schema: &Map<String, Value>, keywords: &[&str]) -> Result<(), String> {
    let is_known = |keyword: &str| keywords.contains(&keyword) || is_annotation(keyword);
    match schema.keys().find(|keyword| !is_known(keyword)) {
        Some(keyword) => Err(unknown(keyword)),
        None => Ok(()),
    }
}

fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

fn unknown(keyword: &str) -> String {
    let keyword = shorten(keyword, SHOWN);
    format!("MCP does not allow `{keyword}` here: a form is flat, with texts, numbers, booleans and choices")
}

impl FieldKind {
    /// The keywords that go with it, without its bounds.
    fn keywords(&self) -> &'static [&'static str] {
        match self {
            Self::Text { .. } => &["type", "format", "pattern"],
            Self::Integer | Self::Number => &["type", "format"],
            Self::Boolean => &["type"],
            Self::Choice(_) => &["type", "enum", "oneOf"],
            Self::NamedChoice(_) => &["type", "enum", "enumNames"],
            Self::Choices(_) => &["type", "items"],
        }
    }

    fn has_type_of(&self, default: &Value) -> bool {
        match self {
            Self::Text { .. } | Self::Choice(_) | Self::NamedChoice(_) => default.is_string(),
            Self::Integer | Self::Number => default.is_number(),
            Self::Boolean => default.is_boolean(),
            Self::Choices(_) => {
                let values = default.as_array();
                values.is_some_and(|values| values.iter().all(Value::is_string))
            }
        }
    }
}

/// The schema of a text's format and pattern. The pattern is matched in linear time, and its memory is limited.
pub(super) fn text_schema(kind: &FieldKind) -> Result<Schema, SchemaError> {
    let FieldKind::Text { format, pattern } = kind else {
        return Schema::compile(&json!(true), SchemaAuthor::Foreign);
    };
    let mut schema = json!({});
    if let Some(format) = format {
        schema["format"] = format.name().into();
    }
    if let Some(pattern) = pattern {
        schema["pattern"] = pattern.as_str().into();
    }
    Schema::with_formats(&schema, SchemaAuthor::Foreign, true)
}
