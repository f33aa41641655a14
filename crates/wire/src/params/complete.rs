//! The params of `completion/complete`.

use super::{optional_text_map, present, required, text, wrong};
use crate::{
    json::{self, object::object},
    protocol::RpcError,
};
use serde_json::value::RawValue;
use std::borrow::Cow;

object! { struct Ref { kind = "type", name = "name", uri = "uri", } }
object! { struct Argument { name = "name", value = "value", } }
object! { struct Context { arguments = "arguments", } }

/// The params of `completion/complete`.
#[derive(Debug, Clone)]
pub struct Complete<'a> {
    /// The prompt or resource the argument belongs to.
    pub reference: Reference<'a>,
    /// The argument's name.
    pub argument: Cow<'a, str>,
    /// The text typed so far.
    pub value: Cow<'a, str>,
    /// The other arguments already filled in: an object of strings, if present.
    pub context: Option<&'a RawValue>,
}

/// A prompt or resource whose arguments can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference<'a> {
    /// A prompt, by name.
    Prompt(Cow<'a, str>),
    /// A resource or resource template, by URI.
    Resource(Cow<'a, str>),
}

pub(super) fn read<'a>(
    reference: Option<&'a RawValue>,
    argument: Option<&'a RawValue>,
    context: Option<&'a RawValue>,
) -> Result<Complete<'a>, RpcError> {
    let mut named = Argument::default();
    named
        .fill(required(argument, "argument", "an object")?.get())
        .map_err(|_| wrong("argument", "an object with one name and one value"))?;
    Ok(Complete {
        reference: read_reference(required(reference, "ref", "an object")?)?,
        argument: text(named.name, "argument.name")?,
        value: text(named.value, "argument.value")?,
        context: read_context(context)?,
    })
}

fn read_reference(raw: &RawValue) -> Result<Reference<'_>, RpcError> {
    let mut members = Ref::default();
    members
        .fill(raw.get())
        .map_err(|_| wrong("ref", "an object with each member once"))?;
    match members.kind.and_then(json::string).as_deref() {
        Some("ref/prompt") => text(members.name, "ref.name").map(Reference::Prompt),
        Some("ref/resource") => text(members.uri, "ref.uri").map(Reference::Resource),
        _ => Err(wrong("ref.type", "ref/prompt or ref/resource")),
    }
}

fn read_context(context: Option<&RawValue>) -> Result<Option<&RawValue>, RpcError> {
    let Some(raw) = present(context) else { return Ok(None) };
    let mut members = Context::default();
    members
        .fill(raw.get())
        .map_err(|_| wrong("context", "an object with arguments at most once"))?;
    optional_text_map(members.arguments, "context.arguments")
}
