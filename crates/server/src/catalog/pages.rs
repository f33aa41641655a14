//! `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`: the catalog in its order, page by page.
//!
//! A first page is written once for each version of the catalog and dialect, since every client asks for it.

use super::task_resources;
use crate::{
    admission::{
        handoff::ConnectionHandoff,
        identity::Identity,
        permissions::{Permission, Permissions},
        request::AdmittedRequest,
    },
    call::{
        follow_tools::{self, FollowTool, FollowToolTexts},
        handoff_schema,
        policy::{CallerMode, Route, WaitPolicy},
    },
    interaction::Interaction,
    response::Answer,
    signer::{Signer, VerifiedBody},
};
use longhaul_core::{Json, Millis, Principal, TaskPolicy};
use longhaul_runtime::{Engine, Snapshot, Tool};
use longhaul_wire::{
    CacheHints, CacheScope, Generation, ListKind, OutputSchema, RpcError, ServerInfo, ToolEntry, Version, legacy,
    modern, relayed,
};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Entries on one page.
const PAGE: usize = 100;
/// A client may cache a list for a minute, in milliseconds; one that needs changes sooner subscribes.
const CACHE_TTL: u64 = 60_000;

/// Which part of the catalog is listed. The cursors that clients hold have the names of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CatalogList {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// What lists need.
pub(crate) struct Lists {
    engine: Engine,
    server_info: Arc<ServerInfo>,
    /// Where senders are told apart, what one may list is not for others.
    cache_scope: CacheScope,
    /// Signs where the next page begins.
    pub(crate) cursors: Signer,
    /// First pages as they were last written, for senders who may see everything. A page with a cursor is for one principal.
    first_pages: Mutex<HashMap<(CatalogList, Dialect, ConnectionHandoff), CachedPage>>,
}

/// A part of a list, and for whom.
struct PageRequest<'a> {
    lists: &'a Lists,
    snapshot: &'a Snapshot,
    list: CatalogList,
    dialect: Dialect,
    handoff: ConnectionHandoff,
    sender: &'a Identity,
    /// Tools that the sender does not have.
    hidden: HashSet<String>,
    /// The index of its first entry.
    from: usize,
}

impl Lists {
    pub(crate) fn new(interaction: &Interaction, cursors: Signer) -> Self {
        Self {
            engine: interaction.engine.clone(),
            server_info: Arc::clone(&interaction.server_info),
            cache_scope: match interaction.admission.access.everyone() {
                Some(_) => CacheScope::Public,
                None => CacheScope::Private,
            },
            cursors,
            first_pages: Mutex::default(),
        }
    }
}

struct CachedPage {
    /// The version of the list it shows.
    version: u64,
    text: Arc<str>,
    /// Whom it is for, if it has a cursor.
    only_for: Option<Principal>,
}

/// The formats of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Dialect {
    Legacy(Version),
    Modern { declares_tasks: bool },
}

impl Dialect {
    /// Whether a call of this tool may be answered, before its work is done, with how to follow it. `handoff` is after how long.
    fn may_hand_off(self, tool: &Tool, handoff: Option<Millis>) -> bool {
        let mode = match self {
            Self::Legacy(_) => CallerMode::LegacyPlain,
            Self::Modern { declares_tasks: true } => CallerMode::ModernDeclaring,
            Self::Modern { declares_tasks: false } => CallerMode::ModernPlain,
        };
        let route = Route::of(tool.settings().policy, handoff, mode);
        matches!(route, Ok(Route::Wait(WaitPolicy::HandOff(_))))
    }
}

