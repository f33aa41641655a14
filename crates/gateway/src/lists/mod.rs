//! What upstreams offer, as they list it.

mod changes;
mod client_lists;
mod sound_entry;

pub(crate) use changes::{LONGEST_SUBSCRIBING, ListChanges};
pub(crate) use client_lists::ClientLists;

use futures_util::TryStreamExt as _;
use longhaul_client::{Connection, RequestError};
use longhaul_core::{Json, ParsedJson};
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::{Ports, UriTemplate};
use longhaul_wire::{Method, relayed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use sound_entry::Entry;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// How many entries a list may have.
const MAX_ENTRIES: usize = 10_000;
/// The tools of one upstream that are offered now, by the names under which they are, with what the upstream lists. `None` for one that was offered by an
/// upstream of an earlier configuration.
pub(crate) type OfferedTools = BTreeMap<String, Option<Json>>;

/// What an upstream offers. Entries keep their bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct UpstreamLists {
    /// Whether it speaks 2026-07-28.
    pub(crate) is_modern: bool,
    /// Its capabilities.
    pub(crate) capabilities: ParsedJson,
    /// What it is called: an object, or null.
    pub(crate) info: ParsedJson,
    /// What it tells the model of how to use it.
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Json>,
    pub(crate) prompts: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) templates: Vec<Json>,
    /// What its lists have besides their entries, by the members that have the entries.
    pub(crate) members: BTreeMap<String, Json>,
    /// Which lists could not be read, by the same members.
    pub(crate) failures: BTreeMap<String, ListFailure>,
    /// Which members of its tools were not as clients can read them, by the names of the tools. They are left out, or replaced.
    pub(crate) mended: BTreeMap<String, String>,
    /// What was left out of a list, since no client can use it, by the member that has the list.
    pub(crate) dropped: BTreeMap<String, String>,
    index: IndexCell,
}

/// What is looked up in the lists, read from them once.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The names of the tools.
    pub(crate) tools: HashSet<String>,
    /// The names of the prompts.
    pub(crate) prompts: Vec<String>,
    /// The URIs of the resources.
    pub(crate) uris: HashSet<String>,
    /// The URIs of the templates, as they are written.
    pub(crate) template_uris: HashSet<String>,
    templates: Vec<UriTemplate>,
}

/// An [`Index`], once it was needed. It follows from the lists, so it makes no difference between them.
#[derive(Debug, Clone, Default)]
struct IndexCell(OnceLock<Arc<Index>>);

impl PartialEq for IndexCell {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Index {
    fn of(lists: &UpstreamLists) -> Self {
        let texts = |entries: &[Json], member| -> Vec<String> {
            entries.iter().filter_map(|entry| text_member(entry, member)).collect()
        };
        let templates = texts(&lists.templates, "uriTemplate");
        Self {
            tools: texts(&lists.tools, "name").into_iter().collect(),
            prompts: texts(&lists.prompts, "name"),
            uris: texts(&lists.resources, "uri").into_iter().collect(),
            templates: templates
                .iter()
                .filter_map(|text| UriTemplate::new(text.as_str()).ok())
                .collect(),
            template_uris: templates.into_iter().collect(),
        }
    }

    /// Whether a template can be expanded to this URI.
    pub(crate) fn fits_template(&self, uri: &str) -> bool {
        self.templates.iter().any(|template| template.match_uri(uri).is_some())
    }
}

/// A list that an upstream may have: its method, the member of its pages, and the capability that it needs.
type List = (Method, &'static str, &'static str);

const LISTS: [List; 4] = [
    (Method::ToolsList, "tools", "tools"),
    (Method::PromptsList, "prompts", "prompts"),
    (Method::ResourcesList, "resources", "resources"),
    (Method::ResourceTemplatesList, "resourceTemplates", "resources"),
];

/// How long the other lists may take before the tools are offered without them. They are read later then.
const LONGEST_OTHERS: Duration = Duration::from_secs(3);

/// Why a list could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListFailure {
    pub(crate) why: String,
    /// Whether the child has ended instead of an answer. It is not asked again: that would end the calls that run in it.
    pub(crate) is_fatal: bool,
}

