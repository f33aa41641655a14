//! `name=value` and `name:=JSON`, read by the tool's schema.

mod property_schema;

use crate::output::{
    json_text::{self, TextError},
    nearest,
};
use property_schema::PropertySchema;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Arguments as they were written: for each name what was given for it, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Words(BTreeMap<String, Vec<Word>>);

impl Words {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    /// `name=text`: the schema says what it means.
    Text(String),
    /// `name:=JSON`.
    Json(Value),
}

/// What arguments are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    Tool,
    Prompt,
    Question,
}

impl Taker {
    fn has_no(self) -> &'static str {
        match self {
            Self::Tool => "the tool has no argument",
            Self::Prompt => "the prompt has no argument",
            Self::Question => "the question has no field",
        }
    }

    fn has_none(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "it takes no arguments",
            Self::Question => "it takes no values",
        }
    }
}

/// Arguments that cannot be what is wanted.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("`{0}` is not an argument; write name=value, or name:=JSON")]
    NoValue(String),
    #[error("`{name}` is not valid JSON: {reason}")]
    NotJson { name: String, reason: String },
    #[error("`{name}`: {reason}")]
    TooLarge { name: String, reason: String },
    #[error("`{name}` cannot be read from {file}: {reason}")]
    File { name: String, file: String, reason: String },
    #[error("`{name}` is given {count} times, and takes one value")]
    Repeated { name: String, count: usize },
    #[error("{} `{name}`; {hint}", .taker.has_no())]
    Unknown { taker: Taker, name: String, hint: String },
    #[error("`{name}` takes {expected}, not `{given}`")]
    WrongType {
        name: String,
        expected: String,
        given: String,
    },
    #[error("`{name}` takes {choices}, not `{given}`; for several, repeat it: {example}")]
    NoChoice {
        name: String,
        choices: String,
        given: String,
        example: String,
    },
    #[error("missing {}", .0.join(", "))]
    Missing(Vec<String>),
}

/// Takes the words of the command line apart.
pub(crate) fn parse(written: &[String]) -> Result<Words, ArgumentError> {
    let mut words = Words::default();
    for argument in written {
        let no_value = || ArgumentError::NoValue(argument.clone());
        let (name, value) = argument.split_once('=').ok_or_else(no_value)?;
        let value = |name: &str| match value.strip_prefix('@') {
            Some(file) if !file.is_empty() => read_file(name, file),
            _ => Ok(value.to_owned()),
        };
        let (name, word) = match name.strip_suffix(':') {
            Some(name) => (name, Word::Json(parse_json(name, &value(name)?)?)),
            None => (name, Word::Text(value(name)?)),
        };
        if name.is_empty() {
            return Err(no_value());
        }
        words.0.entry(name.to_owned()).or_default().push(word);
    }
    Ok(words)
}

fn read_file(name: &str, file: &str) -> Result<String, ArgumentError> {
    let text = longhaul_private_dir::read_named_text(file.as_ref()).map_err(|error| ArgumentError::File {
        name: name.to_owned(),
        file: file.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(json_text::without_mark(&text).to_owned())
}

fn parse_json(name: &str, text: &str) -> Result<Value, ArgumentError> {
    json_text::read(text).map_err(|error| not_json(name, error))
}

fn not_json(name: &str, error: TextError) -> ArgumentError {
    let name = name.to_owned();
    match error {
        TextError::NotJson(reason) => ArgumentError::NotJson { name, reason },
        TextError::TooLarge(_) => ArgumentError::TooLarge {
            name,
            reason: error.to_string(),
        },
    }
}

/// Notes on the names that the tool takes without naming them, and that are close to one that it names and that is not given.
pub(crate) fn probably_mistyped(words: &Words, schema: &Value) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let unnamed = words.0.keys().filter(|name| !properties.contains_key(*name));
    let note = |name: &String| {
        let known = properties.keys().map(String::as_str);
        let absent = known.filter(|known| !words.0.contains_key(*known) && nearest::is_near(name, known));
        let hint = nearest::suggestion(name, absent)?;
        Some(format!("the tool names no argument `{name}`, and takes others; {hint}"))
    };
    unnamed.filter_map(note).collect()
}

/// Converts every word to the type in the schema and adds it to `arguments`. Checks only for typing mistakes; the server validates the rest.
pub(crate) fn fit(
    words: Words,
    mut arguments: Map<String, Value>,
    schema: &Value,
    taker: Taker,
) -> Result<Map<String, Value>, ArgumentError> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let given: BTreeSet<String> = words.0.keys().chain(arguments.keys()).cloned().collect();
    for (name, words) in words.0 {
        let property = properties.get(&name);
        if property.is_none() && (!takes_others(schema, taker) || lacks_near(&name, schema, &given)) {
            let known = properties.keys().map(String::as_str);
            let hint = nearest::suggestion(&name, known).unwrap_or_else(|| taker.has_none().to_owned());
            return Err(ArgumentError::Unknown { taker, name, hint });
        }
        let wanted = PropertySchema::of(property.unwrap_or(&schema["additionalProperties"]), schema);
        let value = wanted.read_all(&name, words)?;
        arguments.insert(name, value);
    }
    let missing = missing(schema, &properties, &arguments);
    if !missing.is_empty() {
        return Err(ArgumentError::Missing(missing));
    }
    Ok(arguments)
}