pub(crate) fn list_page(lists: &Lists, request: &AdmittedRequest<'_>, list: CatalogList) -> Result<Answer, RpcError> {
    let snapshot = lists.engine.catalog().snapshot();
    let dialect = match request.caller.generation {
        Generation::Legacy => Dialect::Legacy(request.caller.version.unwrap_or(Version::ASSUMED)),
        Generation::Modern => Dialect::Modern {
            declares_tasks: request.caller.declares_tasks,
        },
    };
    let sender = &**request.caller.identity();
    // An empty list would look as if nothing was wrong.
    if let (CatalogList::Tools, Some(why)) = (list, snapshot.unavailable_for(sender.principal())) {
        return Err(RpcError::internal(why.to_string()));
    }
    let hidden = match &snapshot.tool_visibility {
        Some(visibility) if list == CatalogList::Tools => {
            let requestor = request.caller.requestor(request.meta)?;
            visibility.hidden(request.caller.listing(&requestor))
        }
        _ => HashSet::new(),
    };
    let shows_all = hidden.is_empty() && list.shows_all_to(sender.permissions());
    let mut asked = PageRequest {
        lists,
        snapshot: &snapshot,
        list,
        dialect,
        handoff: request.caller.mode.handoff.in_lists(),
        sender,
        hidden,
        from: 0,
    };
    let text = match request.params.cursor()? {
        None if !shows_all => asked.write().0.into(),
        None => asked.first_page(),
        Some(cursor) => {
            let from = list.after(&cursor, sender.principal(), &snapshot, &lists.cursors);
            asked.from = from.ok_or_else(|| {
                RpcError::invalid_params(
                    "params.cursor is not one this list gave out, or the list has changed: begin again without it",
                )
            })?;
            asked.write().0.into()
        }
    };
    Ok(Answer::result(request.id, |out| out.push_str(&text)))
}

impl PageRequest<'_> {
    fn first_page(&self) -> Arc<str> {
        let (version, key) = (
            self.list.version(self.snapshot),
            (self.list, self.dialect, self.handoff),
        );
        let mut pages = self.lists.first_pages.lock();
        let is_current = |page: &&CachedPage| {
            let for_sender = (page.only_for.as_ref()).is_none_or(|principal| principal == self.sender.principal());
            page.version == version && for_sender
        };
        if let Some(page) = pages.get(&key).filter(is_current) {
            return Arc::clone(&page.text);
        }
        let (text, has_cursor) = self.write();
        let text: Arc<str> = text.into();
        let page = CachedPage {
            version,
            text: Arc::clone(&text),
            only_for: has_cursor.then(|| self.sender.principal().clone()),
        };
        pages.insert(key, page);
        text
    }

    /// The result that lists the entries, and whether there are more.
    fn write(&self) -> (String, bool) {
        let Self {
            lists,
            snapshot,
            list,
            dialect,
            from,
            ..
        } = *self;
        let mut out = String::with_capacity(4096);
        let kind = match list {
            CatalogList::Tools => {
                let has_more = self.write_tools(&mut out);
                return match &snapshot.tool_list_members {
                    Some(members) => (relayed::with_members(&out, members), has_more),
                    None => (out, has_more),
                };
            }
            CatalogList::Prompts => ListKind::Prompts,
            CatalogList::Resources => ListKind::Resources,
            CatalogList::Templates => ListKind::ResourceTemplates,
        };
        let shows_all = list.shows_all_to(self.sender.permissions());
        let next = list
            .name(snapshot, from + PAGE - 1)
            .filter(|_| shows_all && list.name(snapshot, from + PAGE).is_some())
            .map(|last| self.cursor(last));
        let next = next.as_deref();
        let entries = list.entries(lists, snapshot, from, shows_all);
        match dialect {
            Dialect::Legacy(_) => legacy::list::write(&mut out, kind, &entries, next),
            Dialect::Modern { .. } => {
                modern::list::write(&mut out, kind, &entries, next, self.cache(), &lists.server_info)
            }
        }
        (out, next.is_some())
    }

    /// Writes the tools that the sender may call; returns whether there are more.
    fn write_tools(&self, out: &mut String) -> bool {
        let permissions = self.sender.permissions();
        let mut tools = (self.snapshot.tools.values().skip(self.from))
            .filter(|tool| permissions.allows(Permission::Call(tool.name())) && !self.hidden.contains(&**tool.name()))
            // The server's own takes its place.
            .filter(|tool| FollowTool::named(tool.name(), self.snapshot, self.handoff).is_none());
        let texts: Vec<ToolTexts<'_>> = tools
            .by_ref()
            .take(PAGE)
            .map(|tool| ToolTexts::of(tool, self.dialect, self.handoff.of_tool(tool, self.snapshot)))
            .collect();
        let last = texts.last().filter(|_| tools.next().is_some());
        let next = last.map(|last| self.cursor(last.tool.name()));
        let next = next.as_deref();
        let mut entries: Vec<ToolEntry<'_>> = texts.iter().map(ToolTexts::entry).collect();
        // A client that declares tasks follows them itself.
        let follows_tasks = self.dialect == Dialect::Modern { declares_tasks: true };
        let follow_tools = match next.is_none() && !follows_tasks {
            true => follow_tools::listed(self.snapshot, self.handoff, self.lists.server_info.title()),
            false => Vec::new(),
        };
        let allowed = follow_tools
            .iter()
            .filter(|texts| permissions.allows(texts.tool.needs()));
        entries.extend(allowed.map(FollowToolTexts::entry));
        match self.dialect {
            Dialect::Legacy(version) => legacy::tools::write_list(out, &entries, next, version),
            Dialect::Modern { .. } => {
                modern::tools::write_list(out, &entries, next, self.cache(), &self.lists.server_info)
            }
        }
        next.is_some()
    }

    fn cache(&self) -> CacheHints {
        CacheHints {
            ttl_ms: CACHE_TTL,
            scope: self.lists.cache_scope,
        }
    }

    /// The cursor of the page after the entry `last`. It is valid for this sender's principal only.
    fn cursor(&self, last: &str) -> String {
        let (list, principal) = (self.list, self.sender.principal().as_str());
        let body = format!("{list:?}\0{principal}\0{last}");
        self.lists.cursors.sign(body.as_bytes())
    }
}

