//! JSON bodies with placeholders.

use super::url::Values;
use longhaul_command::{Template, TemplatePart};
use serde_json::Value;

/// The body that is all arguments.
const ALL_ARGUMENTS: &str = "json";

/// A JSON body whose texts are templates.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    /// All arguments, as they came.
    Arguments,
    Value(BodyValue),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum BodyValue {
    /// As it stands.
    Fixed(Value),
    Text(Template),
    Array(Vec<BodyValue>),
    Object(Vec<(String, BodyValue)>),
}

impl Body {
    /// # Errors
    /// Which text is not a template.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) if text == ALL_ARGUMENTS => Ok(Self::Arguments),
            value => BodyValue::parse(value).map(Self::Value),
        }
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        if let Self::Value(value) = self {
            value.add_names(&mut names);
        }
        names
    }

    pub(super) fn expand(&self, all: &str, values: &Values<'_>) -> Result<String, String> {
        match self {
            Self::Arguments => Ok(all.to_owned()),
            Self::Value(value) => Ok(value.expand(values)?.unwrap_or_else(|| "null".to_owned())),
        }
    }
}

impl BodyValue {
    fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => {
                let template = Template::parse(text).map_err(|error| format!("{text:?}: {error}"))?;
                Self::Text(template)
            }
            Value::Array(elements) => Self::Array(elements.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(members) => {
                let parse = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value)?));
                Self::Object(members.iter().map(parse).collect::<Result<_, String>>()?)
            }
            other => Self::Fixed(other.clone()),
        })
    }

    fn add_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => names.extend(template.properties()),
            Self::Array(elements) => elements.iter().for_each(|element| element.add_names(names)),
            Self::Object(members) => members.iter().for_each(|(_, value)| value.add_names(names)),
        }
    }

    /// The JSON; `None` if it is a placeholder of what is absent.
    fn expand(&self, values: &Values<'_>) -> Result<Option<String>, String> {
        Ok(Some(match self {
            Self::Fixed(value) => value.to_string(),
            Self::Text(template) => {
                let mut parts = template.parts();
                if let (Some(TemplatePart::Placeholder(name)), None) = (parts.next(), parts.next()) {
                    let value = values.arguments.json(name);
                    return match value {
                        None if !values.optional.contains(name) => Err(format!("`{name}` is required")),
                        value => Ok(value.map(|value| value.get().to_owned())),
                    };
                }
                Value::from(values.text(template)?).to_string()
            }
            Self::Array(elements) => {
                let elements = elements.iter().filter_map(|element| element.expand(values).transpose());
                format!("[{}]", elements.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            Self::Object(members) => {
                let member = |(name, value): &(String, Self)| {
                    let value = value.expand(values).transpose()?;
                    Some(value.map(|value| format!("{}:{value}", Value::from(name.as_str()))))
                };
                let members = members.iter().filter_map(member);
                format!("{{{}}}", members.collect::<Result<Vec<_>, _>>()?.join(","))
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_command::Arguments;
    use serde_json::json;

    #[test]
    fn whole_placeholders_keep_their_type_and_absent_ones_leave_out_their_key() {
        let all = r#"{"n":12345678901234567890123,"o":{"a":[1]},"s":"x\"y"}"#;
        let optional = ["gone".to_owned()].into();
        let values = Values {
            arguments: &Arguments::parse(all).unwrap(),
            optional: &optional,
            integers: &Default::default(),
            answer: None,
        };
        let body = json!({
            "n": "{n}", "o": "{o}", "s": "{s}", "text": "<{s}{gone}>", "gone": "{gone}", "list": ["{gone}", "{n}", 1.5, true],
            "braces": "{{}}", "inner": {"gone": "{gone}"},
        });
        let expanded = Body::parse(&body).unwrap().expand(all, &values).unwrap();
        let expected = r#"{"braces":"{}","inner":{},"list":[12345678901234567890123,1.5,true],"n":12345678901234567890123,"o":{"a":[1]},"s":"x\"y","text":"<x\"y>"}"#;
        let sorted = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(sorted(&expanded), sorted(expected));
        assert!(expanded.contains("\"n\":12345678901234567890123"), "{expanded}");
        let whole = Body::parse(&json!("json")).unwrap().expand(all, &values);
        assert_eq!(whole.as_deref(), Ok(all));
        let missing = Body::parse(&json!({"a": "{none}"})).unwrap().expand(all, &values);
        assert_eq!(missing.unwrap_err(), "`none` is required");
    }
}
