//! The arguments of handlers, and which parameters a handler may have.

use super::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::marker::PhantomData;

/// The arguments of a tool, a prompt or a resource template: implemented by every type that derives `Deserialize` and [`JsonSchema`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it; it must own its data"
)]
pub trait Arguments: DeserializeOwned + Send + 'static {
    /// Their JSON Schema.
    fn schema() -> Value;
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Arguments for T {
    fn schema() -> Value {
        schema::of_input::<T>()
    }
}

/// No arguments: `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "object", "additionalProperties": false})
    }
}

/// Reads arguments as their type.
///
/// # Errors
/// Which argument cannot be read, and why; the caller is shown this text.
pub(crate) fn read<'a, A: Arguments>(arguments: impl Deserializer<'a>) -> Result<A, String> {
    serde_path_to_error::deserialize(arguments).map_err(|error| format!("The arguments cannot be read: {error}"))
}

/// Marks handlers without parameters.
pub struct NoParameters;
/// Marks handlers that take arguments only.
pub struct ArgumentsOnly<A>(PhantomData<A>);
/// Marks handlers that take a context only.
pub struct ContextOnly;
/// Marks handlers that take a context and arguments.
pub struct ContextAndArguments<A>(PhantomData<A>);
