//! Forms: the flat schemas that a user can be asked to fill in.

use crate::schema;
use schemars::JsonSchema;
use serde_json::{Map, Number, Value, json};

/// A form that is made while the server runs; see [`RequestContext::elicit_form`](crate::RequestContext::elicit_form).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Form {
    fields: Map<String, Value>,
    required: Vec<String>,
}

/// One field of a [`Form`].
///
/// ```
/// use longhaul::{Field, Form};
/// let form = Form::new()
///     .field("name", Field::text().title("Your name").max(80))
///     .field("plan", Field::titled_choice([("s", "Small"), ("l", "Large")]).default("s"))
///     .optional("seats", Field::integer().min(1).max(50));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Field(Map<String, Value>);

impl Form {
    /// A form with no fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a field that must be filled in.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: Field) -> Self {
        let name = name.into();
        self.required.push(name.clone());
        self.optional(name, field)
    }

    /// With a field that may be left out.
    #[must_use]
    pub fn optional(mut self, name: impl Into<String>, field: Field) -> Self {
        self.fields.insert(name.into(), Value::Object(field.0));
        self
    }

    /// The `requestedSchema`.
    pub(super) fn schema(&self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.fields});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }

    /// The form for a type.
    ///
    /// # Errors
    /// Which field cannot be on a form, and what could.
    pub(super) fn of<T: JsonSchema>() -> Result<Self, String> {
        let schema = schema::inlined::<T>();
        let Some(properties) = schema["properties"].as_object() else {
            return Err(format!(
                "{} cannot be a form: it is not a struct with named fields",
                T::schema_name()
            ));
        };
        let required = schema["required"].as_array();
        let mut form = Self::new();
        for (name, property) in properties {
            let field = Field::read(property).ok_or_else(|| {
                format!(
                    "the field `{name}` of {} cannot be on a form, which is flat: texts, numbers, booleans, plain enums, lists of plain \
                     enums, and options of those",
                    T::schema_name()
                )
            })?;
            let required = required.is_some_and(|required| required.iter().any(|one| one == name));
            form = match required {
                true => form.field(name, field),
                false => form.optional(name, field),
            };
        }
        Ok(form)
    }
}

impl Field {
    fn of(schema: Value) -> Self {
        match schema {
            Value::Object(members) => Self(members),
            _ => Self(Map::new()),
        }
    }

    /// A text.
    pub fn text() -> Self {
        Self::of(json!({"type": "string"}))
    }

    /// An email address.
    pub fn email() -> Self {
        Self::formatted("email")
    }

    /// A URI.
    pub fn uri() -> Self {
        Self::formatted("uri")
    }

    /// A day, as `2026-11-20`.
    pub fn date() -> Self {
        Self::formatted("date")
    }

    /// A date and time, as `2026-11-20T11:30:00Z`.
    pub fn date_time() -> Self {
        Self::formatted("date-time")
    }

    fn formatted(format: &str) -> Self {
        Self::of(json!({"type": "string", "format": format}))
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self::of(json!({"type": "integer"}))
    }

    /// A number.
    pub fn number() -> Self {
        Self::of(json!({"type": "number"}))
    }

    /// Yes or no.
    pub fn boolean() -> Self {
        Self::of(json!({"type": "boolean"}))
    }

