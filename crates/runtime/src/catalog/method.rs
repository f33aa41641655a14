//! Methods of a server's own, beside those of the protocol.

use super::HandlerError;
use crate::request::RequestContext;
use longhaul_core::{BoxFuture, Json};
use std::sync::Arc;

/// What comes before the slash in the protocol's own methods, and what JSON-RPC keeps for itself. Nobody else names a method so
/// (G2-59).
const RESERVED: [&str; 17] = [
    "client",
    "completion",
    "elicitation",
    "initialize",
    "logging",
    "mcp",
    "notifications",
    "ping",
    "prompts",
    "resources",
    "roots",
    "rpc",
    "sampling",
    "server",
    "subscriptions",
    "tasks",
    "tools",
];

/// A method of a server's own.
pub struct CustomMethod {
    name: Arc<str>,
    /// Answers it.
    pub handler: Arc<dyn MethodHandler>,
}

/// Answers requests of a method of a server's own, in both generations.
pub trait MethodHandler: Send + Sync + 'static {
    /// The result, an object, of a request with these params, `{}` if it has none; `_meta` is in them. A modern client cannot be asked
    /// anything here.
    fn call(self: Arc<Self>, params: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

/// A name that a method of a server's own cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a method of one's own: write a prefix that is yours, a slash and the rest, as in \"com.example/status\""
)]
pub struct InvalidMethodName(pub String);

impl CustomMethod {
    /// A method of this name.
    ///
    /// # Errors
    /// [`InvalidMethodName`] without a prefix, and for prefixes that the protocol uses or reserves.
    pub fn new(name: impl Into<Arc<str>>, handler: Arc<dyn MethodHandler>) -> Result<Self, InvalidMethodName> {
        let name = name.into();
        let own = name.split_once('/').is_some_and(|(prefix, rest)| {
            let first = prefix.split('.').next().unwrap_or_default();
            !first.is_empty()
                && !rest.is_empty()
                && !RESERVED.contains(&first)
                && name.bytes().all(|byte| byte.is_ascii_graphic())
        });
        if !own {
            return Err(InvalidMethodName(name.to_string()));
        }
        Ok(Self { name, handler })
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl MethodHandler for Nothing {
        fn call(self: Arc<Self>, _: Json, _: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn g2_59_a_method_of_ones_own_has_a_prefix_of_ones_own() {
        let taken = |name: &str| CustomMethod::new(name, Arc::new(Nothing)).is_ok();
        for name in ["com.example/status", "acme/x/y", "toolsmith/list"] {
            assert!(taken(name), "{name}");
        }
        for name in [
            "status",
            "tools/list",
            "tools/mine",
            "tasks/delete",
            "notifications/x",
            "rpc.discover/x",
            "/x",
            "acme/",
            "acme/a b",
            "ping",
            "",
        ] {
            assert!(!taken(name), "{name}");
        }
    }
}