impl CatalogList {
    fn version(self, snapshot: &Snapshot) -> u64 {
        match self {
            Self::Tools => snapshot.versions.tools,
            Self::Prompts => snapshot.versions.prompts,
            Self::Resources => snapshot.versions.resources,
            // Which families of resources tasks have depends on the tools. Both only grow, and so does their sum.
            Self::Templates => snapshot.versions.resources + snapshot.versions.tools,
        }
    }

    /// The name of the entry at `index`. A cursor names the last entry before its page.
    fn name(self, snapshot: &Snapshot, index: usize) -> Option<&str> {
        match self {
            Self::Tools => snapshot.tools.get_index(index).map(|(name, _)| &**name),
            Self::Prompts => snapshot.prompts.get_index(index).map(|(name, _)| &**name),
            Self::Resources => snapshot.resources.get_index(index).map(|(uri, _)| &**uri),
            Self::Templates => snapshot.templates.get_index(index).map(|(template, _)| &**template),
        }
    }

    fn position(self, snapshot: &Snapshot, name: &str) -> Option<usize> {
        match self {
            Self::Tools => snapshot.tools.get_index_of(name),
            Self::Prompts => snapshot.prompts.get_index_of(name),
            Self::Resources => snapshot.resources.get_index_of(name),
            Self::Templates => snapshot.templates.get_index_of(name),
        }
    }

    /// Whether a sender with these permissions sees each entry. Without the right to use resources and prompts, it sees none but the templates of
    /// the resources of tasks.
    fn shows_all_to(self, permissions: &Permissions) -> bool {
        match self {
            Self::Tools => permissions.allows_everything(),
            Self::Prompts | Self::Resources | Self::Templates => permissions.allows(Permission::ReadResources),
        }
    }

