//! The catalog: the tools, prompts and resources that a server offers. It may change while the server runs.
//!
//! Readers take a [`Snapshot`], which never changes. A writer replaces the snapshot, and increments the version of what it has changed.

mod author_handlers;
mod completeness;
mod follower;
mod handler;
mod method;
mod pending_tools;
mod prompt;
mod resource;
mod session;
mod tool;
mod tool_visibility;
mod unavailable;
mod uri_template;
mod violation;

pub use author_handlers::{AuthorHandlers, CallAnswer, CallHandler, CallRequest, FallbackHandler, NotificationHandler};
pub use completeness::Completeness;
pub use follower::{Audience, FollowError, Followed, ResourceFollower, ResourceUpdate, Subscriber};
pub use handler::{Completer, HandlerError, Intake};
pub use method::{CustomMethod, InvalidMethodName, MethodHandler};
pub use pending_tools::PendingTools;
pub use prompt::{Prompt, PromptHandler};
pub use resource::{Resource, ResourceHandler, ResourceTemplate};
pub use session::{SessionChange, SessionLog, SessionLogs};
pub use tool::{
    ArgumentError, BLOCKED_TIMEOUT, CallValue, ConcurrencyKey, ConfirmSettings, DEFAULT_HANDOFF, FOLLOW_TOOLS, Handoff,
    INPUT_TIMEOUT, LabelsOf, Tool, ToolError, ToolSettings, executor_definition,
};
pub use tool_visibility::{ListClient, ToolVisibility};
pub use unavailable::Unavailable;
pub use uri_template::{InvalidTemplate, UriTemplate};

pub(crate) use tool::{is_durable, retry_and_definition};

use crate::question::Requestor;
use arc_swap::ArcSwap;
use indexmap::IndexMap;
use longhaul_core::{Json, LogLevel, Millis, Owner, Principal, TaskPolicy};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{broadcast, watch};

/// How many resource updates a slow listener may be behind before it misses some.
const UPDATES_KEPT: usize = 256;

/// Entries by name, in the order they were first put, or that of [`Catalog::order_tools`].
type Entries<T> = IndexMap<Arc<str>, Arc<T>, foldhash::fast::RandomState>;

/// How often each kind of thing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions {
    /// Tools.
    pub tools: u64,
    /// Prompts.
    pub prompts: u64,
    /// Resources and resource templates.
    pub resources: u64,
}

impl Versions {
    /// How often each kind of thing has changed since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            tools: self.tools - before.tools,
            prompts: self.prompts - before.prompts,
            resources: self.resources - before.resources,
        }
    }

    fn add(&mut self, more: Self) {
        self.tools += more.tools;
        self.prompts += more.prompts;
        self.resources += more.resources;
    }
}

/// Everything that was offered at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// By name.
    pub tools: Entries<Tool>,
    /// By name.
    pub prompts: Entries<Prompt>,
    /// By URI.
    pub resources: Entries<Resource>,
    /// By URI template, tried in this order.
    pub templates: Entries<ResourceTemplate>,
    /// By name.
    pub methods: Entries<CustomMethod>,
    /// What else the author answers.
    pub author: Arc<AuthorHandlers>,
    /// Is asked about subscriptions to resources, but for those of tasks.
    pub follower: Option<Arc<dyn ResourceFollower>>,
    /// Knows which tools may still come.
    pub pending_tools: Option<Arc<dyn PendingTools>>,
    /// Knows which of the tools a client is shown; all clients see all without it.
    pub tool_visibility: Option<Arc<dyn ToolVisibility>>,
    /// What the model is told of how to use what is offered, in place of the instructions that the server was made with.
    pub instructions: Option<Arc<str>>,
    /// What the server is called, in place of the name that it was made with: an object with `name` and `version`.
    pub server_info: Option<Json>,
    /// What another server declares behind this one: an object with `extensions` and `experimental`.
    pub relayed_capabilities: Option<Json>,
    /// What `tools/list` has besides the tools: an object.
    pub tool_list_members: Option<Json>,
    /// Why there are no tools, if that is a failure.
    pub unavailable: Option<Unavailable>,
    /// A list that was made from a snapshot of the same version is still valid.
    pub versions: Versions,
}

/// The names and values of a template's variables.
pub type UriVariables = Vec<(String, String)>;

