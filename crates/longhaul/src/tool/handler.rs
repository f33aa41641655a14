//! The shapes of functions that can be tools.

use super::{IntoToolOutput, ToolOutput};
use crate::{Error, TaskContext, schema};
use longhaul_core::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{marker::PhantomData, sync::Arc};

/// The arguments of a tool: implemented by every type that derives `Deserialize` and [`JsonSchema`].
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

/// A function that can be a tool: async, with or without a [`TaskContext`], with or without [`Arguments`], in this order, and with a result that
/// implements [`IntoToolOutput`]. Its future must be `Send`: no `Rc`, and no guard of a `std::sync::Mutex`, may be held across an await. `In`
/// tells the shapes apart and is always inferred.
///
/// ```
/// use longhaul::{Json, TaskContext, Tool, ToolResult};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Sum { sum: i64 }
///
/// Tool::new("ping", async || "pong");
/// Tool::new("add", async |Add { a, b }: Add| Json(Sum { sum: a + b }));
/// Tool::new("whoami", async |cx: TaskContext| cx.principal().as_str().to_owned());
/// async fn slow_add(cx: TaskContext, args: Add) -> ToolResult<String> {
///     cx.status("adding").await?;
///     Ok((args.a + args.b).to_string())
/// }
/// Tool::new("slow_add", slow_add);
/// ```
#[diagnostic::on_unimplemented(
    message = "this function cannot be a tool",
    label = "not a tool",
    note = "a tool is `async fn() -> R`, `async fn(Args) -> R`, `async fn(TaskContext) -> R` or `async fn(TaskContext, Args) -> R`",
    note = "`Args` derives `serde::Deserialize` and `schemars::JsonSchema`",
    note = "what it captures is `Send + Sync + 'static`; in a closure, write the types of the parameters out"
)]
pub trait ToolHandler<In>: Send + Sync + 'static {
    /// What the function returns.
    #[doc(hidden)]
    type Output;

    /// What calling it returns. That it is `Send` is asked for where a tool is made and not here: so the compiler names the value that is not.
    #[doc(hidden)]
    type Future: Future<Output = Self::Output> + 'static;

    /// Starts it, unless it cannot read the arguments.
    #[doc(hidden)]
    fn call(&self, cx: TaskContext, arguments: &str) -> Result<Self::Future, Error>;

    /// Says what is wrong with arguments that fit the schema and that the function cannot read all the same.
    #[doc(hidden)]
    fn check(arguments: &Map<String, Value>) -> Result<(), String>;

    /// The JSON Schema of its arguments.
    #[doc(hidden)]
    fn input_schema() -> Value;
}

/// Whether `A` can be read from arguments that fit the schema: a type may want more than its schema says.
pub(super) fn check<A: Arguments>(arguments: &Map<String, Value>) -> Result<(), String> {
    read::<A>(arguments).map(drop)
}

/// The arguments as their type.
///
/// # Errors
/// Which of them cannot be read, and why, in words for the caller.
pub(crate) fn read<'a, A: Arguments>(arguments: impl Deserializer<'a>) -> Result<A, String> {
    serde_path_to_error::deserialize(arguments).map_err(|error| format!("The arguments cannot be read: {error}"))
}

fn read_checked<A: Arguments>(arguments: &str) -> Result<A, Error> {
    serde_json::from_str(arguments)
        .map_err(|error| Error::internal(format_args!("arguments that passed all checks: {error}")))
}

/// Marks functions that take no arguments.
pub struct Nothing;
/// Marks functions of arguments alone.
pub struct OfArguments<A>(PhantomData<A>);
/// Marks functions of a context alone.
pub struct OfContext;
/// Marks functions of a context and arguments.
pub struct OfBoth<A>(PhantomData<A>);

macro_rules! handlers {
    ($([$marker:ty] $([$args:ident])? ($($parameter:ty),*) = |$function:ident, $cx:pat_param, $text:pat_param| $call:expr;)*) => {$(
        impl<F, W, R $(, $args: Arguments)?> ToolHandler<$marker> for F
        where
            F: Fn($($parameter),*) -> W + Send + Sync + 'static,
            W: Future<Output = R> + 'static,
        {
            type Output = R;
            type Future = W;

            fn call(&self, $cx: TaskContext, $text: &str) -> Result<W, Error> {
                let $function = self;
                $call
            }

            handlers!(@about $($args)?);
        }
    )*};
    (@about) => {
        fn check(_: &Map<String, Value>) -> Result<(), String> {
            Ok(())
        }

        fn input_schema() -> Value {
            schema::nothing()
        }
    };
    (@about $args:ident) => {
        fn check(arguments: &Map<String, Value>) -> Result<(), String> {
            check::<$args>(arguments)
        }

        fn input_schema() -> Value {
            $args::schema()
        }
    };
}

handlers! {
    [Nothing] () = |function, _, _| Ok(function());
    [OfContext] (TaskContext) = |function, cx, _| Ok(function(cx));
    [OfArguments<A>] [A] (A) = |function, _, text| read_checked(text).map(function);
    [OfBoth<A>] [A] (TaskContext, A) = |function, cx, text| read_checked(text).map(|arguments| function(cx, arguments));
}

type Call = dyn Fn(TaskContext, &str) -> BoxFuture<'static, Result<ToolOutput, Error>> + Send + Sync;
type Check = dyn Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync;

/// A handler of any shape.
pub(super) struct Work {
    pub(super) call: Box<Call>,
    pub(super) check: Arc<Check>,
}

impl Work {
    pub(super) fn of<In: 'static, H>(handler: H) -> Self
    where
        H: ToolHandler<In, Output: IntoToolOutput, Future: Send>,
    {
        Self {
            call: Box::new(move |cx, arguments| match handler.call(cx, arguments) {
                Ok(work) => Box::pin(async move { work.await.into_tool_output() }),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }),
            check: Arc::new(H::check),
        }
    }
}
