//! Arguments and the fields of questions in a line each, as they are written on a command line.

use crate::output::plain;
use longhaul_client::{FieldKind, Form, FormField, InputRequest};
use serde_json::Value;

/// A value that can be chosen, and its title.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    value: Value,
    title: String,
}

/// The values of `enum` with `enumNames`, or those of `oneOf` and `anyOf` with titles.
fn choices(schema: &Value) -> Vec<Choice> {
    if let Some(values) = schema["enum"].as_array() {
        let title = |index: usize, value: &Value| {
            schema["enumNames"][index]
                .as_str()
                .map_or_else(|| as_word(value), str::to_owned)
        };
        return (values.iter().enumerate())
            .map(|(index, value)| Choice {
                value: value.clone(),
                title: plain(&title(index, value), ""),
            })
            .collect();
    }
    branches(schema)
        .filter_map(|choice| {
            let value = choice.get("const")?.clone();
            let title = choice["title"].as_str().map_or_else(|| as_word(&value), str::to_owned);
            Some(Choice {
                value,
                title: plain(&title, ""),
            })
        })
        .collect()
}

/// A text as it is, anything else as JSON.
pub(crate) fn as_word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a schema of an object requires the property.
pub(crate) fn is_required(schema: &Value, name: &str) -> bool {
    let names = schema["required"].as_array();
    names.is_some_and(|names| names.iter().any(|known| known == name))
}

/// `name=dev|prod  what it is (default: dev)`. `root` is what local references are in.
pub(crate) fn describe(name: &str, schema: &Value, root: &Value, required: bool) -> String {
    let whole = schema;
    let schema = resolved(without_null(resolved(schema, root)), root);
    let shape = Shape { root }.of_structure(schema);
    let kind = match &shape {
        Some(shape) => format!("'{shape}'"),
        None => kind(schema),
    };
    let is_json = shape.is_some() || matches!(&*kind, "object" | "JSON");
    let sign = if is_json { ":=" } else { "=" };
    let about = [whole, schema]
        .iter()
        .find_map(|schema| schema["description"].as_str().or(schema["title"].as_str()));
    let mut about = plain(about.unwrap_or_default(), "");
    let titles: Vec<String> = (choices_of(schema).iter())
        .filter(|choice| choice.title != as_word(&choice.value))
        .map(|choice| format!("{}: {}", as_word(&choice.value), choice.title))
        .collect();
    if !titles.is_empty() {
        about.push_str(&format!(" ({})", titles.join(", ")));
    }
    if schema["type"] == "array" && !is_json {
        about.push_str(" (repeat it for several)");
    }
    if let Some(limits) = limits(schema) {
        about.push_str(&format!(" ({limits})"));
    }
    if let Some(default) = whole.get("default").filter(|default| !default.is_null()) {
        let what = if required { "required, suggested" } else { "default" };
        about.push_str(&format!(" ({what}: {})", as_word(default)));
    } else if !required {
        about.push_str(" (optional)");
    }
    let line = format!(
        "{}{sign}{}  {}",
        plain(name, ""),
        plain(&kind, ""),
        plain(about.trim_start(), "")
    );
    line.trim_end().to_owned()
}

/// What the schema limits, in the words of a form's field.
fn limits(schema: &Value) -> Option<String> {
    let kind = match schema["type"].as_str()? {
        "integer" | "number" => FieldKind::Number,
        "string" => FieldKind::TEXT,
        "array" => FieldKind::Choices(Vec::new()),
        _ => return None,
    };
    let bound = |keyword: &str| schema[keyword].as_number().cloned();
    let [min, max] = kind.bounds()?.map(bound);
    let field = FormField {
        min,
        max,
        ..FormField::new("", kind)
    };
    field.limits()
}

/// The choices of a field, or those of its elements.
fn choices_of(schema: &Value) -> Vec<Choice> {
    match schema["type"] == "array" {
        true => choices(&schema["items"]),
        false => choices(schema),
    }
}

/// The choices, else the type.
fn kind(schema: &Value) -> String {
    let choices = choices_of(schema);
    if !choices.is_empty() {
        let values: Vec<String> = choices.iter().map(|choice| as_word(&choice.value)).collect();
        return values.join("|");
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => joined(kinds),
        // As Python's `int | str`.
        _ => match branches(schema).map(|branch| &branch["type"]).collect::<Vec<_>>() {
            kinds if !kinds.is_empty() && kinds.iter().all(|kind| is_simple(kind)) => joined(kinds),
            _ => "JSON".to_owned(),
        },
    }
}

fn joined<'a>(kinds: impl IntoIterator<Item = &'a Value>) -> String {
    let kinds = kinds.into_iter().filter(|kind| *kind != "null").map(as_word);
    kinds.collect::<Vec<_>>().join("|")
}