impl UpstreamLists {
    /// Asks the upstream. Each list stands alone: of one that cannot be read, what could be read of it is there, else what it had `before`, and `failures` says why.
    ///
    /// # Errors
    /// Any [`RequestError`] of the connection, and of the tools if there is nothing else.
    pub(crate) async fn read(
        connection: &Connection,
        ports: &Ports,
        before: Option<&Self>,
    ) -> Result<Self, RequestError> {
        let server = connection.server().await?;
        let mut lists = Self {
            is_modern: server.is_modern(),
            info: server.info,
            capabilities: server.capabilities,
            instructions: server.instructions,
            ..Self::default()
        };
        let (tools, others) = LISTS.split_at(1);
        let mut failed = None;
        if let Some(list) = tools.iter().find(|list| lists.offers(list)) {
            failed = lists.read_one(connection, list, before).await?;
        }
        let others: Vec<&List> = others.iter().filter(|list| lists.offers(list)).collect();
        let mut left: BTreeSet<&str> = others.iter().map(|(_, member, _)| *member).collect();
        let reading = async {
            for list in others {
                // An error of the connection shows at the next request that matters.
                let _ = lists.read_one(connection, list, before).await;
                left.remove(list.1);
            }
        };
        if ports.within(LONGEST_OTHERS, reading).await.is_none() {
            for member in left {
                let before = before.map(|before| before.list(member).clone());
                *lists.list_mut(member) = before.unwrap_or_default();
                let why = format!("it has not answered within {} s", LONGEST_OTHERS.as_secs());
                lists
                    .failures
                    .insert(member.to_owned(), ListFailure { why, is_fatal: false });
            }
        }
        match failed {
            Some(error) if LISTS.iter().all(|(_, member, _)| lists.list(member).is_empty()) => Err(error),
            _ => Ok(lists),
        }
    }

    /// Asks again for the lists that could not be read.
    pub(crate) async fn read_failed(&self, connection: &Connection) -> Self {
        let mut lists = self.clone();
        lists.index = IndexCell::default();
        for list in LISTS.iter().filter(|(_, member, _)| self.may_succeed(member)) {
            let _ = lists.read_one(connection, list, Some(self)).await;
        }
        lists
    }

    /// Whether it may help to ask again for a list that could not be read.
    pub(crate) fn may_be_read_again(&self) -> bool {
        LISTS.iter().any(|(_, member, _)| self.may_succeed(member))
    }

    fn may_succeed(&self, member: &str) -> bool {
        self.failures.get(member).is_some_and(|failure| !failure.is_fatal)
    }

    /// A modern server need not tell its capabilities. Tools are what a server usually has.
    fn offers(&self, (_, _, capability): &List) -> bool {
        match &*self.capabilities {
            Value::Null => *capability == "tools",
            declared => declared[capability].is_object(),
        }
    }

    /// Reads one list. Returns the error if it could not be read and the upstream is there.
    async fn read_one(
        &mut self,
        connection: &Connection,
        (method, member, _): &List,
        before: Option<&Self>,
    ) -> Result<Option<RequestError>, RequestError> {
        let (entries, members, failed) = read_list(connection, *method, member).await;
        self.failures.remove(*member);
        if *member == "tools" {
            self.mended.clear();
        }
        let entries = self.sound_entries(entries, member);
        *self.list_mut(member) = match (&failed, before) {
            // Some servers declare resources and have no templates.
            (Some(RequestError::Rpc(failure)), _) if failure.code == -32601 => return Ok(None),
            (Some(_), Some(before)) if entries.is_empty() => before.list(member).clone(),
            _ => entries,
        };
        (self.members).extend(members.map(|members| ((*member).to_owned(), members)));
        let Some(error) = failed else { return Ok(None) };
        let is_of_list = matches!(
            error,
            RequestError::Rpc(_) | RequestError::Invalid(_) | RequestError::TimedOut { .. }
        );
        let failure = ListFailure {
            why: error.to_string(),
            is_fatal: !is_of_list && connection.is_pipe(),
        };
        self.failures.insert((*member).to_owned(), failure);
        match is_of_list {
            true => Ok(Some(error)),
            false => Err(error),
        }
    }

