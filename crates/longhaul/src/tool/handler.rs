//! The functions that can be tools.

use super::{IntoToolOutput, ToolOutput};
use crate::{
    Arguments, Error, TaskContext,
    handler::{ArgumentsOnly, ContextAndArguments, ContextOnly, NoParameters, read, schema},
};
use longhaul_core::BoxFuture;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A function that can be a tool: async, with or without a [`TaskContext`], with or without [`Arguments`], in this order, and with a result that
/// implements [`IntoToolOutput`]. Its future must be `Send`: no `Rc`, and no guard of a `std::sync::Mutex`, may be held across an await. `In`
/// is the list of parameters and is always inferred.
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

    /// What calling it returns. It is required to be `Send` where a tool is made and not here, so that the compiler names the value that is not.
    #[doc(hidden)]
    type Future: Future<Output = Self::Output> + 'static;

    /// Starts it, unless it cannot read the arguments.
    #[doc(hidden)]
    fn call(&self, cx: TaskContext, arguments: &str) -> Result<Self::Future, Error>;

    /// Checks arguments that fit the schema: the type may be stricter than its schema.
    #[doc(hidden)]
    fn check(arguments: &Map<String, Value>) -> Result<(), String>;

    /// The JSON Schema of its arguments.
    #[doc(hidden)]
    fn input_schema() -> Value;
}

/// Checks that `A` can be read from the arguments.
pub(super) fn check<A: Arguments>(arguments: &Map<String, Value>) -> Result<(), String> {
    read::<A>(arguments).map(drop)
}

fn read_checked<A: Arguments>(arguments: &str) -> Result<A, Error> {
    serde_json::from_str(arguments)
        .map_err(|error| Error::internal(format_args!("arguments that passed all checks: {error}")))
}

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

            handlers!(@arguments $($args)?);
        }
    )*};
    (@arguments) => {
        fn check(_: &Map<String, Value>) -> Result<(), String> {
            Ok(())
        }

        fn input_schema() -> Value {
            schema::no_arguments()
        }
    };
    (@arguments $args:ident) => {
        fn check(arguments: &Map<String, Value>) -> Result<(), String> {
            check::<$args>(arguments)
        }

        fn input_schema() -> Value {
            $args::schema()
        }
    };
}

handlers! {
    [NoParameters] () = |function, _, _| Ok(function());
    [ContextOnly] (TaskContext) = |function, cx, _| Ok(function(cx));
    [ArgumentsOnly<A>] [A] (A) = |function, _, text| read_checked(text).map(function);
    [ContextAndArguments<A>] [A] (TaskContext, A) = |function, cx, text| read_checked(text).map(|arguments| function(cx, arguments));
}

type Call = dyn Fn(TaskContext, &str) -> BoxFuture<'static, Result<ToolOutput, Error>> + Send + Sync;
type Check = dyn Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync;

/// A handler with any parameters.
pub(super) struct BoxedToolHandler {
    pub(super) call: Box<Call>,
    pub(super) check: Arc<Check>,
}

impl BoxedToolHandler {
    pub(super) fn new<In: 'static, H>(handler: H) -> Self
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
