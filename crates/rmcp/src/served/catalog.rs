//! The handler's tools, prompts and resources, and how they are registered in Longhaul's catalog.

use super::{
    ServedError,
    caller::Caller,
    exchange::{Failed, Hosted},
    request::{Answering, Completing},
    tool::Settings,
};
use indexmap::IndexMap;
use longhaul::ServerHandle;
use longhaul_core::Json;
use longhaul_runtime::{Catalog, Completer, Prompt, Resource, ResourceTemplate, UriTemplate};
use rmcp::model::{ClientRequest, ErrorCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The server capabilities of the handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) completions: bool,
    pub(super) subscribe: bool,
}

/// A longer list is refused as endless.
const PAGES: usize = 10_000;

/// A list: the definitions by name, in the handler's order and as it gave them.
type List = IndexMap<String, Value>;

/// The tools, prompts and resources of the handler.
pub(super) struct Offered {
    pub(super) tools: List,
    prompts: List,
    resources: List,
    templates: List,
    /// Whether the handler completes what is typed.
    completions: bool,
}

impl Offered {
    pub(super) async fn read(hosted: &Hosted, features: Features) -> Result<Self, ServedError> {
        let list = async |is_there: bool, method: &'static str, member: &'static str, name: &'static str| match is_there
        {
            true => read(hosted, method, member, name).await,
            false => Ok(List::new()),
        };
        Ok(Self {
            tools: list(features.tools, "tools/list", "tools", "name").await?,
            prompts: list(features.prompts, "prompts/list", "prompts", "name").await?,
            resources: list(features.resources, "resources/list", "resources", "uri").await?,
            templates: list(
                features.resources,
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            )
            .await?,
            completions: features.completions,
        })
    }

    /// The URIs of all resources that are listed.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().map(String::as_str)
    }

    /// Puts all but the tools, which a server takes before it starts.
    pub(super) fn put(&self, catalog: &Catalog, hosted: &Arc<Hosted>) {
        Self {
            tools: List::new(),
            prompts: List::new(),
            resources: List::new(),
            templates: List::new(),
            completions: false,
        }
        .replace(self, catalog, hosted);
    }

    /// Offers what is new or has changed, and no longer what is gone.
    pub(super) async fn change_to(
        &mut self,
        now: Self,
        server: &ServerHandle,
        hosted: &Arc<Hosted>,
        settings: &Settings,
    ) {
        let Some(engine) = server.engine() else { return };
        self.replace(&now, engine.catalog(), hosted);
        for name in gone(&self.tools, &now.tools) {
            server.remove_tool(name);
        }
        for (name, definition) in changed(&self.tools, &now.tools) {
            let put = server.put_tool(settings.tool(name, definition, hosted)).await;
            if let Err(error) = put {
                tracing::error!(%error, name, "a tool of the handler's cannot be offered as it now is");
            }
        }
        *self = now;
    }

    fn replace(&self, now: &Self, catalog: &Catalog, hosted: &Arc<Hosted>) {
        let completer = |reference: Value| -> Option<Arc<dyn Completer>> {
            now.completions
                .then(|| Arc::new(Completing::new(hosted, reference)) as _)
        };
        for name in gone(&self.prompts, &now.prompts) {
            catalog.remove_prompt(name);
        }
        for (name, shown) in changed(&self.prompts, &now.prompts) {
            catalog.put_prompt(Prompt {
                name: name.into(),
                required: required(shown),
                shown: Json::from(shown),
                handler: Arc::new(Answering::prompt(hosted, name)),
                completer: completer(json!({"type": "ref/prompt", "name": name})),
            });
        }
        for uri in gone(&self.resources, &now.resources) {
            catalog.remove_resource(uri);
        }
        for (uri, shown) in changed(&self.resources, &now.resources) {
            catalog.put_resource(Resource {
                uri: uri.into(),
                shown: Json::from(shown),
                handler: Arc::new(Answering::resource(hosted)),
            });
        }
        for template in gone(&self.templates, &now.templates) {
            catalog.remove_template(template);
        }
        for (template, shown) in changed(&self.templates, &now.templates) {
            match UriTemplate::new(template) {
                Ok(uri_template) => catalog.put_template(ResourceTemplate {
                    uri_template,
                    shown: Json::from(shown),
                    handler: Arc::new(Answering::resource(hosted)),
                    completer: completer(json!({"type": "ref/resource", "uri": template})),
                }),
                Err(error) => {
                    tracing::error!(%error, template, "a resource template of the handler's cannot be offered")
                }
            }
        }
    }
}

fn gone<'a>(before: &'a List, now: &'a List) -> impl Iterator<Item = &'a str> {
    before
        .keys()
        .filter(|name| !now.contains_key(*name))
        .map(String::as_str)
}

fn changed<'a>(before: &'a List, now: &'a List) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let differs = |(name, definition): &(&String, &Value)| before.get(*name) != Some(*definition);
    now.iter()
        .filter(differs)
        .map(|(name, definition)| (name.as_str(), definition))
}

fn required(prompt: &Value) -> Vec<Arc<str>> {
    let arguments = prompt["arguments"].as_array().into_iter().flatten();
    let required = arguments.filter(|argument| argument["required"] == true);
    required
        .filter_map(|argument| argument["name"].as_str().map(Arc::from))
        .collect()
}

/// All pages of a list.
async fn read(hosted: &Hosted, method: &'static str, member: &str, name: &str) -> Result<List, ServedError> {
    let wrong = |why: String| ServedError::List { method, why };
    let mut list = List::new();
    let mut params = json!({});
    for _ in 0..PAGES {
        let request = || serde_json::from_value::<ClientRequest>(json!({"method": method, "params": params}));
        let page = match hosted.request(request, &Caller::Us).await {
            Ok(page) => page,
            // What it knows nothing of it has none of, as many have resources and no templates.
            Err(Failed::Refused(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(list),
            Err(Failed::Refused(error)) => return Err(wrong(error.to_string())),
            Err(Failed::Panicked) => return Err(wrong("the handler panicked".to_owned())),
            Err(Failed::Stopped(_) | Failed::Asked(_)) => return Err(wrong("the handler asked something".to_owned())),
        };
        let mut page = serde_json::to_value(page).map_err(|error| wrong(error.to_string()))?;
        let Value::Array(entries) = page[member].take() else {
            return Err(wrong(format!("a page has no {member}")));
        };
        for entry in entries {
            let named = entry[name].as_str().map(str::to_owned);
            let named = named.ok_or_else(|| wrong(format!("an entry has no {name}")))?;
            list.insert(named, entry);
        }
        match page["nextCursor"].take() {
            Value::String(cursor) => params = json!({"cursor": cursor}),
            _ => return Ok(list),
        }
    }
    Err(wrong(format!("it goes on after {PAGES} pages")))
}
