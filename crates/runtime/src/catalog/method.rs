//! Methods that a server's author answers: custom ones, and standard ones in place of the server's own answer.

use super::HandlerError;
use crate::question::RequestContext;
use longhaul_core::{BoxFuture, Json};
use std::sync::Arc;

/// What comes before the slash in the protocol's own methods, and what JSON-RPC keeps for itself. Nobody else names a method so
///.
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

/// The standard methods that an author may answer. All others act on what the server keeps: tasks, sessions, subscriptions.
const REPLACEABLE: [&str; 8] = [
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tools/list",
];

/// Why an author cannot answer a standard method, and what to do instead.
fn why_not_replaceable(name: &str) -> Option<&'static str> {
    Some(match name {
        "tools/call" => "because a call may become a task. Offer a tool, or set a `CallHandler`",
        "tasks/cancel" | "tasks/get" | "tasks/list" | "tasks/result" | "tasks/update" => "because it keeps the tasks",
        "initialize" | "ping" | "server/discover" => {
            "because it negotiates the protocol. What it says of itself is set on the server"
        }
        "resources/subscribe" | "resources/unsubscribe" | "subscriptions/listen" => {
            "because it keeps the subscriptions. `on_subscribe` learns of those to resources. Report that a resource or a list has changed, and subscribers are notified"
        }
        _ => return None,
    })
}

/// A method that the author answers: a custom one, or a standard one.
pub struct CustomMethod {
    name: Arc<str>,
    /// Answers it.
    pub handler: Arc<dyn MethodHandler>,
}

/// Answers requests of a method, in both generations.
pub trait MethodHandler: Send + Sync + 'static {
    /// The result, an object, of a request with these params, `{}` if it has none; `_meta` is in them. A modern client can be asked only in
    /// `prompts/get` and `resources/read`.
    fn call(self: Arc<Self>, params: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>>;
}

/// A method that an author cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMethodName {
    /// It is no standard method, and has no prefix of the author's.
    #[error(
        "{0:?} is no name for a method of one's own: write a prefix that is yours, a slash and the rest, as in \"com.example/status\""
    )]
    NotYours(String),
    /// The server answers it.
    #[error("the server answers it itself, {0}")]
    OfTheServer(&'static str),
}

impl CustomMethod {
    /// A method of this name.
    ///
    /// # Errors
    /// [`InvalidMethodName`] for a standard method that only the server can answer, and for any other name whose prefix is missing or is one that
    /// the protocol uses or reserves.
    pub fn new(name: impl Into<Arc<str>>, handler: Arc<dyn MethodHandler>) -> Result<Self, InvalidMethodName> {
        let name = name.into();
        if let Some(why) = why_not_replaceable(&name) {
            return Err(InvalidMethodName::OfTheServer(why));
        }
        if !REPLACEABLE.contains(&&*name) && !is_prefixed(&name) {
            return Err(InvalidMethodName::NotYours(name.to_string()));
        }
        Ok(Self { name, handler })
    }

    /// Whether it is a standard method, answered in place of the server.
    pub fn is_standard(&self) -> bool {
        REPLACEABLE.contains(&&*self.name)
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// Whether a name has a prefix that the protocol neither uses nor reserves.
fn is_prefixed(name: &str) -> bool {
    name.split_once('/').is_some_and(|(prefix, rest)| {
        let first = prefix.split('.').next().unwrap_or_default();
        !first.is_empty()
            && !rest.is_empty()
            && !RESERVED.contains(&first)
            && name.bytes().all(|byte| byte.is_ascii_graphic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoopHandler;

    impl MethodHandler for NoopHandler {
        fn call(self: Arc<Self>, _: Json, _: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn g2_59_a_method_of_ones_own_has_a_prefix_of_ones_own() {
        let taken = |name: &str| CustomMethod::new(name, Arc::new(NoopHandler)).is_ok();
        for name in ["com.example/status", "acme/x/y", "toolsmith/list"] {
            assert!(taken(name), "{name}");
        }
        for name in [
            "status",
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
    #[test]
    fn a_standard_method_is_answered_by_the_author_or_by_the_server() {
        let make = |name: &str| CustomMethod::new(name, Arc::new(NoopHandler));
        for name in REPLACEABLE {
            assert!(make(name).unwrap().is_standard(), "{name}");
        }
        assert!(!make("com.example/status").unwrap().is_standard());
        for name in ["tools/call", "tasks/get", "initialize", "subscriptions/listen"] {
            let Err(InvalidMethodName::OfTheServer(why)) = make(name).map(drop) else {
                panic!("{name} was accepted");
            };
            assert!(why.starts_with("because"), "{why}");
        }
    }
}