/// Whether more than the properties is taken. A tool takes it unless its schema says otherwise, as JSON Schema has it; prompts and questions name all that they
/// take. A schema that consists of others may have any; the server knows them.
fn takes_others(schema: &Value, taker: Taker) -> bool {
    match schema.get("additionalProperties") {
        None if taker == Taker::Tool => true,
        Some(Value::Bool(true) | Value::Object(_)) => true,
        _ => schema["patternProperties"].is_object() || OF_OTHERS.iter().any(|keyword| schema.get(keyword).is_some()),
    }
}

/// Whether a required name is not given that is close to this one, which then is a mistyped one.
fn lacks_near(name: &str, schema: &Value, given: &BTreeSet<String>) -> bool {
    let mut required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    required.any(|known| !given.contains(known) && nearest::is_near(name, known))
}

/// What makes a schema of other schemas, which may be elsewhere.
const OF_OTHERS: [&str; 7] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
];

/// The required arguments that were not given, each with what it is.
fn missing(schema: &Value, properties: &Map<String, Value>, arguments: &Map<String, Value>) -> Vec<String> {
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let absent = required.filter(|name| !arguments.contains_key(*name));
    absent
        .map(|name| {
            let property = properties.get(name).unwrap_or(&Value::Null);
            match property["description"].as_str() {
                Some(description) => format!("`{name}` ({description})"),
                None => format!("`{name}`"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: Value, written: &[&str]) -> Result<Value, String> {
        let written: Vec<String> = written.iter().map(|word| (*word).to_owned()).collect();
        let words = parse(&written).map_err(|error| error.to_string())?;
        fit(words, Map::new(), &schema, Taker::Tool)
            .map(Value::from)
            .map_err(|error| error.to_string())
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "where to look"},
                "depth": {"type": "integer"},
                "ratio": {"type": "number"},
                "fast": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "level": {"enum": ["low", "high", 3]},
                "extra": {"type": "object"},
                "either": {"type": ["string", "integer"]},
            },
            "$defs": {"size": {"type": "integer"}},
            "required": ["path"],
        })
    }

    #[test]
    fn values_are_read_as_the_schema_wants_them() {
        let given = r#"
            path=5 depth=5 ratio=0.5 fast=true => {"path": "5", "depth": 5, "ratio": 0.5, "fast": true}
            path= tags=a tags=b=c sizes=1 sizes=2 => {"path": "", "tags": ["a", "b=c"], "sizes": [1, 2]}
            path= maybe=null level=3 extra={"a":1} either=5 => {"path": "", "maybe": null, "level": 3, "extra": {"a": 1}, "either": "5"}
            path:=5 tags=["x"] => {"path": 5, "tags": ["x"]}
            path= tags=only => {"path": "", "tags": ["only"]}
        "#;
        for line in given.trim().lines() {
            let (written, wanted) = line.trim().split_once(" => ").unwrap();
            let wanted: Value = serde_json::from_str(wanted).expect(line);
            let written: Vec<&str> = written.split(' ').collect();
            assert_eq!(read(schema(), &written).unwrap(), wanted, "{line}");
        }
        assert_eq!(read(Value::Null, &[]).unwrap(), json!({}));
    }

    /// The arguments may be described elsewhere.
    #[test]
    fn a_schema_of_other_schemas_takes_any_name() {
        for schema in [
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"type": "object", "allOf": [{"properties": {"path": {"type": "string"}}}]}),
        ] {
            assert_eq!(read(schema, &["path=/srv"]).unwrap(), json!({"path": "/srv"}));
        }
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let expected = "the tool has no argument `path`; it takes no arguments";
        assert_eq!(read(none, &["path=/srv"]).unwrap_err(), expected);
    }

    /// A name that is not named is taken as JSON Schema has it. One that stands for a required one is a slip all the same.
    #[test]
    fn a_tool_takes_any_name_that_its_schema_does_not_forbid() {
        for open in [json!({"type": "object"}), json!({"properties": {}}), Value::Null] {
            let read = read(open, &["path=5", "depth:=5"]).unwrap();
            assert_eq!(read, json!({"path": "5", "depth": 5}));
        }
        let open =
            json!({"properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]});
        assert_eq!(
            read(open.clone(), &["path=x", "paths=y", "other={}"]).unwrap(),
            json!({"path": "x", "paths": "y", "other": "{}"})
        );
        let expected = "the tool has no argument `paths`; did you mean `path`?";
        assert_eq!(read(open.clone(), &["paths=y"]).unwrap_err(), expected);
        let typed = json!({"properties": {}, "additionalProperties": {"type": "integer"}});
        assert_eq!(read(typed.clone(), &["n=5"]).unwrap(), json!({"n": 5}));
        assert_eq!(read(typed, &["n=x"]).unwrap_err(), "`n` takes a whole number, not `x`");
        for taker in [Taker::Prompt, Taker::Question] {
            let words = parse(&["other=x".to_owned()]).unwrap();
            assert!(fit(words, Map::new(), &json!({"properties": {}}), taker).is_err());
        }
        let notes = |written: &[&str]| {
            let written: Vec<String> = written.iter().map(|word| (*word).to_owned()).collect();
            probably_mistyped(&parse(&written).unwrap(), &open)
        };
        let expected = ["the tool names no argument `dept`, and takes others; did you mean `depth`?"];
        assert_eq!(notes(&["path=x", "dept=5", "path2=y", "other=z"]), expected);
        assert!(notes(&["path=x", "depth=5"]).is_empty());
    }

    #[test]
    fn slips_are_told_apart() {
        let problem = |written: &[&str]| read(schema(), written).unwrap_err();
        let slips = "
            pathh=x => the tool has no argument `pathh`; did you mean `path`?
            path => `path` is not an argument; write name=value, or name:=JSON
            =x => `=x` is not an argument; write name=value, or name:=JSON
            path=a path=b => `path` is given 2 times, and takes one value
            path=a depth=1.5 => `depth` takes a whole number, not `1.5`
            path=a fast=yes => `fast` takes true or false, not `yes`
            path=a sizes=x => `sizes` takes a whole number, not `x`
            depth=1 => missing `path` (where to look)
        ";
        for slip in slips.trim().lines() {
            let (written, told) = slip.trim().split_once(" => ").unwrap();
            assert_eq!(problem(&written.split(' ').collect::<Vec<_>>()), told, "{written}");
        }
        for written in ["depth=1e3", "depth=5.0", "depth=1000000000000000000000"] {
            let given = written.split_once('=').unwrap().1;
            let expected = format!("`depth` takes a whole number of at most 64 bits, in digits alone, not `{given}`");
            assert_eq!(problem(&["path=a", written]), expected);
        }
        for inexact in ["ratio=1000000000000000000000", "extra:={\"a\":1000000000000000000000}"] {
            let told = problem(&["path=a", inexact]);
            assert!(told.contains("does not fit into 64 bits"), "{inexact}: {told}");
        }
        assert!(problem(&["path:=nope"]).starts_with("`path` is not valid JSON: "));
        assert!(problem(&["path=@no/such/file"]).starts_with("`path` cannot be read from no/such/file: "));
        let either = json!({"properties": {"path": {"type": ["string", "array"]}}});
        let one = read(either.clone(), &["path=[draft] notes"]).unwrap();
        assert_eq!(one, json!({"path": "[draft] notes"}));
        let two = read(either, &["path=a", "path=b"]).unwrap();
        assert_eq!(two, json!({"path": ["a", "b"]}));
        let open = json!({"properties": {"path": {}}, "additionalProperties": true});
        assert_eq!(read(open, &["other=x"]).unwrap(), json!({"other": "x"}));
    }

    #[test]
    fn several_choices_in_one_word_are_told_how_to_be_written() {
        let of = |items: Value| json!({"properties": {"tags": {"type": "array", "items": items}}});
        for items in [
            json!({"type": "string", "enum": ["red", "dark blue", "green"]}),
            json!({"anyOf": [{"const": "red", "title": "Red"}, {"const": "dark blue"}, {"const": "green"}]}),
        ] {
            for given in ["red,green", "tan"] {
                let problem = read(of(items.clone()), &[&format!("tags={given}")]).unwrap_err();
                assert_eq!(
                    problem,
                    format!(
                        "`tags` takes red, dark blue, green, not `{given}`; for several, repeat it: tags=red 'tags=dark blue'"
                    )
                );
            }
            let several = read(of(items.clone()), &["tags=red", "tags=green"]).unwrap();
            assert_eq!(several, json!({"tags": ["red", "green"]}));
            assert_eq!(read(of(items), &["tags:=[\"red\"]"]).unwrap(), json!({"tags": ["red"]}));
        }
        // Other texts may be allowed beside the choices.
        let open = json!({"anyOf": [{"const": "red"}, {"type": "string"}]});
        assert_eq!(read(of(open), &["tags=tan"]).unwrap(), json!({"tags": ["tan"]}));
    }

    #[test]
    fn references_in_circles_end() {
        let circle = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(read(circle, &["a=x"]).unwrap(), json!({"a": "x"}));
    }
}