    /// One of these.
    pub fn choice<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::of(json!({"type": "string", "enum": texts(values)}))
    }

    /// One of these values, each shown by its title.
    pub fn titled_choice<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::of(json!({"type": "string", "oneOf": titled(choices)}))
    }

    /// Any of these.
    pub fn choices<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::of(json!({"type": "array", "items": {"type": "string", "enum": texts(values)}}))
    }

    /// Any of these values, each shown by its title.
    pub fn titled_choices<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::of(json!({"type": "array", "items": {"anyOf": titled(choices)}}))
    }

    /// One of these values, each shown by its title, as revisions before 2025-11-25 write it (`enumNames`).
    pub fn named_choice<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        let (values, names): (Vec<String>, Vec<String>) = choices
            .into_iter()
            .map(|(value, name)| (value.into(), name.into()))
            .unzip();
        Self::of(json!({"type": "string", "enum": values, "enumNames": names}))
    }

    /// The name that the user sees.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into().into())
    }

    /// The text that says what to fill in.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        self.with("description", text.into().into())
    }

    /// The default value.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value.into())
    }

    /// The lower bound: of a number, of a text's length in characters, or of how many choices are made.
    #[must_use]
    pub fn min(self, minimum: impl Into<Number>) -> Self {
        let member = self.bound("minimum", "minLength", "minItems");
        self.with(member, Value::Number(minimum.into()))
    }

    /// The upper bound: of a number, of a text's length in characters, or of how many choices are made.
    #[must_use]
    pub fn max(self, maximum: impl Into<Number>) -> Self {
        let member = self.bound("maximum", "maxLength", "maxItems");
        self.with(member, Value::Number(maximum.into()))
    }

    fn bound(&self, number: &'static str, text: &'static str, list: &'static str) -> &'static str {
        match self.0.get("type").and_then(Value::as_str) {
            Some("string") => text,
            Some("array") => list,
            _ => number,
        }
    }

    fn with(mut self, member: &str, value: Value) -> Self {
        self.0.insert(member.to_owned(), value);
        self
    }

    /// The field for a property of a struct; `None` if it cannot be on a form.
    fn read(property: &Value) -> Option<Self> {
        let schema = without_null(property);
        let field = match kind(&schema)? {
            "string" => match choices(&schema) {
                Some(choices) => choices.of_one(),
                None => Self::text()
                    .copy_members(&schema, &["minLength", "maxLength"])
                    .copy_format(&schema),
            },
            "integer" => Self::integer().copy_members(&schema, &["minimum", "maximum"]),
            "number" => Self::number().copy_members(&schema, &["minimum", "maximum"]),
            "boolean" => Self::boolean(),
            "array" => choices(&schema["items"])?
                .of_any()
                .copy_members(&schema, &["minItems", "maxItems"]),
            _ => return None,
        };
        let field = field.copy_members(property, &["title", "description"]);
        Some(match property.get("default") {
            Some(default) if !default.is_null() => field.default(default.clone()),
            _ => field,
        })
    }

    fn copy_members(mut self, from: &Value, members: &[&str]) -> Self {
        for member in members {
            if let Some(value) = from.get(*member) {
                self.0.insert((*member).to_owned(), value.clone());
            }
        }
        self
    }

    /// Copies the format if MCP allows it on forms; clients may refuse others.
    fn copy_format(self, from: &Value) -> Self {
        match from["format"].as_str() {
            Some("email" | "uri" | "date" | "date-time") => self.copy_members(from, &["format"]),
            _ => self,
        }
    }
}

fn texts<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(Into::into).collect()
}

fn titled<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Vec<Value> {
    let one = |(value, title): (V, T)| json!({"const": value.into(), "title": title.into()});
    choices.into_iter().map(one).collect()
}

/// The schema of the value inside an `Option`. Whether the field may be left out is in the form's `required`.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(any) = schema["anyOf"].as_array() {
        let mut some = any.iter().filter(|one| one["type"] != "null");
        if let (Some(one), None) = (some.next(), some.next()) {
            return one.clone();
        }
    }
    if let Some(kinds) = schema["type"].as_array() {
        let mut some = kinds.iter().filter(|kind| *kind != "null");
        if let (Some(one), None) = (some.next().cloned(), some.next()) {
            schema["type"] = one;
        }
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    schema
}

fn kind(schema: &Value) -> Option<&str> {
    match schema["type"].as_str() {
        Some(kind) => Some(kind),
        // An enum whose variants are documented.
        None => choices(schema).map(|_| "string"),
    }
}

/// A list of texts, some with titles.
struct Choices(Vec<(String, Option<String>)>);

