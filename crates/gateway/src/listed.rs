//! What an upstream offers, as it lists it.

use longhaul_client::{Connection, RequestError};
use longhaul_core::Json;
use longhaul_private_dir::PrivateDir;
use longhaul_runtime::UriTemplate;
use longhaul_wire::relayed;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    sync::{Arc, OnceLock},
};

/// How many entries a list may have.
const MAX_ENTRIES: usize = 10_000;
/// How many pages a list may have.
const MAX_PAGES: usize = 1_000;

/// The tools of one upstream that are offered now, by the names under which they are, with what the upstream lists. `None` for one that was offered by an
/// upstream of an earlier configuration.
pub(crate) type OfferedTools = BTreeMap<String, Option<Json>>;

/// What an upstream offers. Entries keep their bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Lists {
    /// Whether it speaks 2026-07-28.
    pub(crate) is_modern: bool,
    /// Its capabilities.
    pub(crate) capabilities: Value,
    /// What it tells the model of how to use it.
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Json>,
    pub(crate) prompts: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) templates: Vec<Json>,
    /// What its lists have besides their entries, by the members that have the entries.
    pub(crate) members: BTreeMap<String, Json>,
    index: IndexCell,
}

/// What is looked up in the lists, read from them once.
#[derive(Debug, Default)]
pub(crate) struct Index {
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
    fn of(lists: &Lists) -> Self {
        let texts = |entries: &[Json], member| -> Vec<String> {
            entries.iter().filter_map(|entry| text_member(entry, member)).collect()
        };
        let templates = texts(&lists.templates, "uriTemplate");
        Self {
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
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "tools"),
    ("prompts/list", "prompts", "prompts"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resourceTemplates", "resources"),
];

impl Lists {
    /// Asks the upstream.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`] for a list that is no list, or has no end.
    pub(crate) async fn read(connection: &Connection) -> Result<Self, RequestError> {
        let server = connection.server().await?;
        let mut lists = Self {
            is_modern: server.is_modern(),
            capabilities: server.capabilities,
            instructions: server.instructions,
            ..Self::default()
        };
        for (method, member, capability) in LISTS {
            // A modern server need not tell its capabilities. Tools are what a server usually has.
            let offers = match &lists.capabilities {
                Value::Null => capability == "tools",
                declared => declared[capability].is_object(),
            };
            if !offers {
                continue;
            }
            match read_list(connection, method, member).await {
                // Some servers declare resources and have no templates.
                Err(RequestError::Rpc(failure)) if failure.code == -32601 => {}
                read => {
                    let (entries, members) = read?;
                    *lists.list_mut(member) = entries;
                    lists
                        .members
                        .extend(members.map(|members| (member.to_owned(), members)));
                }
            }
        }
        Ok(lists)
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
        let mut names = self.tools.iter().filter_map(|tool| text_member(tool, "name"));
        names.any(|listed| listed == name)
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

/// The entries of a list, and what it has besides them, of all its pages.
async fn read_list(
    connection: &Connection,
    method: &str,
    member: &str,
) -> Result<(Vec<Json>, Option<Json>), RequestError> {
    let (mut entries, mut members, mut cursor): (_, Option<Json>, _) = (Vec::new(), None, None);
    for _ in 0..MAX_PAGES {
        let params = match cursor.take() {
            Some(cursor) => Value::from(Map::from_iter([("cursor".to_owned(), cursor)])),
            None => Value::Null,
        };
        let page = connection.send(method, params).await?;
        members = match (members, relayed::list_members(&page, member)) {
            (Some(before), Some(more)) => Some(Json::trusted(relayed::with_members(before.as_str(), &more))),
            (before, more) => before.or(more),
        };
        let invalid = |why: &str| RequestError::Invalid(format!("its {method}: {why}"));
        let page: HashMap<String, Box<RawValue>> =
            serde_json::from_str(page.as_str()).map_err(|error| invalid(&error.to_string()))?;
        let listed = page.get(member).ok_or_else(|| invalid("it has no list"))?;
        let listed: Vec<&RawValue> = serde_json::from_str(listed.get()).map_err(|error| invalid(&error.to_string()))?;
        entries.extend(listed.into_iter().map(Json::from));
        if entries.len() > MAX_ENTRIES {
            return Err(invalid(&format!("it has more than {MAX_ENTRIES} entries")));
        }
        let next = page
            .get("nextCursor")
            .and_then(|next| serde_json::from_str(next.get()).ok());
        cursor = next.filter(Value::is_string);
        if cursor.is_none() {
            return Ok((entries, members));
        }
    }
    Err(RequestError::Invalid(format!(
        "its {method} has more than {MAX_PAGES} pages"
    )))
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
    capabilities: Value,
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
    pub(crate) fn load(&self, upstream: &str) -> Option<Lists> {
        let mut text = String::new();
        let file = self.0.file(&file_name(upstream), OpenOptions::new().read(true));
        file.and_then(|mut file| file.read_to_string(&mut text)).ok()?;
        let layout: Layout = serde_json::from_str(&text).ok()?;
        let json = |entries: Vec<Box<RawValue>>| entries.iter().map(|entry| Json::from(&**entry)).collect();
        (layout.version == 1).then(|| Lists {
            is_modern: layout.is_modern,
            capabilities: layout.capabilities,
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
            index: IndexCell::default(),
        })
    }

    /// The configuration of names that was accepted last.
    pub(crate) fn accepted_names(&self) -> Option<String> {
        let mut text = String::new();
        let file = self.0.file(ACCEPTED_NAMES, OpenOptions::new().read(true));
        file.and_then(|mut file| file.read_to_string(&mut text)).ok()?;
        Some(text)
    }

    /// Stores that this configuration of names was accepted.
    pub(crate) fn accept_names(&self, digest: &str) -> io::Result<()> {
        self.replace(ACCEPTED_NAMES, digest)
    }

    /// Stores the lists in place of those before. They are a cache, so they are not synced.
    pub(crate) fn save(&self, upstream: &str, lists: &Lists) -> io::Result<()> {
        let layout = Layout {
            version: 1,
            is_modern: lists.is_modern,
            capabilities: lists.capabilities.clone(),
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

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
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
