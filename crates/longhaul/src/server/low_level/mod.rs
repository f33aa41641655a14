//! Below tools, prompts and resources: methods, calls, notifications and subscriptions that the author answers with functions of JSON.

mod builder;
pub(crate) mod extension;
pub(crate) mod method;
pub(crate) mod notification;
mod params;
pub(crate) mod subscription;
mod tool_call;

pub(crate) use method::Method;
pub use params::{MethodParams, MethodResult};
pub use tool_call::{CallAnswer, ToolCall};

use crate::{DefinitionError, Error, ServerHandle};
use extension::Extension;
use longhaul_core::{BoxFuture, Json};
use longhaul_runtime::{AuthorHandlers, Catalog, FallbackHandler, ResourceFollower};
use method::{BuiltMethod, Fallback};
use notification::Notification;
use std::{collections::HashMap, sync::Arc};
use subscription::SubscribeFunction;

/// What the author answers, beside methods with a name.
#[derive(Default)]
pub(crate) struct AuthorFunctions {
    pub(crate) fallback_method: Option<method::FallbackFunction>,
    pub(crate) notifications: Vec<Notification>,
    pub(crate) fallback_notification: Option<notification::Function>,
    pub(crate) on_subscribe: Option<SubscribeFunction>,
    pub(crate) extensions: Vec<Extension>,
}

/// Methods and functions that were checked and bound to a server.
pub(crate) struct BuiltFunctions {
    methods: Vec<BuiltMethod>,
    handlers: AuthorHandlers,
    follower: Option<Arc<dyn ResourceFollower>>,
}

impl AuthorFunctions {
    /// Binds them to `server`; `methods` are checked.
    pub(crate) fn build(self, methods: Vec<BuiltMethod>, server: &ServerHandle) -> BuiltFunctions {
        let fallback = |function| -> Arc<dyn FallbackHandler> {
            let server = server.clone();
            Arc::new(Fallback { function, server })
        };
        let notifications = self.notifications.into_iter();
        let handlers = AuthorHandlers {
            calls: None,
            fallback_method: self.fallback_method.map(fallback),
            notifications: notifications
                .map(|notification| (notification.name, notification::handler(notification.function, server)))
                .collect::<HashMap<_, _>>(),
            fallback_notification: (self.fallback_notification).map(|function| notification::handler(function, server)),
            extensions: (self.extensions.into_iter())
                .map(|extension| (extension.name, Json::from(extension.settings)))
                .collect(),
        };
        BuiltFunctions {
            methods,
            handlers,
            follower: (self.on_subscribe).map(|function| subscription::follower(function, server)),
        }
    }
}

impl BuiltFunctions {
    pub(crate) fn put_into(mut self, catalog: &Catalog) {
        for method in self.methods {
            match method {
                BuiltMethod::Named(method) => catalog.put_method(method),
                BuiltMethod::ToolCalls(handler) => self.handlers.calls = Some(handler),
            }
        }
        catalog.set_author_handlers(self.handlers);
        if let Some(follower) = self.follower {
            catalog.set_follower(follower);
        }
    }
}

/// The future of a function.
type FunctionFuture<R> = BoxFuture<'static, Result<R, Error>>;

/// What comes before the slash in a name of one's own, if it is one: with something behind the slash, and visible ASCII characters alone.
fn prefix_of(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_once('/')?;
    let is_name = !prefix.is_empty() && !rest.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then_some(prefix)
}

/// A mistake of what is of this kind and has this name.
fn definition_error(kind: &str, name: &str, why: impl Into<String>) -> DefinitionError {
    DefinitionError {
        what: format!("{kind} `{name}`"),
        why: why.into(),
    }
}
