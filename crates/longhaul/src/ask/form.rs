//! Forms: the flat schemas that a user can be asked to fill in.

use crate::handler::schema;
use longhaul_wire::{FieldKind, Form as WireForm, FormChoice, FormField, TextFormat};
use schemars::JsonSchema;
use serde_json::{Number, Value};

/// A form that is made while the server runs; see [`RequestContext::elicit_form`](crate::RequestContext::elicit_form).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Form(WireForm);

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
pub struct Field(FormField);

impl Form {
    /// A form with no fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a field that must be filled in.
    #[must_use]
    pub fn field(self, name: impl Into<String>, field: Field) -> Self {
        self.with(name.into(), field, true)
    }

    /// With a field that may be left out.
    #[must_use]
    pub fn optional(self, name: impl Into<String>, field: Field) -> Self {
        self.with(name.into(), field, false)
    }

    fn with(mut self, name: String, Field(field): Field, is_required: bool) -> Self {
        self.0.fields.retain(|other| other.name != name);
        self.0.fields.push(FormField {
            name,
            is_required,
            ..field
        });
        self
    }

    pub(super) fn into_wire(self) -> WireForm {
        self.0
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
            let is_required = required.is_some_and(|required| required.iter().any(|one| one == name));
            form = form.with(name.clone(), field, is_required);
        }
        Ok(form)
    }
}

impl Field {
    /// It gets its name from the form.
    fn of(kind: FieldKind) -> Self {
        Self(FormField::new("", kind))
    }

    /// A text.
    pub fn text() -> Self {
        Self::of(FieldKind::TEXT)
    }

    /// An email address.
    pub fn email() -> Self {
        Self::formatted(TextFormat::Email)
    }

    /// A URI.
    pub fn uri() -> Self {
        Self::formatted(TextFormat::Uri)
    }

    /// A day, as `2026-11-20`.
    pub fn date() -> Self {
        Self::formatted(TextFormat::Date)
    }

    /// A date and time, as `2026-11-20T11:30:00Z`.
    pub fn date_time() -> Self {
        Self::formatted(TextFormat::DateTime)
    }

    fn formatted(format: TextFormat) -> Self {
        Self::of(FieldKind::Text {
            format: Some(format),
            pattern: None,
        })
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self::of(FieldKind::Integer)
    }

    /// A number.
    pub fn number() -> Self {
        Self::of(FieldKind::Number)
    }

    /// Yes or no.
    pub fn boolean() -> Self {
        Self::of(FieldKind::Boolean)
    }

    /// One of these.
    pub fn choice<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::of(FieldKind::Choice(plain(values)))
    }

    /// One of these values, each shown by its title.
    pub fn titled_choice<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::of(FieldKind::Choice(titled(choices)))
    }

    /// Any of these.
    pub fn choices<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::of(FieldKind::Choices(plain(values)))
    }

    /// Any of these values, each shown by its title.
    pub fn titled_choices<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::of(FieldKind::Choices(titled(choices)))
    }

    /// One of these values, each shown by its title, as revisions before 2025-11-25 write it (`enumNames`).
    pub fn named_choice<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::of(FieldKind::NamedChoice(titled(choices)))
    }

    /// The name that the user sees.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// The text that says what to fill in.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.0.description = Some(text.into());
        self
    }

    /// The default value.
    #[must_use]
    pub fn default(mut self, value: impl Into<Value>) -> Self {
        self.0.default = Some(value.into());
        self
    }

    /// The lower bound: of a number, of a text's length in characters, or of how many choices are made. Other fields have none.
    #[must_use]
    pub fn min(mut self, minimum: impl Into<Number>) -> Self {
        self.0.min = Some(minimum.into());
        self
    }

    /// The upper bound: of a number, of a text's length in characters, or of how many choices are made. Other fields have none.
    #[must_use]
    pub fn max(mut self, maximum: impl Into<Number>) -> Self {
        self.0.max = Some(maximum.into());
        self
    }

    /// The field for a property of a struct; `None` if it cannot be on a form.
    fn read(property: &Value) -> Option<Self> {
        let schema = without_null(property);
        let kind = match (schema["type"].as_str(), choices(&schema)) {
            // An enum whose variants are documented has no type.
            (Some("string") | None, Some(choices)) => FieldKind::Choice(choices),
            (Some("string"), None) => FieldKind::Text {
                // Clients may refuse formats that MCP does not name.
                format: schema["format"].as_str().and_then(TextFormat::named),
                pattern: None,
            },
            (Some("integer"), _) => FieldKind::Integer,
            (Some("number"), _) => FieldKind::Number,
            (Some("boolean"), _) => FieldKind::Boolean,
            (Some("array"), _) => FieldKind::Choices(choices(&schema["items"])?),
            _ => return None,
        };
        let text = |keyword: &str| property[keyword].as_str().map(str::to_owned);
        let bound = |keyword: &str| schema[keyword].as_number().cloned();
        let [min, max] = kind.bounds().map_or([None, None], |bounds| bounds.map(bound));
        Some(Self(FormField {
            title: text("title"),
            description: text("description"),
            default: property.get("default").filter(|default| !default.is_null()).cloned(),
            min,
            max,
            ..FormField::new("", kind)
        }))
    }
}

fn plain<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Vec<FormChoice> {
    let choice = |value: T| FormChoice {
        value: value.into(),
        title: None,
    };
    values.into_iter().map(choice).collect()
}

fn titled<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Vec<FormChoice> {
    let choice = |(value, title): (V, T)| FormChoice {
        value: value.into(),
        title: Some(title.into()),
    };
    choices.into_iter().map(choice).collect()
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

/// The choices of a plain enum, as schemars writes them: `enum`, or `oneOf` with what each variant's comment says.
fn choices(schema: &Value) -> Option<Vec<FormChoice>> {
    if let Some(values) = schema["enum"].as_array() {
        let values: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
        return values.map(plain);
    }
    let mut all = Vec::new();
    for variant in schema["oneOf"].as_array()? {
        match variant["const"].as_str() {
            Some(value) => all.push(FormChoice {
                value: value.to_owned(),
                title: (variant["title"].as_str().or(variant["description"].as_str())).map(str::to_owned),
            }),
            // Variants without a comment come together.
            None => all.extend(choices(variant)?),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

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
        let mut schema = serde_json::to_value(Form::of::<All>().unwrap().into_wire()).unwrap();
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
        let form = Form::of::<All>().unwrap().into_wire();
        let names: Vec<&str> = form.fields.iter().map(|field| &*field.name).collect();
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
