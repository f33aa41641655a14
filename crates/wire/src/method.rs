//! The methods of the protocol, and what each asks of a request.

use crate::{error::RpcError, version::Generation};

/// Which member of the params the `Mcp-Name` header mirrors (T-24, G2-56).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSource {
    /// `params.name`
    Name,
    /// `params.uri`
    Uri,
    /// `params.taskId`
    TaskId,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal in $($era:ident)|+ $(, named by $source:ident)?;)*) => {
        /// A method that Longhaul has a name for. Whether a server serves it is the server's business.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method { $($(#[$doc])* $variant,)* }

        impl Method {
            /// Every method.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The method called `name` in that generation; `None` if it has none of this name.
            pub fn parse(name: &str, generation: Generation) -> Option<Self> {
                let method = match name {
                    $($name => Self::$variant,)*
                    _ => return None,
                };
                method.exists_in(generation).then_some(method)
            }

            /// Its name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Whether the generation has it.
            pub fn exists_in(self, generation: Generation) -> bool {
                match self { $(Self::$variant => [$(Generation::$era),+].contains(&generation),)* }
            }

            /// What its `Mcp-Name` header mirrors, if it needs one.
            pub const fn name_source(self) -> Option<NameSource> {
                match self { $($(Self::$variant => Some(NameSource::$source),)?)* _ => None }
            }
        }
    };
}

methods! {
    /// The legacy handshake.
    Initialize = "initialize" in Legacy;
    /// What a modern server is and can.
    Discover = "server/discover" in Modern;
    /// Are you there?
    Ping = "ping" in Legacy;
    /// The tools.
    ToolsList = "tools/list" in Legacy | Modern;
    /// Runs a tool.
    ToolsCall = "tools/call" in Legacy | Modern, named by Name;
    /// A task's present state.
    TasksGet = "tasks/get" in Legacy | Modern, named by TaskId;
    /// A task's result, waiting for it.
    TasksResult = "tasks/result" in Legacy;
    /// The caller's tasks.
    TasksList = "tasks/list" in Legacy;
    /// Ends a task.
    TasksCancel = "tasks/cancel" in Legacy | Modern, named by TaskId;
    /// Answers a task's questions.
    TasksUpdate = "tasks/update" in Modern, named by TaskId;
    /// The resources.
    ResourcesList = "resources/list" in Legacy | Modern;
    /// The families of resources.
    ResourceTemplatesList = "resources/templates/list" in Legacy | Modern;
    /// A resource's content.
    ResourcesRead = "resources/read" in Legacy | Modern, named by Uri;
    /// Watch a resource.
    ResourcesSubscribe = "resources/subscribe" in Legacy;
    /// Stop watching it.
    ResourcesUnsubscribe = "resources/unsubscribe" in Legacy;
    /// The prompts.
    PromptsList = "prompts/list" in Legacy | Modern;
    /// A prompt, filled in.
    PromptsGet = "prompts/get" in Legacy | Modern, named by Name;
    /// Completes an argument.
    CompletionComplete = "completion/complete" in Legacy | Modern;
    /// From which level on log messages are sent.
    LoggingSetLevel = "logging/setLevel" in Legacy;
    /// A stream of the notifications asked for.
    SubscriptionsListen = "subscriptions/listen" in Modern;
    /// The legacy handshake is complete.
    Initialized = "notifications/initialized" in Legacy;
    /// The sender no longer wants an answer.
    Cancelled = "notifications/cancelled" in Legacy | Modern;
    /// How far a request is.
    Progress = "notifications/progress" in Legacy | Modern;
    /// A log line.
    LogMessage = "notifications/message" in Legacy | Modern;
    /// A legacy task changed.
    TaskStatus = "notifications/tasks/status" in Legacy;
    /// A modern task changed.
    Tasks = "notifications/tasks" in Modern;
    /// The client's roots changed.
    RootsListChanged = "notifications/roots/list_changed" in Legacy;
    /// A modern subscription has begun.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" in Modern;
}

impl Method {
    /// As [`parse`](Self::parse), with the error to answer when there is no such method.
    ///
    /// # Errors
    /// −32601, HTTP 404 in the modern generation and 200 in the legacy one (T-28, G2-58).
    pub fn require(name: &str, generation: Generation) -> Result<Self, RpcError> {
        Self::parse(name, generation).ok_or_else(|| RpcError::method_not_found(generation, name))
    }

    /// Whether a modern request must declare the tasks extension to call it (G2-06).
    pub const fn needs_tasks_extension(self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksUpdate | Self::TasksCancel)
    }

    /// Whether it belongs to the tasks of the legacy core protocol (G1), which only 2025-11-25 has.
    pub const fn is_core_task(self) -> bool {
        matches!(
            self,
            Self::TasksGet | Self::TasksResult | Self::TasksList | Self::TasksCancel
        )
    }

    /// Whether `Mcp-Name` may be left out unless headers are strict: clients in use do so for tasks (conformance.md 4a).
    pub const fn name_may_be_absent(self) -> bool {
        self.needs_tasks_extension()
    }
}
