//! The functions of prompts, resources and resource templates.

use super::arguments::{ArgumentsOnly, ContextAndArguments, ContextOnly, NoParameters, read};
use crate::{Arguments, Error, RequestContext};
use longhaul_core::BoxFuture;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};

/// The arguments of a prompt or the variables of a URI template, by name.
pub(crate) type TextArguments = BTreeMap<String, String>;

/// A function that can fill in a prompt or read a resource: async, with or without a [`RequestContext`], with or without arguments, in this
/// order. Its future must be `Send`. `In` is the list of parameters and is always inferred.
///
/// The arguments of prompts and the variables of URI templates are text. They are read into any type that derives `Deserialize` and
/// `JsonSchema` and whose members are strings, numbers, booleans, plain enums or options of those.
#[diagnostic::on_unimplemented(
    message = "this function cannot answer a request",
    label = "not a handler",
    note = "it is `async fn() -> R`, `async fn(Args) -> R`, `async fn(RequestContext) -> R` or `async fn(RequestContext, Args) -> R`",
    note = "`Args` derives `serde::Deserialize` and `schemars::JsonSchema`",
    note = "what it captures is `Send + Sync + 'static`; in a closure, write the types of the parameters out"
)]
pub trait RequestHandler<In>: Send + Sync + 'static {
    /// What the function returns.
    #[doc(hidden)]
    type Output;

    /// What calling it returns. It is required to be `Send` where a handler is passed and not here, so that the compiler names the value that is not.
    #[doc(hidden)]
    type Future: Future<Output = Self::Output> + 'static;

    /// Starts it, or says which arguments it cannot read.
    #[doc(hidden)]
    fn call(&self, cx: RequestContext, arguments: Value) -> Result<Self::Future, String>;

    /// The JSON Schema of its arguments; `None` if it takes none.
    #[doc(hidden)]
    fn schema() -> Option<Value>;
}

macro_rules! handlers {
    ($([$marker:ty] $([$args:ident])? ($($parameter:ty),*) = |$function:ident, $cx:pat_param, $given:pat_param| $call:expr, $schema:expr;)*) => {$(
        impl<F, W, R $(, $args: Arguments)?> RequestHandler<$marker> for F
        where
            F: Fn($($parameter),*) -> W + Send + Sync + 'static,
            W: Future<Output = R> + 'static,
        {
            type Output = R;
            type Future = W;

            fn call(&self, $cx: RequestContext, $given: Value) -> Result<W, String> {
                let $function = self;
                Ok($call)
            }

            fn schema() -> Option<Value> {
                $schema
            }
        }
    )*};
}

handlers! {
    [NoParameters] () = |function, _, _| function(), None;
    [ContextOnly] (RequestContext) = |function, cx, _| function(cx), None;
    [ArgumentsOnly<A>] [A] (A) = |function, _, given| function(read(given)?), Some(A::schema());
    [ContextAndArguments<A>] [A] (RequestContext, A) = |function, cx, given| function(cx, read(given)?), Some(A::schema());
}

type Call<R> = dyn Fn(RequestContext, Value) -> BoxFuture<'static, Result<R, Error>> + Send + Sync;

/// A handler with any parameters.
pub(crate) struct BoxedRequestHandler<R> {
    call: Arc<Call<R>>,
    /// The schema of its arguments; `None` if it takes none.
    pub(crate) schema: Option<Value>,
}

impl<R: Send + 'static> BoxedRequestHandler<R> {
    /// Boxes a handler. `finish` converts its output; `invalid_arguments` makes the error for arguments that it cannot read.
    pub(crate) fn new<In, H>(
        handler: H,
        finish: impl Fn(H::Output) -> Result<R, Error> + Copy + Send + Sync + 'static,
        invalid_arguments: fn(String) -> Error,
    ) -> Self
    where
        H: RequestHandler<In, Output: 'static, Future: Send>,
    {
        Self {
            schema: H::schema(),
            call: Arc::new(move |cx, arguments| match handler.call(cx, arguments) {
                Ok(work) => Box::pin(async move { finish(work.await) }),
                Err(why) => Box::pin(std::future::ready(Err(invalid_arguments(why)))),
            }),
        }
    }

    pub(crate) fn run(&self, cx: RequestContext, texts: TextArguments) -> BoxFuture<'static, Result<R, Error>> {
        (self.call)(cx, values(self.schema.as_ref(), texts))
    }
}

/// The schemas of the arguments, by name.
pub(crate) fn properties(schema: Option<&Value>) -> Option<&Map<String, Value>> {
    schema?.get("properties")?.as_object()
}

/// The names of the required arguments.
pub(crate) fn required(schema: Option<&Value>) -> impl Iterator<Item = &str> {
    let names = schema.and_then(|schema| schema["required"].as_array());
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Converts texts to the types of the schema: `5` for an integer is 5. A text that does not fit stays text, and reading it fails.
fn values(schema: Option<&Value>, texts: TextArguments) -> Value {
    let properties = properties(schema);
    let value = |(name, text): (String, String)| {
        let kind = properties.and_then(|properties| properties.get(&name));
        let value = match kind {
            Some(kind)
                if !allows(kind, "string")
                    && ["integer", "number", "boolean"].iter().any(|other| allows(kind, other)) =>
            {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }
            _ => Value::String(text),
        };
        (name, value)
    };
    Value::Object(texts.into_iter().map(value).collect())
}

/// Whether a schema allows values of that type.
fn allows(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(any) => any.iter().any(|one| one == kind),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Row {
        table: String,
        id: u64,
        deep: Option<bool>,
    }

    #[test]
    fn texts_are_read_as_the_type_of_their_field() {
        let schema = Row::schema();
        let texts =
            |id: &str| TextArguments::from([("table".to_owned(), "5".to_owned()), ("id".to_owned(), id.to_owned())]);
        let row = read::<Row>(values(Some(&schema), texts("7"))).unwrap();
        assert_eq!((row.table.as_str(), row.id, row.deep), ("5", 7, None));
        let wrong = read::<Row>(values(Some(&schema), texts("seven"))).unwrap_err();
        assert!(wrong.contains("u64"), "{wrong}");
    }
}
