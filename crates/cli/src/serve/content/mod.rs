//! The resources and prompts of the file, in the catalog of a running server.

mod prompt;
mod resource;

use crate::config::{ContentConfig, Display, PromptConfig, ResourceConfig, ServerConfig};
use longhaul_core::Json;
use longhaul_runtime::{Catalog, Ports};
use resource::Entry;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// What is offered now.
#[derive(Default)]
pub(super) struct OfferedContent {
    prompts: BTreeMap<String, PromptConfig>,
    resources: BTreeMap<String, ResourceConfig>,
    /// All that is in the list of resources, by URI or URI template.
    entries: BTreeMap<Arc<str>, Entry>,
}

/// What has changed, by the names of the sections.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NameChanges {
    pub(super) added: Vec<String>,
    pub(super) changed: Vec<String>,
    pub(super) removed: Vec<String>,
}

/// What has changed of both kinds.
#[derive(Default)]
pub(super) struct ContentChanges {
    pub(super) prompts: NameChanges,
    pub(super) resources: NameChanges,
}

impl NameChanges {
    fn between<T>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>, is_same: impl Fn(&T, &T) -> bool) -> Self {
        let mut changes = Self::default();
        for (name, new) in after {
            match before.get(name) {
                None => changes.added.push(name.clone()),
                Some(old) if !is_same(old, new) => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        changes.removed.extend(gone.cloned());
        changes
    }
}

impl OfferedContent {
    /// Offers what the file has now, and no longer what it had before. Clients are told of the lists that change.
    pub(super) async fn update(&mut self, content: ContentConfig, catalog: &Catalog, ports: &Ports) -> ContentChanges {
        let ContentConfig { resources, prompts } = content;
        let order: Vec<String> = prompts.iter().map(|prompt| prompt.name.clone()).collect();
        let prompts: BTreeMap<_, _> = prompts.into_iter().map(|one| (one.name.clone(), one)).collect();
        let prompt_changes = NameChanges::between(&self.prompts, &prompts, PartialEq::eq);
        for name in &prompt_changes.removed {
            catalog.remove_prompt(name);
        }
        for config in order.iter().filter_map(|name| prompts.get(name)) {
            if self.prompts.get(&config.name) != Some(config) {
                catalog.put_prompt(prompt::build(config));
            }
        }
        self.prompts = prompts;

        let listed = ports.blocking(move || (resource::entries(&resources), resources)).await;
        // The server stops.
        let Some((entries, resources)) = listed else {
            return ContentChanges::default();
        };
        let resource_changes = self.update_resources(entries, resources, catalog, ports);
        ContentChanges {
            prompts: prompt_changes,
            resources: resource_changes,
        }
    }

    fn update_resources(
        &mut self,
        entries: Vec<Entry>,
        resources: Vec<ResourceConfig>,
        catalog: &Catalog,
        ports: &Ports,
    ) -> NameChanges {
        let mut next: BTreeMap<Arc<str>, Entry> = BTreeMap::new();
        let mut order = Vec::new();
        for entry in entries {
            // Of two files with one URI the first one counts.
            if !next.contains_key(entry.uri()) {
                order.push(Arc::clone(entry.uri()));
                next.insert(Arc::clone(entry.uri()), entry);
            }
        }
        for (uri, entry) in &self.entries {
            // One kind may take the place of the other.
            if next.get(uri).is_none_or(|new| new.is_template() != entry.is_template()) {
                entry.remove_from(catalog);
            }
        }
        for entry in order.iter().filter_map(|uri| next.get(uri)) {
            if self.entries.get(entry.uri()) != Some(entry) {
                entry.put_into(catalog, ports);
            }
        }
        let resources: BTreeMap<_, _> = resources.into_iter().map(|one| (one.name.clone(), one)).collect();
        let files = |all: &BTreeMap<Arc<str>, Entry>, name: &str| -> Vec<Arc<str>> {
            let of_it = all.iter().filter(|(_, entry)| entry.section() == name);
            of_it.map(|(uri, _)| Arc::clone(uri)).collect()
        };
        let changes = NameChanges::between(&self.resources, &resources, |old, new| {
            old == new && files(&self.entries, &old.name) == files(&next, &new.name)
        });
        (self.entries, self.resources) = (next, resources);
        changes
    }
}

/// What clients are told of the server itself.
pub(super) fn describe(
    mut server: longhaul::Server,
    config: &ServerConfig,
    instructions: Option<String>,
) -> longhaul::Server {
    if let Some(instructions) = instructions {
        server = server.instructions(instructions);
    }
    if let Some(title) = &config.display.title {
        server = server.title(title);
    }
    if let Some(url) = &config.website_url {
        server = server.website(url);
    }
    for icon in &config.display.icons {
        server = server.icon(icon.clone());
    }
    server
}

/// An entry of a list: these members, and what people are shown of it.
fn shown(mut members: Value, display: &Display, texts: [(&str, Option<&str>); 2]) -> Json {
    for (member, text) in texts.into_iter().chain([("title", display.title.as_deref())]) {
        if let Some(text) = text {
            members[member] = text.into();
        }
    }
    if !display.icons.is_empty() {
        members["icons"] = json!(display.icons);
    }
    Json::from(members)
}
