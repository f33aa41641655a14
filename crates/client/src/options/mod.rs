//! Options of a connection.

pub(crate) mod clock;
pub(crate) mod http_headers;
pub(crate) mod input;
pub(crate) mod logging;
pub(crate) mod other_notifications;
pub(crate) mod params_text;
pub(crate) mod proxy;
pub(crate) mod wire_observer;

use crate::{
    EraCache, HttpHeaders, InputHandler, Logging, OtherNotifications, Proxy, SystemClock, TokenProvider, WireObserver,
    options::params_text::object_of,
};
use longhaul_core::{Clock, Json, JsonMembers, ParsedJson};
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc, time::Duration};

/// Options of a connection. Start from [`Options::named`] and change what you need.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// `clientInfo`.
    pub(crate) client: ParsedJson,
    /// Which era to speak. Default: [`EraChoice::Auto`].
    pub era: EraChoice,
    /// The eras of servers, which connections with clones of these options share.
    pub era_cache: EraCache,
    /// Timeout of every request except `tools/call`, up to the last byte of its response. Default: 30 seconds.
    pub request_timeout: Duration,
    /// Timeout of `tools/call`, which a server may answer only when the tool has finished. Default: none.
    pub call_timeout: Option<Duration>,
    /// The largest response, or event of a response that is a stream, in bytes. Default: 64 MiB.
    pub max_response: usize,
    /// How a server is reached over HTTP. Default: [`Proxy::Environment`].
    pub proxy: Proxy,
    /// Headers that every HTTP request carries, such as those a proxy wants. Headers of MCP and of HTTP itself take precedence. They are sent to the server
    /// of the connection alone. Clones of these options, and their connections, share them. Default: none.
    pub headers: HttpHeaders,
    /// Gives the tokens for an HTTP server that requires them. Use one for each server: a token must not be sent to another one. Default: none.
    pub tokens: Option<Arc<dyn TokenProvider>>,
    /// Answers what servers ask the user. Without one, the client declares that it cannot be asked. The wait for a task that asks all the same ends with
    /// [`RequestError::InputRequired`](crate::RequestError::InputRequired), and the task goes on asking; a question before there is a task ends the call with an
    /// error. [`Inputs::deferred`](crate::Inputs::deferred) waits until somebody else has answered.
    pub inputs: Option<Arc<dyn InputHandler>>,
    /// Sees every message as it is sent and received.
    pub wire: Option<Arc<dyn WireObserver>>,
    /// Whether legacy servers may ask for the answers of `inputs` to sampling and elicitation requests as tasks of this client, which they poll
    /// (MCP 2025-11-25, Tasks). A connection keeps up to 64 of them, for at most a day. Default: no.
    pub hosts_tasks: bool,
    /// Which log messages servers are asked for, and who gets them. Default: none.
    pub logging: Option<Logging>,
    /// Gets the notifications that MCP does not define. Default: they are ignored.
    pub other_notifications: Option<OtherNotifications>,
    /// `extensions` and `experimental` of capabilities that the client declares for others, such as one in front of which it is: these members, as they are written.
    /// Default: none.
    pub relayed_capabilities: JsonMembers,
    /// The clock that times polls and retries.
    pub clock: Arc<dyn Clock>,
    /// The seed of the random jitter between polls. Set it in tests that need the same waits each time.
    pub jitter_seed: Option<u64>,
}

impl Options {
    /// The defaults, for a client with this name and version.
    pub fn named(name: impl Into<String>, version: impl Into<String>) -> Self {
        let (name, version): (String, String) = (name.into(), version.into());
        Self {
            client: json!({"name": name, "version": version}).into(),
            era: EraChoice::Auto,
            era_cache: EraCache::default(),
            request_timeout: Duration::from_secs(30),
            call_timeout: None,
            max_response: 64 << 20,
            proxy: Proxy::Environment,
            headers: HttpHeaders::default(),
            tokens: None,
            inputs: None,
            wire: None,
            hosts_tasks: false,
            logging: None,
            other_notifications: None,
            relayed_capabilities: JsonMembers::new(),
            clock: Arc::new(SystemClock),
            jitter_seed: None,
        }
    }

    /// Names the client as it names itself (`clientInfo`), for a connection on behalf of one. Without a name and a version the name stays.
    ///
    /// ```
    /// use longhaul_client::{Json, Options};
    /// let options = Options::named("gateway", "1.0").on_behalf_of(&Json::trusted(r#"{"name":"editor","version":"2.1"}"#));
    /// ```
    #[must_use]
    pub fn on_behalf_of(mut self, client: &Json) -> Self {
        let client = ParsedJson::from(client);
        // Both members are required.
        if client["name"].is_string() && client["version"].is_string() {
            self.client = client;
        }
        self
    }

    /// The capabilities that every server is told.
    pub(crate) fn declared(&self) -> JsonMembers {
        self.with_relayed(self.own_capabilities())
    }

    fn own_capabilities(&self) -> Map<String, Value> {
        let inputs = self.inputs.as_deref();
        inputs
            .map(|inputs| inputs.capabilities().declaration())
            .unwrap_or_default()
    }

    fn with_relayed(&self, own: Map<String, Value>) -> JsonMembers {
        let own = own.into_iter().map(|(name, value)| (name, value.into()));
        own.chain(self.relayed_capabilities.clone()).collect()
    }

    /// The capabilities that a legacy server is told.
    pub(crate) fn declared_to_legacy(&self) -> Json {
        let mut declared = self.own_capabilities();
        let roots_change = self.inputs.as_deref().is_some_and(InputHandler::roots_change);
        if let Some(roots) = declared.get_mut("roots").filter(|_| roots_change) {
            roots["listChanged"] = true.into();
        }
        let mut requests = Map::new();
        for (capability, request) in [("sampling", "createMessage"), ("elicitation", "create")] {
            if self.hosts_tasks && declared.contains_key(capability) {
                requests.insert(capability.to_owned(), json!({request: {}}));
            }
        }
        if !requests.is_empty() {
            declared.insert(
                "tasks".to_owned(),
                json!({"list": {}, "cancel": {}, "requests": requests}),
            );
        }
        object_of(&self.with_relayed(declared))
    }

    /// Whether an answer to this request may be a task of this client.
    pub(crate) fn hosts(&self, method: &str) -> bool {
        let capability = method.split('/').next().unwrap_or_default();
        let is_eligible = matches!(method, "sampling/createMessage" | "elicitation/create");
        self.hosts_tasks && is_eligible && self.own_capabilities().contains_key(capability)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// Which protocol revisions a connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EraChoice {
    /// What the server prefers: the first request finds out.
    #[default]
    Auto,
    /// Only 2026-07-28.
    Modern,
    /// Only 2025-11-25 and earlier.
    Legacy,
    /// 2025-11-25 and earlier, and 2026-07-28 with a server that has no other.
    PreferLegacy,
}