impl Snapshot {
    /// The handler of the resource, and the names and values of its template's variables.
    pub fn find_resource(&self, uri: &str) -> Option<(Arc<dyn ResourceHandler>, UriVariables)> {
        if let Some(resource) = self.resources.get(uri) {
            return Some((Arc::clone(&resource.handler), Vec::new()));
        }
        self.templates.values().find_map(|template| {
            let variables = template.uri_template.match_uri(uri)?;
            Some((Arc::clone(&template.handler), variables))
        })
    }

    /// When a plain call of `tool` is handed off, in milliseconds; `None` if it is not.
    pub fn handoff_of(&self, tool: &Tool) -> Option<Millis> {
        let settings = tool.settings();
        match settings.handoff {
            _ if settings.policy == TaskPolicy::Never => None,
            Handoff::Off => None,
            Handoff::After(millis) => Some(millis),
            Handoff::Default => {
                let is_taken = FOLLOW_TOOLS.iter().any(|name| self.tools.contains_key(*name));
                (!is_taken).then_some(tool::DEFAULT_HANDOFF)
            }
        }
    }
}

/// What a server offers now.
pub struct Catalog {
    now: ArcSwap<Snapshot>,
    /// One writer at a time.
    writing: Mutex<()>,
    /// Also counts changes at other nodes.
    changed: watch::Sender<Versions>,
    completeness: watch::Sender<Completeness>,
    updated: broadcast::Sender<ResourceUpdate>,
    log_level: watch::Sender<LogLevel>,
    session_changed: broadcast::Sender<SessionChange>,
    logged: broadcast::Sender<Arc<SessionLog>>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::of(Snapshot::default())
    }
}

/// Two tools have one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two tools are named {0}")]
pub struct Duplicate(pub Arc<str>);

