//! Arguments that are repeated in HTTP headers (`x-mcp-header`). The annotations are read once from a tool's input schema; a server
//! then checks the headers of each call, and a client writes them.

use super::header::{Headers, PARAM_PREFIX, decode_value, encode_value};
use crate::{
    json::{self, for_each_member},
    protocol::RpcError,
};
use serde_json::{Map, Value, value::RawValue};
use std::borrow::Cow;

const KEYWORD: &str = "x-mcp-header";

/// The annotated arguments of a tool.
///
/// ```
/// use longhaul_wire::{Headers, ParamHeaders};
/// let schema = serde_json::json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
/// let mirrored = ParamHeaders::of(&schema).unwrap();
/// let headers = Headers::collect([("mcp-param-region", b"us-west1".as_slice())]).unwrap();
/// let arguments = serde_json::from_str(r#"{"region":"us-west1"}"#).unwrap();
/// assert!(mirrored.check(&headers, Some(arguments)).is_ok());
/// assert_eq!(mirrored.check(&Headers::default(), Some(arguments)).unwrap_err().code(), -32020);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParamHeaders(Vec<ParamHeader>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ParamHeader {
    /// `Mcp-Param-` and the annotation.
    name: String,
    /// The path to the argument: at least one key.
    path: Vec<String>,
}

/// An invalid `x-mcp-header`. A server should not offer the tool that has it, and a client must not use it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at `{path}` {error}")]
pub struct InvalidAnnotation {
    /// The path of the argument, joined with dots.
    pub path: String,
    /// The rule it breaks.
    pub error: AnnotationError,
}

/// The rule that an `x-mcp-header` annotation breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// It is not a token of RFC 9110.
    #[error("is not a header name: letters, digits and !#$%&'*+-.^_`|~")]
    NotAToken,
    /// The argument's type cannot be carried in a header.
    #[error(
        "is on an argument whose type is not `integer`, `string` or `boolean` alone; leave an optional argument out of `required` instead of \
         allowing `null` (in Rust: `#[serde(default)]` instead of `Option`)"
    )]
    NotPrimitive,
    /// Another argument has the same header name. Case is ignored.
    #[error("names a header that another argument names already")]
    Repeated,
    /// It is reached through a keyword other than `properties`, so its argument has no fixed path.
    #[error("is not reached through `properties` alone")]
    Unreachable,
}

impl ParamHeaders {
    /// Reads the annotations of an input schema.
    ///
    /// # Errors
    /// [`InvalidAnnotation`] for the first annotation that breaks a rule.
    pub fn of(input_schema: &Value) -> Result<Self, InvalidAnnotation> {
        let mut found = Self::default();
        found.read(input_schema, &mut Vec::new())?;
        Ok(found)
    }

    /// Whether no argument is annotated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read(&mut self, schema: &Value, path: &mut Vec<String>) -> Result<(), InvalidAnnotation> {
        let Some(members) = schema.as_object() else {
            return Ok(());
        };
        if let Some(annotation) = members.get(KEYWORD) {
            self.annotated(annotation, members.get("type"), path)?;
        }
        for (keyword, value) in members {
            if keyword == "properties" {
                for (name, property) in value.as_object().into_iter().flatten() {
                    path.push(name.clone());
                    self.read(property, path)?;
                    path.pop();
                }
            } else if holds_annotation(keyword, value) {
                return Err(invalid(path, AnnotationError::Unreachable));
            }
        }
        Ok(())
    }

    fn annotated(
        &mut self,
        annotation: &Value,
        kind: Option<&Value>,
        path: &[String],
    ) -> Result<(), InvalidAnnotation> {
        let token = annotation
            .as_str()
            .filter(|token| !token.is_empty() && token.bytes().all(is_token_byte))
            .ok_or_else(|| invalid(path, AnnotationError::NotAToken))?;
        if !matches!(kind.and_then(Value::as_str), Some("integer" | "string" | "boolean")) {
            return Err(invalid(path, AnnotationError::NotPrimitive));
        }
        let name = format!("{PARAM_PREFIX}{token}");
        if self.0.iter().any(|known| known.name.eq_ignore_ascii_case(&name)) {
            return Err(invalid(path, AnnotationError::Repeated));
        }
        self.0.push(ParamHeader {
            name,
            path: path.to_vec(),
        });
        Ok(())
    }

    /// Checks that the headers of a modern `tools/call` equal its arguments. Each annotated argument that is present needs its header;
    /// one that is absent or null must have none. Numbers are compared by value. An object or array without a header passes here:
    /// validation against the schema refuses it.
    ///
    /// # Errors
    /// −32020/400 naming the header that is missing, repeated, malformed or different.
    pub fn check(&self, headers: &Headers<'_>, arguments: Option<&RawValue>) -> Result<(), RpcError> {
        if self.is_empty() {
            return Ok(());
        }
        let top = match arguments {
            Some(arguments) => self.top_level(arguments)?,
            None => vec![None; self.0.len()],
        };
        for (mirrored, top) in self.0.iter().zip(top) {
            let argument = match top {
                Some(top) => mirrored.descend(top)?,
                None => None,
            };
            mirrored.check(headers, argument.filter(|raw| !json::is_null(raw)))?;
        }
        Ok(())
    }

    /// Finds the first key of every path in one pass, since arguments may be large.
    fn top_level<'a>(&self, arguments: &'a RawValue) -> Result<Vec<Option<&'a RawValue>>, RpcError> {
        let mut found = vec![None; self.0.len()];
        let mut twice = None;
        let read = for_each_member(arguments.get(), |key, value| {
            for (mirrored, slot) in self.0.iter().zip(&mut found) {
                if mirrored.path[0] == key && slot.replace(value).is_some() {
                    twice.get_or_insert(mirrored);
                }
            }
        });
        match (read, twice) {
            (_, Some(mirrored)) => Err(mirrored.ambiguous()),
            // Not an object: validation against the schema refuses it.
            (Err(_), None) => Ok(vec![None; self.0.len()]),
            (Ok(()), None) => Ok(found),
        }
    }

    /// The headers for `arguments`: names and encoded values. Absent and null arguments have none.
    pub fn values(&self, arguments: &Map<String, Value>) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(|mirrored| {
            let (first, rest) = mirrored.path.split_first()?;
            let argument = rest
                .iter()
                .try_fold(arguments.get(first)?, |value, name| value.get(name))?;
            let text = match argument {
                Value::Null => return None,
                Value::String(text) => Cow::Borrowed(text.as_str()),
                Value::Number(number) => Cow::Owned(decimal(number.as_i64(), number)),
                other => Cow::Owned(other.to_string()),
            };
            Some((mirrored.name.as_str(), encode_value(&text).into_owned()))
        })
    }
}