/// Whether a value of this type is written as a word.
fn is_simple(kind: &Value) -> bool {
    matches!(
        kind.as_str(),
        Some("string" | "integer" | "number" | "boolean" | "null")
    )
}

/// The schemas of which a value fits one.
pub(crate) fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    listed.into_iter().flatten()
}

/// The only branch that is a value, as of Python's `int | None`, else the schema itself.
fn without_null(schema: &Value) -> &Value {
    let mut values = branches(schema).filter(|branch| branch["type"] != "null");
    match (&schema["type"], values.next(), values.next()) {
        (Value::Null, Some(only), None) if branches(schema).count() > 1 => only,
        _ => schema,
    }
}

/// References may lead in circles.
const MOST_REFERENCES: usize = 16;

/// What a local reference of the schema leads to.
pub(crate) fn referred<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    root.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

/// The schema that its references lead to. As Pydantic writes one, it may also be the only part of `allOf`.
fn resolved<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MOST_REFERENCES {
        let only = schema["allOf"].as_array().filter(|all| all.len() == 1);
        match referred(schema, root).or_else(|| only?.first()) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// Writes the members of objects, which can only be given as JSON: `{"street":string,"zip"?:string}`.
struct Shape<'a> {
    root: &'a Value,
}

/// Deeper objects are shown as `object`.
const SHAPE_DEPTH: usize = 3;
/// The longest shape that is shown.
const LONGEST_SHAPE: usize = 240;

impl<'a> Shape<'a> {
    /// That of an object, or of an array of objects; none if it is too long for a line.
    fn of_structure(&self, schema: &'a Value) -> Option<String> {
        let shape = self.of(schema, SHAPE_DEPTH);
        (shape.contains('{') && shape.chars().count() <= LONGEST_SHAPE).then_some(shape)
    }

