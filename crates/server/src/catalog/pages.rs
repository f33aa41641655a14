//! `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`: the catalog in its order (X-01, L-21), page by page.
//!
//! A first page is written once for each version of the catalog and dialect, since every client asks for it.

use super::task_resources;
use crate::{
    admission::request::AdmittedRequest,
    call::follow_tools,
    response::Answer,
    signer::{Signer, Verified},
};
use longhaul_runtime::{Engine, Snapshot, Tool};
use longhaul_wire::{
    CacheHints, CacheScope, Generation, ListKind, RpcError, ServerInfo, ToolEntry, Version, legacy, modern,
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Entries on one page.
const PAGE: usize = 100;
/// A client may cache a list for a minute; one that needs changes sooner subscribes.
const CACHE: CacheHints = CacheHints {
    ttl_ms: 60_000,
    scope: CacheScope::Public,
};

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// What lists need.
pub(crate) struct Lists {
    engine: Engine,
    identity: Arc<ServerInfo>,
    /// Signs where the next page begins.
    pub(crate) cursors: Signer,
    /// First pages as they were last written.
    first_pages: Mutex<HashMap<(List, Dialect), Written>>,
}

impl Lists {
    pub(crate) fn new(engine: &Engine, identity: &Arc<ServerInfo>, cursors: Signer) -> Self {
        Self {
            engine: engine.clone(),
            identity: Arc::clone(identity),
            cursors,
            first_pages: Mutex::default(),
        }
    }
}

/// A page and the version of the list it shows.
type Written = (u64, Arc<str>);

/// The formats of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Dialect {
    Legacy(Version),
    Modern,
}

pub(crate) fn list_page(lists: &Lists, request: &AdmittedRequest<'_>, list: List) -> Result<Answer, RpcError> {
    let snapshot = lists.engine.catalog().snapshot();
    let dialect = match request.caller.generation {
        Generation::Legacy => Dialect::Legacy(request.caller.version.unwrap_or(Version::ASSUMED)),
        Generation::Modern => Dialect::Modern,
    };
    let text = match request.params.cursor()? {
        None => first_page(lists, &snapshot, list, dialect),
        Some(cursor) => {
            let from = list.after(&cursor, &snapshot, &lists.cursors).ok_or_else(|| {
                RpcError::invalid_params(
                    "params.cursor is not one this list gave out, or the list has changed: begin again without it",
                )
            })?;
            page(lists, &snapshot, list, dialect, from).into()
        }
    };
    Ok(Answer::result(request.id, |out| out.push_str(&text)))
}

fn first_page(lists: &Lists, snapshot: &Snapshot, list: List, dialect: Dialect) -> Arc<str> {
    let version = list.version(snapshot);
    let mut pages = lists.first_pages.lock();
    match pages.get(&(list, dialect)) {
        Some((of, text)) if *of == version => Arc::clone(text),
        _ => {
            let text: Arc<str> = page(lists, snapshot, list, dialect, 0).into();
            pages.insert((list, dialect), (version, Arc::clone(&text)));
            text
        }
    }
}

/// The result that lists the entries from `from` on.
fn page(lists: &Lists, snapshot: &Snapshot, list: List, dialect: Dialect, from: usize) -> String {
    let next = list
        .name(snapshot, from + PAGE - 1)
        .filter(|_| list.name(snapshot, from + PAGE).is_some())
        .map(|last| list.cursor(last, &lists.cursors));
    let next = next.as_deref();
    let mut out = String::with_capacity(4096);
    let listing = match list {
        List::Tools => {
            write_tools(&mut out, lists, snapshot, dialect, from, next);
            return out;
        }
        List::Prompts => ListKind::Prompts,
        List::Resources => ListKind::Resources,
        List::Templates => ListKind::ResourceTemplates,
    };
    let entries = list.entries(lists, snapshot, from);
    match dialect {
        Dialect::Legacy(_) => legacy::list::write(&mut out, listing, &entries, next),
        Dialect::Modern => modern::list::write(&mut out, listing, &entries, next, CACHE, &lists.identity),
    }
    out
}

fn write_tools(
    out: &mut String,
    lists: &Lists,
    snapshot: &Snapshot,
    dialect: Dialect,
    from: usize,
    next: Option<&str>,
) {
    let texts: Vec<ToolTexts<'_>> = (snapshot.tools.values().skip(from).take(PAGE))
        .map(|tool| ToolTexts::of(tool))
        .collect();
    let mut entries: Vec<ToolEntry<'_>> = texts.iter().map(ToolTexts::entry).collect();
    if next.is_none() {
        entries.extend(follow_tools::listed(snapshot));
    }
    match dialect {
        Dialect::Legacy(version) => legacy::tools::write_list(out, &entries, next, version),
        Dialect::Modern => modern::tools::write_list(out, &entries, next, CACHE, &lists.identity),
    }
}

impl List {
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

    /// Resources of tasks are found by the task's id and never listed; their templates come first, if there may be such resources.
    fn entries<'a>(self, lists: &Lists, snapshot: &'a Snapshot, from: usize) -> Vec<&'a str> {
        match self {
            Self::Tools => Vec::new(),
            Self::Prompts => {
                let prompts = snapshot.prompts.values().skip(from).take(PAGE);
                prompts.map(|prompt| prompt.shown.as_str()).collect()
            }
            Self::Resources => {
                let resources = snapshot.resources.values().skip(from).take(PAGE);
                resources.map(|resource| resource.shown.as_str()).collect()
            }
            Self::Templates => {
                let templates = snapshot.templates.values().skip(from).take(PAGE);
                let of_tasks = (from == 0).then(|| task_resources::templates(&lists.engine, snapshot));
                let of_tasks = of_tasks.into_iter().flatten();
                of_tasks
                    .map(|shown| -> &'a str { shown })
                    .chain(templates.map(|template| template.shown.as_str()))
                    .collect()
            }
        }
    }

    fn cursor(self, last: &str, signer: &Signer) -> String {
        signer.sign(format!("{self:?}\0{last}").as_bytes())
    }

    /// Where the list continues after `cursor`; `None` if it is not a cursor of this list, or its entry is gone.
    fn after(self, cursor: &str, snapshot: &Snapshot, signer: &Signer) -> Option<usize> {
        let Verified(body) = signer.verify(cursor)?;
        let body = String::from_utf8(body).ok()?;
        let (list, last) = body.split_once('\0')?;
        if list != format!("{self:?}") {
            return None;
        }
        Some(self.position(snapshot, last)? + 1)
    }
}

/// A tool with its schemas as text.
struct ToolTexts<'a> {
    tool: &'a Tool,
    input_schema: String,
    output_schema: Option<String>,
    annotations: Option<String>,
    icons: Option<String>,
    meta: Option<String>,
}

impl<'a> ToolTexts<'a> {
    fn of(tool: &'a Tool) -> Self {
        let settings = tool.settings();
        Self {
            tool,
            input_schema: settings.input_schema.to_string(),
            output_schema: settings.output_schema.as_ref().map(ToString::to_string),
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
            output_schema: self.output_schema.as_deref(),
            annotations: self.annotations.as_deref(),
            icons: self.icons.as_deref(),
            meta: self.meta.as_deref(),
            policy: settings.policy,
        }
    }
}
