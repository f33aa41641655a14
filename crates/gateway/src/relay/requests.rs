//! Prompts, resources and completions of upstreams: requests that are passed on.

use super::{
    own_entries,
    relayed_request::{UpstreamMethod, text},
};
use crate::{
    catalog::{EarlierNames, client_catalog},
    executor::progress::relayed_progress,
    lists::{UpstreamLists, text_member},
    question::{Context, foreign_meta},
    upstream::{Upstream, Upstreams, loops, public},
};
use longhaul_client::{CallOptions, Event, RequestError};
use longhaul_core::{BoxFuture, Json, JsonMembers, RpcFailure};
use longhaul_runtime::{Catalog, CustomMethod, Engine, HandlerError, ListClient, MethodHandler, RequestContext};
use longhaul_wire::relayed;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
};

/// How the URIs of the server's own resources begin.
const OWN_SCHEME: &str = "longhaul:";
/// Each with its name, and the server capability that makes it worth answering.
const METHODS: [(UpstreamMethod, &str, &str); 6] = [
    (UpstreamMethod::ListPrompts, "prompts/list", "prompts"),
    (UpstreamMethod::GetPrompt, "prompts/get", "prompts"),
    (UpstreamMethod::ListResources, "resources/list", "resources"),
    (UpstreamMethod::ListTemplates, "resources/templates/list", "resources"),
    (UpstreamMethod::ReadResource, "resources/read", "resources"),
    (UpstreamMethod::Complete, "completion/complete", "completions"),
];

/// Answers the methods that an upstream has, and no longer those that none has.
pub(crate) fn offer(upstreams: &Arc<Upstreams>, engine: &Engine) {
    let lists: Vec<Arc<UpstreamLists>> = upstreams.all().iter().filter_map(|upstream| upstream.lists()).collect();
    let catalog = engine.catalog();
    for (relayed, name, capability) in METHODS {
        let is_offered = catalog.method(name).is_some();
        match lists.iter().any(|lists| lists.declares(capability)) {
            true if !is_offered => {
                let handler = Arc::new(RelayedMethod {
                    upstreams: Arc::clone(upstreams),
                    catalog: Arc::downgrade(catalog),
                    relayed,
                });
                match CustomMethod::new(name, handler) {
                    Ok(method) => catalog.put_method(method),
                    Err(error) => tracing::error!(name, %error, "a method cannot be answered"),
                }
            }
            false if is_offered => drop(catalog.remove_method(name)),
            _ => {}
        }
    }
}

struct RelayedMethod {
    upstreams: Arc<Upstreams>,
    /// Has what this server offers by itself, which comes before the upstreams.
    catalog: Weak<Catalog>,
    relayed: UpstreamMethod,
}

impl MethodHandler for RelayedMethod {
    fn call(self: Arc<Self>, params: Json, cx: RequestContext) -> BoxFuture<'static, Result<Json, HandlerError>> {
        Box::pin(async move {
            let upstreams = &self.upstreams;
            let params: JsonMembers = serde_json::from_str(params.as_str()).unwrap_or_default();
            let is_list = matches!(
                self.relayed,
                UpstreamMethod::ListPrompts | UpstreamMethod::ListResources | UpstreamMethod::ListTemplates
            );
            if is_list && let Some(known) = client_catalog::until_known(upstreams, of(&cx)) {
                known.await;
            }
            let own = self
                .catalog
                .upgrade()
                .map(|catalog| catalog.snapshot())
                .unwrap_or_default();
            let own_texts = || own_entries::of(&own, self.relayed);
            match self.relayed {
                UpstreamMethod::ListPrompts => Ok(list(
                    upstreams,
                    &cx,
                    "prompts",
                    own_texts(),
                    |lists| &lists.prompts,
                    "name",
                )),
                UpstreamMethod::ListResources => Ok(list(
                    upstreams,
                    &cx,
                    "resources",
                    own_texts(),
                    |lists| &lists.resources,
                    "uri",
                )),
                UpstreamMethod::ListTemplates => Ok(list(
                    upstreams,
                    &cx,
                    "resourceTemplates",
                    own_texts(),
                    |lists| &lists.templates,
                    "uriTemplate",
                )),
                relayed => {
                    if let Some(answer) = own_entries::answer(&own, relayed, &params, &cx) {
                        return answer.await;
                    }
                    match relayed {
                        UpstreamMethod::GetPrompt => get_prompt(upstreams, params, &cx).await,
                        UpstreamMethod::ReadResource => read_resource(upstreams, params, &cx).await,
                        _ => complete(upstreams, params, &cx).await,
                    }
                }
            }
        })
    }
}