    fn of(&self, schema: &'a Value, depth: usize) -> String {
        let schema = resolved(without_null(resolved(schema, self.root)), self.root);
        let properties = schema["properties"].as_object();
        match (
            properties.filter(|properties| !properties.is_empty()),
            depth.checked_sub(1),
        ) {
            (Some(properties), Some(depth)) => {
                let members = properties.iter().map(|(name, member)| {
                    let sign = if is_required(schema, name) { ":" } else { "?:" };
                    format!("{}{sign}{}", Value::from(name.as_str()), self.of(member, depth))
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            (None, Some(depth)) if schema["type"] == "array" && choices_of(schema).is_empty() => {
                format!("[{}]", self.of(&schema["items"], depth))
            }
            _ => kind(schema),
        }
    }
}

/// The form of a question, if it has one that can be filled in.
pub(crate) fn form(question: &InputRequest) -> Option<&Form> {
    question.form().and_then(Result::ok)
}

/// Why the form of a question cannot be filled in, whatever the values.
pub(crate) fn invalid_form(question: &InputRequest) -> Option<String> {
    let invalid = question.form().and_then(Result::err)?;
    Some(plain(&invalid.to_string(), ""))
}

/// The fields of a question, as [`describe`] writes them.
pub(crate) fn of_question(question: &InputRequest) -> Vec<String> {
    form(question).map_or_else(Vec::new, of_form)
}

/// The same of a question that the API shows.
pub(crate) fn of_params(params: &Value) -> Vec<String> {
    let form = Form::of_params(&params.to_string()).and_then(Result::ok);
    form.as_ref().map_or_else(Vec::new, of_form)
}

/// The same of its form.
pub(crate) fn of_form(form: &Form) -> Vec<String> {
    let fields = form.fields.iter();
    fields
        .map(|field| describe(&field.name, &field.schema(), &Value::Null, field.is_required))
        .collect()
}

/// An answer that the form takes: `NAME=VALUE` for each field that it must have; for all fields if it must have none.
pub(crate) fn values(question: &InputRequest) -> Vec<String> {
    let Some(form) = form(question) else {
        return Vec::new();
    };
    let wanted = (form.fields.iter()).filter(|field| field.is_required || !form.requires_values());
    wanted
        .map(|field| format!("{}={}", field.name, example(field)))
        .collect()
}

/// A value that fits the field: its default, its first choice, or one of its type.
fn example(field: &FormField) -> String {
    let default = field.default.as_ref().filter(|default| !default.is_array());
    let choice = || Some(field.kind.choices()?.first()?.value.clone());
    let of_type = || match &field.kind {
        FieldKind::Boolean => "true".to_owned(),
        FieldKind::Integer | FieldKind::Number => match field.min.as_ref().or(field.max.as_ref()) {
            Some(bound) => bound.to_string(),
            None => "1".to_owned(),
        },
        FieldKind::Text {
            format: Some(format), ..
        } => format.example().to_owned(),
        _ => "TEXT".to_owned(),
    };
    default.map(as_word).or_else(choice).unwrap_or_else(of_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn choices_have_the_titles_of_the_schema() {
        let titles = |schema: Value| {
            let choices = choices(&schema);
            choices.into_iter().map(|choice| choice.title).collect::<Vec<_>>()
        };
        assert_eq!(titles(json!({"enum": ["a", 2]})), ["a", "2"]);
        assert_eq!(titles(json!({"enum": ["a", "b"], "enumNames": ["A"]})), ["A", "b"]);
        let titled = json!({"oneOf": [{"const": "a", "title": "An a\u{1b}[2J"}, {"const": "b"}]});
        assert_eq!(titles(titled.clone()), ["An a [2J", "b"]);
        assert_eq!(choices(&titled)[0].value, "a");
        assert_eq!(titles(json!({"type": "string"})), [""; 0]);
    }

    #[test]
    fn an_example_fits_its_field() {
        for (field, fits) in [
            (json!({"type": "string", "enum": ["dev", "prod"]}), "dev"),
            (
                json!({"type": "string", "enum": ["dev", "prod"], "default": "prod"}),
                "prod",
            ),
            (json!({"type": "array", "items": {"enum": ["a", "b"]}}), "a"),
            (json!({"type": "string", "format": "date"}), "2026-11-23"),
            (json!({"type": "string"}), "TEXT"),
            (json!({"type": "integer", "minimum": 3}), "3"),
            (json!({"type": "boolean"}), "true"),
        ] {
            assert_eq!(example(&FormField::parse("f", &field).unwrap()), fits, "{field}");
        }
    }

    #[test]
    fn a_field_is_described_with_its_choices() {
        let fields = r#"
            {"type": "string", "description": "where"} => required => f=string  where
            {"type": "integer"} => optional => f=integer  (optional)
            {"enum": ["dev", "prod"], "default": "dev"} => optional => f=dev|prod  (default: dev)
            {"type": "integer", "default": 3} => required => f=integer  (required, suggested: 3)
            {"oneOf": [{"const": "d", "title": "Development"}, {"const": "p"}], "title": "Target"} => required => f=d|p  Target (d: Development)
            {"type": "array", "items": {"enum": ["a", "b"]}} => required => f=a|b  (repeat it for several)
            {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b", "c"]}} => required => f=a|b|c  (repeat it for several) (how many: at most 2)
            {"type": "integer", "minimum": 1, "maximum": 9, "title": "Copies"} => required => f=integer  Copies (1 to 9)
            {"type": "object"} => required => f:=object
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null, "description": "how many"} => optional => f=integer  how many (optional)
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "title": "Tags"} => optional => f=array  Tags (repeat it for several) (optional)
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]} => required => f=integer|string
            {"type": ["integer", "null"]} => required => f=integer
            {"anyOf": [{"type": "object"}, {"type": "string"}]} => required => f:=JSON
            {} => required => f:=JSON
        "#;
        for row in fields.trim().lines() {
            let [schema, need, line] = row.trim().split(" => ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let schema: Value = serde_json::from_str(schema).expect(row);
            assert_eq!(describe("f", &schema, &Value::Null, need == "required"), line);
        }
    }

    #[test]
    fn an_object_is_described_with_its_members() {
        let root = json!({"$defs": {
            "Address": {"type": "object", "required": ["street"], "properties": {
                "street": {"type": "string"},
                "kind": {"enum": ["home", "work"]},
                "lines": {"type": "array", "items": {"type": "string"}},
                "place": {"$ref": "#/$defs/Place"},
            }},
            "Place": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"}, "next": {"$ref": "#/$defs/Place"},
            }},
            "Level": {"enum": ["low", "high"]},
        }});
        let address = "{\"street\":string,\"kind\"?:home|work,\"lines\"?:[string],\"place\"?:{\"city\":string,\"next\"?:{\"city\":string,\"next\"?:object}}}";
        for (schema, line) in [
            (
                json!({"$ref": "#/$defs/Address", "description": "where"}),
                format!("f:='{address}'  where"),
            ),
            (
                json!({"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]}),
                format!("f:='{address}'"),
            ),
            (
                json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}),
                "f:='[{\"n\"?:integer}]'".to_owned(),
            ),
            (json!({"allOf": [{"$ref": "#/$defs/Level"}]}), "f=low|high".to_owned()),
            (json!({"$ref": "#/$defs/None"}), "f:=JSON".to_owned()),
        ] {
            assert_eq!(describe("f", &schema, &root, true), line);
        }
    }
}
