//! The methods of the protocol, and what each requires of a request.

use super::{error::RpcError, version::Generation};

/// The param that the `Mcp-Name` header repeats.
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
        /// A method that Longhaul knows. A server need not serve all of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method { $($(#[$doc])* $variant,)* }

        impl Method {
            /// Every method.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The method `name` of `generation`; `None` if there is none.
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

            /// The param that its `Mcp-Name` header repeats, if it needs that header.
            pub const fn name_source(self) -> Option<NameSource> {
                match self { $($(Self::$variant => Some(NameSource::$source),)?)* _ => None }
            }
        }
    };
}

methods! {
    /// The legacy handshake.
    Initialize = "initialize" in Legacy;
    /// A modern server's name, version and capabilities.
    Discover = "server/discover" in Modern;
    /// Checks that the peer is alive.
    Ping = "ping" in Legacy;
    /// Lists the tools.
    ToolsList = "tools/list" in Legacy | Modern;
    /// Runs a tool.
    ToolsCall = "tools/call" in Legacy | Modern, named by Name;
    /// A task's current state.
    TasksGet = "tasks/get" in Legacy | Modern, named by TaskId;
    /// Waits for a task's result.
    TasksResult = "tasks/result" in Legacy;
    /// Lists the caller's tasks.
    TasksList = "tasks/list" in Legacy;
    /// Cancels a task.
    TasksCancel = "tasks/cancel" in Legacy | Modern, named by TaskId;
    /// Deletes a finished task with all that belongs to it. Not MCP's: an extension of Longhaul.
    TasksDelete = "dev.longhaul/tasks/delete" in Legacy | Modern, named by TaskId;
    /// Cancels the call that was made under an idempotency key. Not MCP's: an extension of Longhaul.
    CallsCancel = "dev.longhaul/calls/cancel" in Legacy | Modern, named by Name;
    /// Answers a task's input requests.
    TasksUpdate = "tasks/update" in Modern, named by TaskId;
    /// Lists the resources.
    ResourcesList = "resources/list" in Legacy | Modern;
    /// Lists the resource templates.
    ResourceTemplatesList = "resources/templates/list" in Legacy | Modern;
    /// A resource's content.
    ResourcesRead = "resources/read" in Legacy | Modern, named by Uri;
    /// Subscribes to a resource.
    ResourcesSubscribe = "resources/subscribe" in Legacy;
    /// Ends the subscription to a resource.
    ResourcesUnsubscribe = "resources/unsubscribe" in Legacy;
    /// Lists the prompts.
    PromptsList = "prompts/list" in Legacy | Modern;
    /// A prompt, filled in.
    PromptsGet = "prompts/get" in Legacy | Modern, named by Name;
    /// Completes an argument.
    CompletionComplete = "completion/complete" in Legacy | Modern;
    /// Sets the lowest level of log messages that are sent.
    LoggingSetLevel = "logging/setLevel" in Legacy;
    /// Opens a stream of notifications.
    SubscriptionsListen = "subscriptions/listen" in Modern;
    /// The legacy handshake is complete.
    Initialized = "notifications/initialized" in Legacy;
    /// The sender cancels a request.
    Cancelled = "notifications/cancelled" in Legacy | Modern;
    /// The progress of a request.
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
    /// Whether any generation has a method of this name.
    pub fn is_known(name: &str) -> bool {
        [Generation::Legacy, Generation::Modern]
            .into_iter()
            .any(|generation| Self::parse(name, generation).is_some())
    }

    /// Does the same as [`parse`](Self::parse), with an error to answer an unknown method with.
    ///
    /// # Errors
    /// −32601, HTTP 404 in the modern generation and 200 in the legacy one.
    pub fn require(name: &str, generation: Generation) -> Result<Self, RpcError> {
        Self::parse(name, generation).ok_or_else(|| RpcError::method_not_found(generation, name))
    }

    /// Whether a modern request must declare the tasks extension to call it.
    pub const fn needs_tasks_extension(self) -> bool {
        matches!(
            self,
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel | Self::TasksDelete
        )
    }

    /// Whether modern results of it have caching hints.
    pub const fn is_cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::ResourceTemplatesList
                | Self::ResourcesRead
        )
    }

    /// Whether it is about the tasks of revision 2025-11-25, the only legacy revision that has them.
    pub const fn is_about_legacy_tasks(self) -> bool {
        matches!(
            self,
            Self::TasksGet | Self::TasksResult | Self::TasksList | Self::TasksCancel | Self::TasksDelete
        )
    }

    /// Whether `Mcp-Name` may be absent unless headers are strict: some clients leave it out of `tasks/*`.
    pub const fn name_may_be_absent(self) -> bool {
        self.needs_tasks_extension()
    }
}