/// Who asks.
fn of(cx: &RequestContext) -> ListClient<'_> {
    ListClient {
        principal: cx.principal(),
        session: cx.session(),
        requestor: cx.requestor(),
    }
}

/// This server's `own` entries and those of all upstreams, in the order of the configuration. Of several entries of one `key` the first one counts: requests for it
/// go there.
fn list(
    upstreams: &Upstreams,
    cx: &RequestContext,
    member: &str,
    own: Vec<(Arc<str>, Json)>,
    entries: impl Fn(&UpstreamLists) -> &Vec<Json>,
    key: &str,
) -> Json {
    let mut out = format!(r#"{{"{member}":["#);
    let mut is_first = true;
    let mut uris = HashSet::new();
    for (name, entry) in &own {
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        out.push_str(entry.as_str());
        uris.insert(name.to_string());
    }
    for upstream in upstreams.all() {
        let Some(lists) = upstream.lists_for(of(cx)) else {
            continue;
        };
        let earlier = (key == "name").then(|| EarlierNames::of_prompts(upstreams, &upstream));
        let mut own_uris = Vec::new();
        for entry in entries(&lists) {
            let shown = match (&earlier, text_member(entry, key)) {
                (Some(earlier), Some(name)) => {
                    let shown = upstream.offered_name(&name);
                    if uris.contains(&*shown) || earlier.claim(&shown).is_some() {
                        continue;
                    }
                    relayed::entry(entry, "name", &Value::from(shown).to_string())
                }
                (None, Some(uri)) if uris.contains(&uri) => continue,
                (_, uri) => {
                    own_uris.extend(uri);
                    relayed::result(entry)
                }
            };
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            out.push_str(shown.as_str());
        }
        uris.extend(own_uris);
    }
    out.push_str("]}");
    for upstream in upstreams.all() {
        let lists = upstream.lists();
        if let Some(members) = lists.as_ref().and_then(|lists| lists.members.get(member)) {
            out = relayed::with_members(&out, members);
        }
    }
    Json::trusted(out)
}

/// The upstream that has a prompt of this name, and its own name for it.
fn find_prompt(upstreams: &Upstreams, shown: &str, cx: &RequestContext) -> Option<(Arc<Upstream>, String)> {
    let found = upstreams.all().into_iter().find_map(|upstream| {
        let lists = upstream.lists_for(of(cx))?;
        let mut names = lists.index().prompts.iter();
        let name = names.find(|name| upstream.offered_name(name) == shown)?.clone();
        Some((upstream, name))
    });
    found.filter(|(upstream, _)| EarlierNames::of_prompts(upstreams, upstream).claim(shown).is_none())
}

async fn get_prompt(upstreams: &Upstreams, mut params: JsonMembers, cx: &RequestContext) -> Result<Json, HandlerError> {
    let shown = text(&params, "name");
    let (upstream, name) = find_prompt(upstreams, &shown, cx).ok_or(HandlerError::NotFound)?;
    params.insert("name".to_owned(), Json::from(Value::from(name)));
    forward(&upstream, "prompts/get", params, cx).await
}

/// The upstreams that may have a resource: those that list it, then those with a template that fits, then the others, each in the order of the configuration.
pub(crate) fn may_have(upstreams: &Upstreams, uri: &str) -> Vec<Arc<Upstream>> {
    let mut ranked: Vec<(u8, Arc<Upstream>)> = Vec::new();
    // The resources of tasks are this server's own, and name their ids.
    if uri.starts_with(OWN_SCHEME) {
        return Vec::new();
    }
    for upstream in upstreams.all() {
        let Some(lists) = upstream.lists().filter(|lists| lists.declares("resources")) else {
            continue;
        };
        let index = lists.index();
        let rank = match index.uris.contains(uri) {
            true => 0,
            false if index.fits_template(uri) => 1,
            false => 2,
        };
        ranked.push((rank, upstream));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, upstream)| upstream).collect()
}

