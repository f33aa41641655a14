//! Arguments that a tool wants to see in headers too (`x-mcp-header`, T-29, T-30): read once from its input schema, then compared with
//! each call, or written for it.

use crate::{
    error::RpcError,
    header::{Headers, decode_value, encode_value},
    json,
    object::for_each_member,
};
use serde_json::{Map, Value, value::RawValue};
use std::borrow::Cow;

const KEYWORD: &str = "x-mcp-header";
/// What a mirrored argument's header begins with.
pub(crate) const PREFIX: &str = "Mcp-Param-";

/// The annotated arguments of a tool. Most tools have none; comparing costs nothing then.
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
    /// The argument's place: keys from the root of the arguments, at least one.
    path: Vec<String>,
}

/// An annotation that breaks the rules. A client must do without the tool that has it; a server should not offer it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at `{place}` {flaw}")]
pub struct InvalidAnnotation {
    /// Where in the schema, as a path of arguments.
    pub place: String,
    /// What is wrong with it.
    pub flaw: AnnotationFlaw,
}

/// Which rule an annotation breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationFlaw {
    /// It is no token of RFC 9110: empty, not a string, or with blanks or other signs.
    #[error("is not a header name: letters, digits and !#$%&'*+-.^_`|~")]
    NotAToken,
    /// The argument is of no type that a header can carry.
    #[error(
        "is not at one of `integer`, `string` and `boolean` alone; what may be absent is left out of `required` rather than `null` (in \
         Rust: `#[serde(default)]` rather than `Option`)"
    )]
    NotPrimitive,
    /// Another argument has the same name, upper and lower case being the same.
    #[error("names a header for the second time")]
    Repeated,
    /// It is below something else than `properties`, so that where its value stands depends on the arguments.
    #[error("is not reached through `properties` alone")]
    Unreachable,
}

impl ParamHeaders {
    /// Reads the annotations of an input schema.
    ///
    /// # Errors
    /// [`InvalidAnnotation`] for the first that breaks a rule of protocol.md T-29 (types as C-19 decides).
    pub fn of(input_schema: &Value) -> Result<Self, InvalidAnnotation> {
        let mut found = Self::default();
        found.read(input_schema, &mut Vec::new())?;
        Ok(found)
    }

    /// Whether there are none.
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
                return Err(invalid(path, AnnotationFlaw::Unreachable));
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
            .ok_or_else(|| invalid(path, AnnotationFlaw::NotAToken))?;
        if !matches!(kind.and_then(Value::as_str), Some("integer" | "string" | "boolean")) {
            return Err(invalid(path, AnnotationFlaw::NotPrimitive));
        }
        let name = format!("{PREFIX}{token}");
        if self.0.iter().any(|known| known.name.eq_ignore_ascii_case(&name)) {
            return Err(invalid(path, AnnotationFlaw::Repeated));
        }
        self.0.push(ParamHeader {
            name,
            path: path.to_vec(),
        });
        Ok(())
    }

    /// Whether the headers of a modern `tools/call` mirror its arguments: what is there must be mirrored, what is absent or null must
    /// not be, integers count by their value. An argument of another type than its schema allows is left to the check of the
    /// arguments if no header speaks of it.
    ///
    /// # Errors
    /// −32020/400 naming the header that is missing, repeated, garbled or different (T-30).
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

    /// The first step of every path, in one pass over arguments that may be large.
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
            // No object: the check of the arguments says so.
            (Err(_), None) => Ok(vec![None; self.0.len()]),
            (Ok(()), None) => Ok(found),
        }
    }

    /// The headers for `arguments`, names and encoded values; absent and null arguments have none.
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
    /// The rest of the path. What stands where an object should be has nothing at it.
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

    /// Which of the two is meant nobody can say, so no header can equal it.
    fn ambiguous(&self) -> RpcError {
        self.refuse("mirrors an argument that occurs twice")
    }
}

/// Whether the decoded header says what the argument says.
fn mirrors(header: &str, argument: &RawValue) -> bool {
    match argument.get().as_bytes().first() {
        Some(b'"') => json::string(argument).is_some_and(|text| text == header),
        Some(b'-' | b'0'..=b'9') => is_same_number(header, argument.get()),
        _ => matches!(argument.get(), "true" | "false") && argument.get() == header,
    }
}

/// By value: `42.0` is `42`. Integers are compared exactly however large, everything else as JSON readers keep it.
fn is_same_number(header: &str, argument: &str) -> bool {
    let integer = |text: &str| text.parse::<i128>().ok();
    let number = |text: &str| serde_json::from_str::<f64>(text).ok();
    // What is no JSON number says no number, though Rust might read one (`+5`, `inf`).
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

/// Whether a schema keyword other than `properties` has an annotation somewhere below it.
fn holds_annotation(keyword: &str, value: &Value) -> bool {
    match (keyword, value) {
        // The annotation itself, and what holds data, not schemas.
        (KEYWORD | "const" | "default" | "enum" | "examples", _) => false,
        // Schemas by names that mean nothing here.
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

fn invalid(path: &[String], flaw: AnnotationFlaw) -> InvalidAnnotation {
    InvalidAnnotation {
        place: path.join("."),
        flaw,
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