    /// The entries of a list as every client can read them. Some clients refuse all tools if two have one name.
    fn sound_entries(&mut self, entries: Vec<Json>, list: &str) -> Vec<Json> {
        let (mut sound, mut dropped) = (Vec::with_capacity(entries.len()), BTreeMap::<String, usize>::new());
        let mut names = HashSet::new();
        for entry in entries {
            let name = text_member(&entry, "name").filter(|_| list == "tools");
            let entry = match Entry::of(&entry, list) {
                _ if name.as_ref().is_some_and(|name| !names.insert(name.clone())) => {
                    let again = format!("with the name `{}` of an earlier one", name.unwrap_or_default());
                    *dropped.entry(again).or_default() += 1;
                    continue;
                }
                Entry::Lacks(member) => {
                    *dropped.entry(format!("without `{member}`")).or_default() += 1;
                    continue;
                }
                Entry::Sound => entry,
                Entry::Mended(mended, wrong) => {
                    self.mended.extend(name.map(|name| (name, wrong)));
                    mended
                }
            };
            sound.push(entry);
        }
        self.dropped.remove(list);
        if !dropped.is_empty() {
            let what: Vec<String> = dropped.iter().map(|(what, count)| format!("{count} {what}")).collect();
            self.dropped.insert(list.to_owned(), what.join(", "));
        }
        sound
    }

    fn list(&self, member: &str) -> &Vec<Json> {
        match member {
            "tools" => &self.tools,
            "prompts" => &self.prompts,
            "resources" => &self.resources,
            _ => &self.templates,
        }
    }

    /// What can be looked up.
    pub(crate) fn index(&self) -> &Index {
        self.index.0.get_or_init(|| Arc::new(Index::of(self)))
    }

    fn list_mut(&mut self, member: &str) -> &mut Vec<Json> {
        match member {
            "tools" => &mut self.tools,
            "prompts" => &mut self.prompts,
            "resources" => &mut self.resources,
            _ => &mut self.templates,
        }
    }

    /// Whether it lists a tool of this name.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.index().tools.contains(name)
    }

    /// Whether it makes tasks of 2026-07-28.
    pub(crate) fn makes_tasks(&self) -> bool {
        self.capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object()
    }

    /// Whether it has this server capability.
    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.capabilities[capability].is_object()
    }
}

/// The entries of a list, and what it has besides them, of all its pages, or of those before an error.
async fn read_list(
    connection: &Connection,
    method: Method,
    member: &'static str,
) -> (Vec<Json>, Option<Json>, Option<RequestError>) {
    let (mut entries, mut members): (Vec<Json>, Option<Json>) = (Vec::new(), None);
    let mut pages = pin!(connection.list_pages(method, member));
    loop {
        let page = match pages.try_next().await {
            Ok(Some(page)) => page,
            Ok(None) => return (entries, members, None),
            Err(error) => return (entries, members, Some(error)),
        };
        members = match (members, relayed::list_members(&page.result, member)) {
            (Some(before), Some(more)) => Some(Json::trusted(relayed::with_members(before.as_str(), &more))),
            (before, more) => before.or(more),
        };
        entries.extend(page.entries);
        if entries.len() > MAX_ENTRIES {
            let why = format!("its list of {member} has more than {MAX_ENTRIES} entries");
            return (entries, members, Some(RequestError::Invalid(why)));
        }
    }
}

/// A member of an entry that is a text.
pub(crate) fn text_member(entry: &Json, member: &str) -> Option<String> {
    // Another member may hold what cannot be read, such as a number that is too large.
    let members: HashMap<String, &RawValue> = serde_json::from_str(entry.as_str()).ok()?;
    serde_json::from_str(members.get(member)?.get()).ok()
}