impl Choices {
    fn is_titled(&self) -> bool {
        self.0.iter().any(|(_, title)| title.is_some())
    }

    fn values(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(value, _)| value)
    }

    fn titles(self) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter().map(|(value, title)| {
            let title = title.unwrap_or_else(|| value.clone());
            (value, title)
        })
    }

    fn of_one(self) -> Field {
        match self.is_titled() {
            true => Field::titled_choice(self.titles()),
            false => Field::choice(self.values()),
        }
    }

    fn of_any(self) -> Field {
        match self.is_titled() {
            true => Field::titled_choices(self.titles()),
            false => Field::choices(self.values()),
        }
    }
}

/// The choices of a plain enum, as schemars writes them: `enum`, or `oneOf` with what each variant's comment says.
fn choices(schema: &Value) -> Option<Choices> {
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| Some((value.as_str()?.to_owned(), None)));
        return values.collect::<Option<_>>().map(Choices);
    }
    let mut all = Vec::new();
    for variant in schema["oneOf"].as_array()? {
        match variant["const"].as_str() {
            Some(value) => {
                let title = variant["title"].as_str().or(variant["description"].as_str());
                all.push((value.to_owned(), title.map(str::to_owned)));
            }
            // Variants without a comment come together.
            None => all.extend(choices(variant)?.0),
        }
    }
    Some(Choices(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Deserialize, Serialize, JsonSchema, Default)]
    #[serde(rename_all = "lowercase")]
    enum Plain {
        #[default]
        One,
        Two,
    }

    #[derive(Deserialize, JsonSchema)]
    enum TitledChoice {
        /// The first.
        #[serde(rename = "1")]
        First,
        #[serde(rename = "2")]
        Second,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct All {
        /// Who.
        #[schemars(title = "Name", length(min = 1, max = 9))]
        name: String,
        #[schemars(extend("format" = "email"))]
        mail: Option<String>,
        age: u8,
        score: Option<f64>,
        sure: bool,
        #[serde(default)]
        plain: Plain,
        titled: Option<TitledChoice>,
        several: Vec<Plain>,
        many: Option<Vec<TitledChoice>>,
    }

    #[test]
    fn a_flat_struct_becomes_a_form() {
        let titled = json!([{"const": "1", "title": "The first."}, {"const": "2", "title": "2"}]);
        let mut schema = Form::of::<All>().unwrap().schema();
        // schemars puts variants with a comment last or first; which does not matter here.
        for place in ["/properties/titled/oneOf", "/properties/many/items/anyOf"] {
            let choices = schema.pointer_mut(place).and_then(Value::as_array_mut).unwrap();
            choices.sort_by_key(|choice| choice["const"].to_string());
        }
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 9, "title": "Name", "description": "Who."},
                    "mail": {"type": "string", "format": "email"},
                    "age": {"type": "integer", "minimum": 0, "maximum": 255},
                    "score": {"type": "number"},
                    "sure": {"type": "boolean"},
                    "plain": {"type": "string", "enum": ["one", "two"], "default": "one"},
                    "titled": {"type": "string", "oneOf": titled},
                    "several": {"type": "array", "items": {"type": "string", "enum": ["one", "two"]}},
                    "many": {"type": "array", "items": {"anyOf": titled}},
                },
                "required": ["name", "age", "sure", "several"],
            })
        );
    }

    #[test]
    fn fields_keep_their_order() {
        let schema = Form::of::<All>().unwrap().schema();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            [
                "name", "mail", "age", "score", "sure", "plain", "titled", "several", "many"
            ]
        );
    }

    #[test]
    fn a_field_that_is_not_flat_is_refused_by_name() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Deep {
            name: String,
            inner: Option<All>,
        }
        let wrong = Form::of::<Deep>().unwrap_err();
        assert!(wrong.contains("`inner` of Deep") && wrong.contains("flat"), "{wrong}");
        let wrong = Form::of::<Vec<u8>>().unwrap_err();
        assert!(wrong.contains("named fields"), "{wrong}");
    }
}