impl Catalog {
    /// A catalog of these tools.
    ///
    /// # Errors
    /// [`Duplicate`] if two have one name.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, Duplicate> {
        let mut snapshot = Snapshot::default();
        for tool in tools {
            let name = Arc::clone(tool.name());
            if snapshot.tools.insert(Arc::clone(&name), Arc::new(tool)).is_some() {
                return Err(Duplicate(name));
            }
        }
        Ok(Self::of(snapshot))
    }

    fn of(snapshot: Snapshot) -> Self {
        Self {
            changed: watch::Sender::new(snapshot.versions),
            completeness: watch::Sender::default(),
            now: ArcSwap::from_pointee(snapshot),
            writing: Mutex::new(()),
            updated: broadcast::Sender::new(UPDATES_KEPT),
            log_level: watch::Sender::new(LogLevel::Info),
            session_changed: broadcast::Sender::new(UPDATES_KEPT),
            logged: broadcast::Sender::new(UPDATES_KEPT),
        }
    }

    /// What is offered now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now.load_full()
    }

    /// [`Snapshot::handoff_of`], as it is now.
    pub fn handoff_of(&self, tool: &Tool) -> Option<Millis> {
        self.now.load().handoff_of(tool)
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<Arc<Tool>> {
        self.now.load().tools.get(name).cloned()
    }

    /// Adds a prompt, or replaces the one of the same name.
    pub fn put_prompt(&self, prompt: Prompt) {
        self.change(|new| {
            new.prompts.insert(Arc::clone(&prompt.name), Arc::new(prompt));
            new.versions.prompts += 1;
        });
    }

    /// Removes a prompt; returns whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(|new| {
            let removed = new.prompts.shift_remove(name).is_some();
            new.versions.prompts += u64::from(removed);
            removed
        })
    }

    /// Adds a resource, or replaces the one of the same URI.
    pub fn put_resource(&self, resource: Resource) {
        self.change(|new| {
            new.resources.insert(Arc::clone(&resource.uri), Arc::new(resource));
            new.versions.resources += 1;
        });
    }

    /// Removes a resource; returns whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(|new| {
            let removed = new.resources.shift_remove(uri).is_some();
            new.versions.resources += u64::from(removed);
            removed
        })
    }

    /// Adds a resource template, or replaces the one of the same URI template.
    pub fn put_template(&self, template: ResourceTemplate) {
        self.change(|new| {
            let key = Arc::clone(template.uri_template.as_str());
            new.templates.insert(key, Arc::new(template));
            new.versions.resources += 1;
        });
    }

    /// Removes a resource template; returns whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.change(|new| {
            let removed = new.templates.shift_remove(uri_template).is_some();
            new.versions.resources += u64::from(removed);
            removed
        })
    }

    /// The method of this name, if an author answers it.
    pub fn method(&self, name: &str) -> Option<Arc<CustomMethod>> {
        self.now.load().methods.get(name).cloned()
    }

    /// Has the author answer a method, in place of the one who answered it before.
    pub fn put_method(&self, method: CustomMethod) {
        self.change(|new| new.methods.insert(Arc::clone(method.name()), Arc::new(method)));
    }

    /// Removes a method that the author answers; returns whether there was one.
    pub fn remove_method(&self, name: &str) -> bool {
        self.change(|new| new.methods.shift_remove(name).is_some())
    }

    /// The author's handler of every `tools/call`, if there is one.
    pub fn call_handler(&self) -> Option<Arc<dyn CallHandler>> {
        self.now.load().author.calls.clone()
    }

    /// The author's handler of unknown methods, if there is one.
    pub fn fallback_method(&self) -> Option<Arc<dyn FallbackHandler>> {
        self.now.load().author.fallback_method.clone()
    }

    /// Has the author answer what is no method with a name.
    pub fn set_author_handlers(&self, author: AuthorHandlers) {
        self.change(|new| new.author = Arc::new(author));
    }

    /// Reports that the answer to `tools/list` has changed, which an author gives.
    pub fn tool_list_changed(&self) {
        self.change(|new| new.versions.tools += 1);
    }

    /// Reports that the answer to `prompts/list` has changed, which an author gives.
    pub fn prompt_list_changed(&self) {
        self.change(|new| new.versions.prompts += 1);
    }

    /// Reports that the answer to `resources/list` or `resources/templates/list` has changed, which an author gives.
    pub fn resource_list_changed(&self) {
        self.change(|new| new.versions.resources += 1);
    }

    /// Reports that the content of a resource has changed.
    pub fn resource_updated(&self, uri: impl Into<Arc<str>>) {
        self.report(ResourceUpdate {
            uri: uri.into(),
            principal: None,
            relayed: None,
            audience: Audience::AllNodes,
        });
    }

    /// Reports that the content of a resource has changed for this principal. Nobody else is notified.
    pub fn resource_updated_for(&self, principal: &Principal, uri: impl Into<Arc<str>>) {
        self.report(ResourceUpdate {
            uri: uri.into(),
            principal: Some(principal.clone()),
            relayed: None,
            audience: Audience::AllNodes,
        });
    }

    /// Reports an update.
    pub fn report(&self, update: ResourceUpdate) {
        // Nobody may be listening.
        let _ = self.updated.send(update);
    }

    /// A subscriber, for a [`ResourceFollower`].
    pub fn subscriber(&self, owner: Owner, requestor: Arc<Requestor>) -> Subscriber {
        Subscriber {
            owner,
            requestor,
            updated: self.updated.clone(),
        }
    }

    /// Has subscriptions to resources followed, but for those of tasks. Without a follower a subscription is accepted if there is such a resource, or if an author
    /// answers `resources/read`, and the author reports changes.
    pub fn set_follower(&self, follower: Arc<dyn ResourceFollower>) {
        self.change(|new| new.follower = Some(follower));
    }

    /// Has calls of tools that are not there yet wait for them.
    pub fn set_pending_tools(&self, pending: Arc<dyn PendingTools>) {
        self.change(|new| new.pending_tools = Some(pending));
    }

    /// Sets what another server declares behind this one: an object with `extensions` and `experimental`.
    pub fn set_relayed_capabilities(&self, relayed: Option<Json>) {
        self.change(|new| new.relayed_capabilities = relayed);
    }

    /// Sets what knows which of the tools a client is shown.
    pub fn set_tool_visibility(&self, visibility: Arc<dyn ToolVisibility>) {
        self.change(|new| new.tool_visibility = Some(visibility));
    }

    /// Sets what the model is told of how to use what is offered, in place of the instructions that the server was made with. Clients that are connected are
    /// not told: MCP has no notification of it.
    pub fn set_instructions(&self, instructions: Option<Arc<str>>) {
        self.change(|new| new.instructions = instructions);
    }

    /// Sets what the server is called in `initialize` and `server/discover`, in place of the name that it was made with.
    pub fn set_server_info(&self, info: Option<Json>) {
        self.change(|new| new.server_info = info);
    }

    /// Sets what `tools/list` has besides the tools: the members of this object, unless the server writes them itself.
    pub fn set_tool_list_members(&self, members: Option<Json>) {
        self.change(|new| {
            new.versions.tools += u64::from(new.tool_list_members != members);
            new.tool_list_members = members;
        });
    }

    /// Sets why there are no tools, for as long as there are none: a list of them, and calls, are answered with it.
    pub fn set_unavailable(&self, unavailable: Option<Unavailable>) {
        self.change(|new| new.unavailable = unavailable);
    }

    /// Says whether all that is offered is known. Requests for it wait until then.
    pub fn set_completeness(&self, completeness: Completeness) {
        self.completeness.send_replace(completeness);
    }

    /// Whether at least so much is known of what is offered.
    pub fn is_known(&self, wanted: Completeness) -> bool {
        *self.completeness.borrow() >= wanted
    }

    /// Completes when at least so much is known.
    pub async fn known(&self, wanted: Completeness) {
        // The sender lives as long as the catalog.
        let _ = self.completeness.subscribe().wait_for(|now| *now >= wanted).await;
    }

    /// A client asks for log messages of `level` and above.
    pub fn ask_for_logs(&self, level: LogLevel) {
        if level < *self.log_level.borrow() {
            self.log_level.send_if_modified(|lowest| {
                let is_lower = level < *lowest;
                *lowest = level.min(*lowest);
                is_lower
            });
        }
    }

    /// The lowest level of log messages that any client has asked for since the start, at most [`LogLevel::Info`].
    pub fn log_level(&self) -> watch::Receiver<LogLevel> {
        self.log_level.subscribe()
    }

    /// Reports what has become of a session.
    pub fn session_changed(&self, change: SessionChange) {
        // Nobody may be listening.
        let _ = self.session_changed.send(change);
    }

    /// Follows what becomes of sessions.
    pub fn changes_of_sessions(&self) -> broadcast::Receiver<SessionChange> {
        self.session_changed.subscribe()
    }

    /// Sends log messages that belong to no request.
    pub fn session_logs(&self) -> SessionLogs {
        SessionLogs(self.logged.clone())
    }

    /// Follows log messages that belong to no request.
    pub fn logged(&self) -> broadcast::Receiver<Arc<SessionLog>> {
        self.logged.subscribe()
    }

    /// Reports that other nodes, which clients reach as well as this one, have changed what they offer so often.
    pub fn changed_elsewhere(&self, changes: Versions) {
        self.changed.send_modify(|changed| changed.add(changes));
    }

    /// Follows which kinds of things change, here and at other nodes.
    pub fn changes(&self) -> watch::Receiver<Versions> {
        self.changed.subscribe()
    }

    /// Follows which resources are updated.
    pub fn updates(&self) -> broadcast::Receiver<ResourceUpdate> {
        self.updated.subscribe()
    }

    /// The definition must have been put into the store before: see [`Engine::put_tool`](crate::Engine::put_tool).
    pub(crate) fn put_tool(&self, tool: Tool) {
        self.change(|new| {
            new.tools.insert(Arc::clone(tool.name()), Arc::new(tool));
            new.versions.tools += 1;
        });
    }

    pub(crate) fn remove_tool(&self, name: &str) -> bool {
        self.change(|new| {
            let removed = new.tools.shift_remove(name).is_some();
            new.versions.tools += u64::from(removed);
            removed
        })
    }

    /// Lists the tools of these names in this order, behind all others.
    pub fn order_tools(&self, names: &[String]) {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            places.entry(name).or_insert(place + 1);
        }
        let place = |name: &Arc<str>| places.get(&**name).copied().unwrap_or_default();
        self.change(|new| {
            if !new.tools.keys().is_sorted_by_key(place) {
                new.tools.sort_by_cached_key(|name, _| place(name));
                new.versions.tools += 1;
            }
        });
    }

    fn change<T>(&self, write: impl FnOnce(&mut Snapshot) -> T) -> T {
        let _writing = self.writing.lock();
        let mut new = Snapshot::clone(&self.now.load());
        let before = new.versions;
        let written = write(&mut new);
        let versions = new.versions;
        self.now.store(Arc::new(new));
        if versions != before {
            self.changed.send_modify(|changed| changed.add(versions.since(before)));
        }
        written
    }
}