/// The stored form, version 1.
#[derive(Serialize, Deserialize)]
struct Layout {
    version: u32,
    #[serde(default)]
    is_modern: bool,
    #[serde(default)]
    info: Option<Json>,
    capabilities: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    resources: Vec<Box<RawValue>>,
    templates: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, Box<RawValue>>,
}

fn raw(entries: &[Json]) -> Vec<Box<RawValue>> {
    let raw = entries.iter().map(|entry| serde_json::from_str(entry.as_str()));
    raw.flatten().collect()
}

/// Beside the lists: the digest of the configuration of names that was accepted last. No upstream has this file, since those of upstreams end with `.json`.
const ACCEPTED_NAMES: &str = "accepted-names";

/// The last known lists of upstreams, one file for each.
pub(crate) struct StoredLists(PrivateDir);

impl StoredLists {
    pub(crate) fn new(directory: PrivateDir) -> Self {
        Self(directory)
    }

    /// What was stored of an upstream; `None` if there is nothing, or nothing that can be read.
    pub(crate) fn load(&self, upstream: &str) -> Option<UpstreamLists> {
        let layout: Layout = serde_json::from_str(&self.read(&file_name(upstream))?).ok()?;
        let json = |entries: Vec<Box<RawValue>>| entries.iter().map(|entry| Json::from(&**entry)).collect();
        (layout.version == 1).then(|| UpstreamLists {
            is_modern: layout.is_modern,
            info: layout.info.map(ParsedJson::from).unwrap_or_default(),
            capabilities: layout.capabilities.into(),
            instructions: layout.instructions,
            tools: json(layout.tools),
            prompts: json(layout.prompts),
            resources: json(layout.resources),
            templates: json(layout.templates),
            members: layout
                .members
                .iter()
                .map(|(list, members)| (list.clone(), Json::from(&**members)))
                .collect(),
            failures: BTreeMap::new(),
            mended: BTreeMap::new(),
            dropped: BTreeMap::new(),
            index: IndexCell::default(),
        })
    }

    /// The configuration of names that was accepted last.
    pub(crate) fn accepted_names(&self) -> Option<String> {
        self.read(ACCEPTED_NAMES)
    }

    /// Stores that this configuration of names was accepted.
    pub(crate) fn accept_names(&self, digest: &str) -> io::Result<()> {
        self.replace(ACCEPTED_NAMES, digest)
    }

    /// Stores the lists in place of those before. They are a cache, so they are not synced.
    pub(crate) fn save(&self, upstream: &str, lists: &UpstreamLists) -> io::Result<()> {
        let layout = Layout {
            version: 1,
            is_modern: lists.is_modern,
            info: Some(lists.info.as_json().clone()),
            capabilities: lists.capabilities.as_json().clone(),
            instructions: lists.instructions.clone(),
            tools: raw(&lists.tools),
            prompts: raw(&lists.prompts),
            resources: raw(&lists.resources),
            templates: raw(&lists.templates),
            members: lists
                .members
                .iter()
                .filter_map(|(list, members)| Some((list.clone(), serde_json::from_str(members.as_str()).ok()?)))
                .collect(),
        };
        let text = serde_json::to_string(&layout)?;
        self.replace(&file_name(upstream), &text)
    }

    /// What is in a file; `None` if there is none, or none that can be read.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        let file = self.0.file(name, OpenOptions::new().read(true));
        file.and_then(|mut file| file.read_to_string(&mut text)).ok()?;
        Some(text)
    }

    pub(crate) fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = format!("{name}.new");
        let mut file = self
            .0
            .file(&new, OpenOptions::new().write(true).create(true).truncate(true))?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(self.0.path().join(&new), self.0.path().join(name))
    }
}

fn file_name(upstream: &str) -> String {
    format!("{upstream}.json")
}
