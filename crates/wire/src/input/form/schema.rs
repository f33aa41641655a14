//! Writing a form.

use super::{FieldKind, Form, FormChoice, FormField};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

impl Form {
    /// The request that puts it to the user.
    pub fn request(&self, message: &str) -> Value {
        let params = json!({"mode": "form", "message": message, "requestedSchema": self});
        json!({"method": "elicitation/create", "params": params})
    }
}

/// As the `requestedSchema`.
impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let required: Vec<&str> = (self.fields.iter().filter(|field| field.is_required))
            .map(|field| &*field.name)
            .collect();
        let mut schema = serializer.serialize_map(None)?;
        schema.serialize_entry("type", "object")?;
        schema.serialize_entry("properties", &Properties(&self.fields))?;
        if !required.is_empty() {
            schema.serialize_entry("required", &required)?;
        }
        if self.is_closed {
            schema.serialize_entry("additionalProperties", &false)?;
        }
        schema.end()
    }
}

struct Properties<'a>(&'a [FormField]);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|field| (&field.name, field.schema())))
    }
}

impl FormField {
    /// Its schema: one of the `properties` of the form's.
    pub fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        let mut set = |keyword: &str, value: Option<Value>| {
            if let Some(value) = value {
                schema.insert(keyword.to_owned(), value);
            }
        };
        if let Some([least, most]) = self.kind.bounds() {
            set(least, self.min.clone().map(Value::Number));
            set(most, self.max.clone().map(Value::Number));
        }
        set("title", self.title.clone().map(Value::String));
        set("description", self.description.clone().map(Value::String));
        set("default", self.default.clone());
        Value::Object(schema)
    }
}

impl FieldKind {
    fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            Self::Text { format, pattern } => {
                let mut schema = json!({"type": "string"});
                if let Some(format) = format {
                    schema["format"] = format.name().into();
                }
                if let Some(pattern) = pattern {
                    schema["pattern"] = pattern.as_str().into();
                }
                schema
            }
            Self::Integer => json!({"type": "integer"}),
            Self::Number => json!({"type": "number"}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Choice(choices) => match titled(choices) {
                Some(titled) => json!({"type": "string", "oneOf": titled}),
                None => json!({"type": "string", "enum": values(choices)}),
            },
            Self::NamedChoice(choices) => {
                let names: Vec<&str> = choices.iter().map(FormChoice::label).collect();
                json!({"type": "string", "enum": values(choices), "enumNames": names})
            }
            Self::Choices(choices) => {
                let items = match titled(choices) {
                    Some(titled) => json!({"anyOf": titled}),
                    None => json!({"type": "string", "enum": values(choices)}),
                };
                json!({"type": "array", "items": items})
            }
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn values(choices: &[FormChoice]) -> Vec<&str> {
    choices.iter().map(|choice| &*choice.value).collect()
}

/// `None` if none of them has a title.
fn titled(choices: &[FormChoice]) -> Option<Vec<Value>> {
    let has_titles = choices.iter().any(|choice| choice.title.is_some());
    let titled = |choice: &FormChoice| json!({"const": choice.value, "title": choice.label()});
    has_titles.then(|| choices.iter().map(titled).collect())
}