    /// Resources of tasks are found by the task's id and never listed; their templates come first, if there may be such resources.
    fn entries<'a>(self, lists: &Lists, snapshot: &'a Snapshot, from: usize, shows_all: bool) -> Vec<&'a str> {
        let page = if shows_all { PAGE } else { 0 };
        match self {
            Self::Tools => Vec::new(),
            Self::Prompts => {
                let prompts = snapshot.prompts.values().skip(from).take(page);
                prompts.map(|prompt| prompt.shown.as_str()).collect()
            }
            Self::Resources => {
                let resources = snapshot.resources.values().skip(from).take(page);
                resources.map(|resource| resource.shown.as_str()).collect()
            }
            Self::Templates => {
                let templates = snapshot.templates.values().skip(from).take(page);
                let of_tasks = (from == 0).then(|| task_resources::templates(&lists.engine, snapshot));
                let of_tasks = of_tasks.into_iter().flatten();
                of_tasks
                    .map(|shown| -> &'a str { shown })
                    .chain(templates.map(|template| template.shown.as_str()))
                    .collect()
            }
        }
    }

    /// Where the list continues after `cursor`; `None` if it is not a cursor of this list for this principal, or its entry is gone.
    fn after(self, cursor: &str, principal: &Principal, snapshot: &Snapshot, signer: &Signer) -> Option<usize> {
        let VerifiedBody(body) = signer.verify(cursor)?;
        let body = String::from_utf8(body).ok()?;
        let of_list = body.strip_prefix(&*format!("{self:?}\0"))?;
        let last = of_list.strip_prefix(principal.as_str())?.strip_prefix('\0')?;
        Some(self.position(snapshot, last)? + 1)
    }
}

/// A tool with its schemas as text.
struct ToolTexts<'a> {
    tool: &'a Tool,
    input_schema: String,
    output_schema: Option<String>,
    /// The output schema is that of the tool.
    is_own_output_schema: bool,
    policy: TaskPolicy,
    annotations: Option<String>,
    icons: Option<String>,
    meta: Option<String>,
}

impl<'a> ToolTexts<'a> {
    fn of(tool: &'a Tool, dialect: Dialect, handoff: Option<Millis>) -> Self {
        let settings = tool.settings();
        let own_schema = settings.output_schema.as_ref();
        let may_hand_off = dialect.may_hand_off(tool, handoff);
        let output_schema = match may_hand_off {
            false => own_schema.map(Cow::Borrowed),
            // A client would refuse an answer that fits no schema, and with it the id of the task: better none is shown.
            true => own_schema.and_then(handoff_schema::allowing_handoff).map(Cow::Owned),
        };
        Self {
            tool,
            input_schema: settings.input_schema.to_string(),
            output_schema: output_schema.map(|schema| schema.to_string()),
            is_own_output_schema: !may_hand_off,
            // Clients that cannot call it as a task can call it, too.
            policy: match settings.policy {
                TaskPolicy::Always if may_hand_off => TaskPolicy::Optional,
                policy => policy,
            },
            annotations: settings.annotations.as_ref().map(ToString::to_string),
            icons: settings.icons.as_ref().map(ToString::to_string),
            meta: settings.meta.as_ref().map(ToString::to_string),
        }
    }

    fn entry(&self) -> ToolEntry<'_> {
        let settings = self.tool.settings();
        ToolEntry {
            name: self.tool.name(),
            title: settings.title.as_deref(),
            description: Some(&*settings.description).filter(|text| !text.is_empty()),
            input_schema: &self.input_schema,
            output_schema: match self.output_schema.as_deref() {
                None => OutputSchema::None,
                Some(schema) if self.is_own_output_schema => OutputSchema::OfTool(schema),
                Some(schema) => OutputSchema::Changed(schema),
            },
            annotations: self.annotations.as_deref(),
            icons: self.icons.as_deref(),
            meta: self.meta.as_deref(),
            listed: settings.listed.as_ref().map(Json::as_str),
            policy: self.policy,
        }
    }
}