async fn read_resource(upstreams: &Upstreams, params: JsonMembers, cx: &RequestContext) -> Result<Json, HandlerError> {
    let mut not_found = HandlerError::NotFound;
    for upstream in may_have(upstreams, &text(&params, "uri")) {
        match forward(&upstream, "resources/read", params.clone(), cx).await {
            // It has no such resource.
            Err(HandlerError::Rpc(failure)) if matches!(failure.code, -32002 | -32602) => {
                not_found = HandlerError::Rpc(failure);
            }
            read => return read,
        }
    }
    Err(not_found)
}

async fn complete(upstreams: &Upstreams, mut params: JsonMembers, cx: &RequestContext) -> Result<Json, HandlerError> {
    let written = params.remove("ref").unwrap_or_else(|| Json::trusted("{}"));
    let reference: JsonMembers = serde_json::from_str(written.as_str()).unwrap_or_default();
    let (upstream, written) = match &*text(&reference, "type") {
        "ref/prompt" => {
            let shown = text(&reference, "name");
            let (upstream, name) = find_prompt(upstreams, &shown, cx).ok_or(HandlerError::NotFound)?;
            let name = Value::from(name).to_string();
            (upstream, relayed::entry(&written, "name", &name))
        }
        _ => {
            let uri = text(&reference, "uri");
            let lists_it = |lists: &UpstreamLists| lists.index().template_uris.contains(&uri);
            let mut all = upstreams.all().into_iter();
            let found = all.find(|upstream| upstream.lists_for(of(cx)).is_some_and(|lists| lists_it(&lists)));
            (found.ok_or(HandlerError::NotFound)?, written)
        }
    };
    params.insert("ref".to_owned(), written);
    forward(&upstream, "completion/complete", params, cx).await
}

/// Passes a request on, and returns the result without what belongs to the upstream's connection.
async fn forward(
    upstream: &Upstream,
    method: &str,
    mut params: JsonMembers,
    cx: &RequestContext,
) -> Result<Json, HandlerError> {
    let context = Context::Request(cx.clone());
    let (connection, registration) = upstream
        .register(&context, &BTreeMap::new())
        .await
        .map_err(|error| failed(upstream, &error.to_string()))?;
    upstream
        .connect(&connection, &mut upstream.backoff(), None)
        .await
        .map_err(|down| failed(upstream, &public(upstream.name(), &down.error, cx.principal())))?;
    connection.give_roots(&context).await;
    let received = params.remove("_meta");
    let received = received.and_then(|meta| serde_json::from_str(meta.as_str()).ok());
    let received: JsonMembers = received.unwrap_or_default();
    let mut meta = foreign_meta(&received);
    cx.requestor().add_context(&mut meta);
    loops::count_hop(&received, &mut meta).map_err(|why| failed(upstream, &why))?;
    // Answers of a modern client in its rounds are for the gateway.
    params.remove("inputResponses");
    params.remove("requestState");
    let mut options = CallOptions::default();
    options.source = Some(registration.number);
    options.meta = meta;
    let on_event = &mut |event: Event<'_>| {
        if let Event::Progress(progress) = event {
            cx.send(relayed_progress(&progress));
        }
    };
    registration.begins();
    let answer = (connection.connection)
        .forward(method, &params, &options, on_event)
        .await;
    if !matches!(&answer, Err(error) if error.is_transient() && !error.is_unsent()) {
        registration.ends();
    }
    match answer {
        Ok(result) => Ok(relayed::result(&result)),
        Err(RequestError::Rpc(failure)) => Err(HandlerError::Rpc(failure)),
        Err(error) => Err(failed(upstream, &public(upstream.name(), &error, cx.principal()))),
    }
}

fn failed(upstream: &Upstream, why: &str) -> HandlerError {
    HandlerError::Rpc(RpcFailure {
        code: -32603,
        message: format!("upstream `{}`: {why}", upstream.name()).into(),
        data: None,
    })
}
