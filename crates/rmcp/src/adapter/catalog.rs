//! Registers the handler's tools, prompts and resources in Longhaul's catalog.

use super::{
    AdapterError,
    caller::Caller,
    exchange::{HostedHandler, RequestFailure},
    request::{CompletionForwarder, RequestForwarder},
    tool::ToolOverrides,
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

/// How many pages a list may have.
const MAX_PAGES: usize = 10_000;

/// The definitions in a list by name, in the handler's order and unchanged.
type Definitions = IndexMap<String, Value>;

/// The tools, prompts and resources of the handler.
pub(super) struct Offer {
    pub(super) tools: Definitions,
    prompts: Definitions,
    resources: Definitions,
    templates: Definitions,
    /// Whether the handler serves `completion/complete`.
    completions: bool,
}

impl Offer {
    pub(super) async fn read(handler: &HostedHandler, features: Features) -> Result<Self, AdapterError> {
        let list = async |is_supported: bool, method: &'static str, member: &'static str, name: &'static str| {
            match is_supported {
                true => read(handler, method, member, name).await,
                false => Ok(Definitions::new()),
            }
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

    /// The URIs of all listed resources.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().map(String::as_str)
    }

    /// Registers everything except the tools, which a server is given before it starts.
    pub(super) fn put(&self, catalog: &Catalog, handler: &Arc<HostedHandler>) {
        Self {
            tools: Definitions::new(),
            prompts: Definitions::new(),
            resources: Definitions::new(),
            templates: Definitions::new(),
            completions: false,
        }
        .replace(self, catalog, handler);
    }

    /// Registers what is new or has changed, and removes what is not offered any more.
    pub(super) async fn change_to(
        &mut self,
        now: Self,
        server: &ServerHandle,
        handler: &Arc<HostedHandler>,
        overrides: &ToolOverrides,
    ) {
        let Some(engine) = server.engine() else { return };
        self.replace(&now, engine.catalog(), handler);
        for name in removed(&self.tools, &now.tools) {
            server.remove_tool(name);
        }
        for (name, definition) in changed(&self.tools, &now.tools) {
            let put = server.put_tool(overrides.tool(name, definition, handler)).await;
            if let Err(error) = put {
                tracing::error!(%error, name, "the handler has changed a tool to an invalid definition");
            }
        }
        *self = now;
    }

    fn replace(&self, now: &Self, catalog: &Catalog, handler: &Arc<HostedHandler>) {
        let completer = |reference: Value| -> Option<Arc<dyn Completer>> {
            now.completions
                .then(|| Arc::new(CompletionForwarder::new(handler, reference)) as _)
        };
        for name in removed(&self.prompts, &now.prompts) {
            catalog.remove_prompt(name);
        }
        for (name, shown) in changed(&self.prompts, &now.prompts) {
            catalog.put_prompt(Prompt {
                name: name.into(),
                required: required(shown),
                shown: Json::from(shown),
                handler: Arc::new(RequestForwarder::prompt(handler, name)),
                completer: completer(json!({"type": "ref/prompt", "name": name})),
            });
        }
        for uri in removed(&self.resources, &now.resources) {
            catalog.remove_resource(uri);
        }
        for (uri, shown) in changed(&self.resources, &now.resources) {
            catalog.put_resource(Resource {
                uri: uri.into(),
                shown: Json::from(shown),
                handler: Arc::new(RequestForwarder::resource(handler)),
            });
        }
        for template in removed(&self.templates, &now.templates) {
            catalog.remove_template(template);
        }
        for (template, shown) in changed(&self.templates, &now.templates) {
            match UriTemplate::new(template) {
                Ok(uri_template) => catalog.put_template(ResourceTemplate {
                    uri_template,
                    shown: Json::from(shown),
                    handler: Arc::new(RequestForwarder::resource(handler)),
                    completer: completer(json!({"type": "ref/resource", "uri": template})),
                }),
                Err(error) => {
                    tracing::error!(%error, template, "the handler has an invalid resource template")
                }
            }
        }
    }
}

fn removed<'a>(before: &'a Definitions, now: &'a Definitions) -> impl Iterator<Item = &'a str> {
    before
        .keys()
        .filter(|name| !now.contains_key(*name))
        .map(String::as_str)
}

fn changed<'a>(before: &'a Definitions, now: &'a Definitions) -> impl Iterator<Item = (&'a str, &'a Value)> {
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
async fn read(
    handler: &HostedHandler,
    method: &'static str,
    member: &str,
    name: &str,
) -> Result<Definitions, AdapterError> {
    let wrong = |why: String| AdapterError::List { method, why };
    let mut list = Definitions::new();
    let mut params = json!({});
    for _ in 0..MAX_PAGES {
        let request = || serde_json::from_value::<ClientRequest>(json!({"method": method, "params": params}));
        let page = match handler.request(request, &Caller::adapter()).await {
            Ok(page) => page,
            // A method that the handler does not serve is an empty list: many handlers have resources and no templates.
            Err(RequestFailure::Refused(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(list),
            Err(RequestFailure::Refused(error)) => return Err(wrong(error.to_string())),
            Err(RequestFailure::Panicked) => return Err(wrong("the handler panicked".to_owned())),
            Err(RequestFailure::Stopped(_) | RequestFailure::Ask(_)) => {
                return Err(wrong("the handler asked a question".to_owned()));
            }
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
    Err(wrong(format!("the list has more than {MAX_PAGES} pages")))
}