impl ParamHeader {
    /// Follows the rest of the path from `top`.
    fn descend<'a>(&self, top: &'a RawValue) -> Result<Option<&'a RawValue>, RpcError> {
        let mut at = top;
        for step in &self.path[1..] {
            let mut found = None;
            let mut twice = false;
            let read = for_each_member(at.get(), |key, value| {
                if key == step {
                    twice |= found.replace(value).is_some();
                }
            });
            match found.filter(|_| read.is_ok()) {
                Some(_) if twice => return Err(self.ambiguous()),
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn check(&self, headers: &Headers<'_>, argument: Option<&RawValue>) -> Result<(), RpcError> {
        let mut lines = headers.params(&self.name);
        let (header, repeated) = (lines.next(), lines.next().is_some());
        match (header, argument) {
            _ if repeated => Err(self.refuse("occurs more than once")),
            (None, None) => Ok(()),
            (None, Some(argument)) if argument.get().starts_with(['{', '[']) => Ok(()),
            (None, Some(_)) => Err(self.refuse("is missing")),
            (Some(_), None) => Err(self.refuse("mirrors an argument that is not there")),
            (Some(header), Some(argument)) => match decode_value(header) {
                Ok(header) if mirrors(&header, argument) => Ok(()),
                Ok(_) => Err(self.refuse("does not equal its argument")),
                Err(_) => Err(self.refuse("is not ASCII, or not base64 of UTF-8 in =?base64?…?=")),
            },
        }
    }

    fn refuse(&self, why: &str) -> RpcError {
        RpcError::header_mismatch(format!(
            "Header {} {why}: params.arguments.{}",
            self.name,
            self.path.join(".")
        ))
    }

    fn ambiguous(&self) -> RpcError {
        self.refuse("mirrors an argument that occurs twice")
    }
}

/// Whether a decoded header equals an argument.
fn mirrors(header: &str, argument: &RawValue) -> bool {
    match argument.get().as_bytes().first() {
        Some(b'"') => json::string(argument).is_some_and(|text| text == header),
        Some(b'-' | b'0'..=b'9') => is_same_number(header, argument.get()),
        _ => matches!(argument.get(), "true" | "false") && argument.get() == header,
    }
}

/// Compares numbers by value: `42.0` equals `42`. Integers are compared exactly, other numbers as `f64`.
fn is_same_number(header: &str, argument: &str) -> bool {
    let integer = |text: &str| text.parse::<i128>().ok();
    let number = |text: &str| serde_json::from_str::<f64>(text).ok();
    // Rust would also parse `+5` and `inf`, which are not JSON numbers.
    let Some(said) = number(header) else { return false };
    match (integer(header), integer(argument)) {
        (Some(header), Some(argument)) => header == argument,
        _ => number(argument) == Some(said),
    }
}

fn decimal(integer: Option<i64>, number: &serde_json::Number) -> String {
    let whole = number
        .as_f64()
        .filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
    match (integer, whole) {
        (None, Some(whole)) => format!("{whole:.0}"),
        _ => number.to_string(),
    }
}

/// Whether there is an annotation anywhere below a schema keyword other than `properties`.
fn holds_annotation(keyword: &str, value: &Value) -> bool {
    match (keyword, value) {
        // These keywords hold the annotation itself or data, not schemas.
        (KEYWORD | "const" | "default" | "enum" | "examples", _) => false,
        // These keywords hold a map of schemas.
        ("$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties", Value::Object(named)) => {
            named.values().any(is_annotated)
        }
        (_, Value::Array(schemas)) => schemas.iter().any(is_annotated),
        (_, schema) => is_annotated(schema),
    }
}

fn is_annotated(schema: &Value) -> bool {
    let members = schema.as_object();
    members.is_some_and(|members| {
        members.contains_key(KEYWORD) || members.iter().any(|(keyword, value)| holds_annotation(keyword, value))
    })
}

fn invalid(path: &[String], error: AnnotationError) -> InvalidAnnotation {
    InvalidAnnotation {
        path: path.join("."),
        error,
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
