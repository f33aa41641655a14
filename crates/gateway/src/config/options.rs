//! What is configured of an upstream.

use crate::JobTools;
use http::HeaderMap;
use longhaul_client::{ChildOptions, EraChoice, TokenProvider};
use longhaul_core::{Millis, Principal, Retry, TaskPolicy, ToolPattern};
use longhaul_runtime::Handoff;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// An MCP server of someone else.
///
/// ```
/// use longhaul_client::ChildOptions;
/// use longhaul_gateway::{Target, UpstreamOptions};
/// let files = UpstreamOptions::new("files", Target::Command(ChildOptions::new("npx", ["-y", "@modelcontextprotocol/server-filesystem", "/srv"])));
/// assert!(!files.shared);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamOptions {
    /// Its name, unique in a gateway: letters, digits, `-` and `_`.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// Which revisions of MCP to speak with it.
    pub era: EraChoice,
    /// Whether all clients use one connection to it. It is told then that nobody can be asked anything.
    pub shared: bool,
    /// Which of its tools are offered.
    pub tools: ToolSelection,
    /// Settings of its tools. Of several rules that fit a tool, the first one that has a setting counts.
    pub rules: Vec<ToolRule>,
    /// How many of its calls run at once; more wait in order. `None` for no limit.
    pub concurrency: Option<usize>,
    /// What the names of its tools and prompts begin with, if those of several upstreams have prefixes. By default its name.
    pub prefix: Option<String>,
    /// Whether clients are shown its name, title and icons as those of this server.
    pub presented: bool,
    /// Tools that belong together and are offered as one.
    pub jobs: Vec<JobTools>,
    /// After how long a silence a call is given up, in milliseconds: the upstream has answered neither the call nor a ping. `None` for never. Many servers answer nothing
    /// while a tool of theirs runs, so this must be longer than any call of such a one. Default: an hour.
    pub hung_after: Option<Millis>,
}

/// The default of [`UpstreamOptions::hung_after`], in milliseconds.
const HUNG_AFTER: Millis = 3_600_000;

impl UpstreamOptions {
    /// An upstream whose tools are all offered, with the default settings.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            era: EraChoice::Auto,
            shared: false,
            tools: ToolSelection::default(),
            rules: Vec::new(),
            concurrency: None,
            prefix: None,
            presented: false,
            jobs: Vec::new(),
            hung_after: Some(HUNG_AFTER),
        }
    }
}

impl UpstreamOptions {
    /// What its names begin with, where they have prefixes.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

/// Where an upstream is.
#[derive(Clone)]
pub enum Target {
    /// A child process, spoken with over its standard input and output. It is started again when it has exited.
    Command(ChildOptions),
    /// An HTTP server.
    Http {
        /// Its `http://` or `https://` URL.
        url: String,
        /// Headers that each request carries.
        headers: HeaderMap,
        /// Gives the gateway's own tokens for it. The tokens of clients are never passed on.
        tokens: Option<UpstreamTokens>,
    },
}

/// The tokens of an upstream.
#[derive(Clone)]
pub enum UpstreamTokens {
    /// One login for all clients.
    Shared(Arc<dyn TokenProvider>),
    /// A login for each principal. The lists of the upstream are read with that of [`Principal::local`].
    PerPrincipal(Arc<dyn PrincipalTokens>),
}

/// The logins of principals at an upstream.
pub trait PrincipalTokens: Send + Sync {
    /// The tokens that connections of this principal show. A provider without a token should fail, with what the principal can do: a request without one could
    /// be answered as anyone's.
    fn of(&self, principal: &Principal) -> Arc<dyn TokenProvider>;
}

impl UpstreamTokens {
    /// Those for a connection of this principal; `None` for one that all share.
    pub(crate) fn of(&self, principal: Option<&Principal>) -> Arc<dyn TokenProvider> {
        match (self, principal) {
            (Self::Shared(tokens), _) => Arc::clone(tokens),
            (Self::PerPrincipal(tokens), Some(principal)) => tokens.of(principal),
            (Self::PerPrincipal(tokens), None) => tokens.of(&Principal::local()),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared(one), Self::Shared(other)) => Arc::ptr_eq(one, other),
            (Self::PerPrincipal(one), Self::PerPrincipal(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Target {
    /// Whether each principal has a login of its own.
    pub(crate) fn has_login_per_principal(&self) -> bool {
        matches!(
            self,
            Self::Http {
                tokens: Some(UpstreamTokens::PerPrincipal(_)),
                ..
            }
        )
    }
}

/// Two HTTP targets are equal only if they have the same token provider, not one like it.
impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Command(one), Self::Command(other)) => {
                (&one.program, &one.args, &one.env, &one.cwd) == (&other.program, &other.args, &other.env, &other.cwd)
            }
            (
                Self::Http { url, headers, tokens },
                Self::Http {
                    url: other_url,
                    headers: other_headers,
                    tokens: other_tokens,
                },
            ) => {
                let has_same_tokens = match (tokens, other_tokens) {
                    (Some(one), Some(other)) => one.is_same(other),
                    (one, other) => one.is_none() && other.is_none(),
                };
                url == other_url && headers == other_headers && has_same_tokens
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(child) => f.debug_tuple("Command").field(&child.program).finish_non_exhaustive(),
            // Headers may be credentials.
            Self::Http { url, .. } => f.debug_struct("Http").field("url", url).finish_non_exhaustive(),
        }
    }
}

/// Which tools of an upstream are offered, and under which names. Patterns are for the upstream's own names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSelection {
    /// Only those that fit one of these; all if there are none.
    pub allow: Vec<ToolPattern>,
    /// None that fits one of these, also if it is allowed.
    pub deny: Vec<ToolPattern>,
    /// Other names, by the upstream's.
    pub rename: BTreeMap<String, String>,
}

impl ToolSelection {
    /// Whether the tool with this name of the upstream is offered.
    pub fn offers(&self, tool: &str) -> bool {
        let fits = |patterns: &[ToolPattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        (self.allow.is_empty() || fits(&self.allow)) && !fits(&self.deny)
    }
}

/// Settings for the tools of an upstream whose names fit a pattern. What is `None` is left to the next rule, and then to the default.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRule {
    /// For which tools, by the upstream's names.
    pub tools: ToolPattern,
    /// Which calls become tasks. By default those that last 5 seconds; where the upstream makes tasks of a tool itself, all at once.
    pub task: Option<TaskPolicy>,
    /// Whether a call may be made again when it is not known what became of it. By default what the tool's `idempotentHint` and `readOnlyHint` say.
    pub idempotent: Option<bool>,
    /// When a waiting client without tasks is told how to follow the call. By default [`Handoff::Default`].
    pub handoff: Option<Handoff>,
    /// From the creation to the end of all work, in milliseconds.
    pub deadline: Option<Millis>,
    /// From the end to the deletion, in milliseconds.
    pub retention: Option<Millis>,
    /// How many calls of the tool run at once.
    pub concurrency: Option<usize>,
    /// When failed attempts are retried.
    pub retry: Option<Retry>,
}

impl ToolRule {
    /// A rule without settings.
    pub fn new(tools: ToolPattern) -> Self {
        Self {
            tools,
            task: None,
            idempotent: None,
            handoff: None,
            deadline: None,
            retention: None,
            concurrency: None,
            retry: None,
        }
    }
}

/// The first setting of the rules that fit a tool.
pub(crate) fn first<T>(rules: &[ToolRule], tool: &str, setting: impl Fn(&ToolRule) -> Option<T>) -> Option<T> {
    let fits = rules.iter().filter(|rule| rule.tools.matches(tool));
    fits.filter_map(setting).next()
}
