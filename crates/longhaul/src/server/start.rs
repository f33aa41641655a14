//! Starting a server, and what a running one offers.

use super::{
    Storage, build_id,
    low_level::{AuthorFunctions, Method},
};
use crate::{
    ChangeError, DefinitionError, DefinitionErrors, Prompt, Resource, ResourceTemplate, ServeError, Server,
    ServerHandle, Tool, content::icons_json, serving::handle::RunningServer,
};
#[cfg(feature = "admin")]
use longhaul_admin::PreparedAdmin;
use longhaul_core::{HostId, Store, store::NewNode};
use longhaul_runtime::{Catalog, Engine, EngineOptions, Handoff, Ports, Recovered, Snapshot};
use longhaul_server::{FOLLOW_TOOLS, ProtocolServer, ProtocolServerOptions, ServerInfo, http::Exposure};
use longhaul_store::{MemoryStore, PlainCallStore, RESERVE_BYTES, ReadOnlyStore, SqliteOptions, SqliteStore};
use std::{collections::HashSet, sync::Arc};

impl ServerHandle {
    pub(crate) async fn start(server: Server) -> Result<Self, ServeError> {
        let handle = Self::stopped();
        let ports = Ports::system();
        let server_info = server.server_info();
        let catalog = handle.catalog(
            server.tools,
            server.prompts,
            server.resources,
            server.templates,
            (server.methods, server.author),
            server.cipher.is_some(),
        )?;
        #[cfg(feature = "admin")]
        let data_dir = match &server.storage {
            Storage::Directory(path) => Some(path.clone()),
            Storage::Memory | Storage::Store(_) => None,
        };
        let opened = open(server.storage, server.accept_restored, &ports).await?;
        let (mut store, node) = (opened.store, opened.node);
        #[cfg(feature = "admin")]
        let admin = match server.admin {
            None => None,
            Some(settings) => {
                let data_dir = data_dir.ok_or(ServeError::AdminWithoutDataDir)?;
                let prepared = PreparedAdmin::new(settings, &data_dir, &ports).await?;
                let prepared = prepared.with_reads_only(opened.reads_only);
                Some(prepared.with_drain_timeout(server.drain_timeout))
            }
        };
        if let Some(wrap) = server.wrap_store {
            store = wrap(store);
        }
        let mut store: Arc<dyn Store> = Arc::new(PlainCallStore::in_front_of(store));
        if let Some(wrap) = server.wrap_engine_store {
            store = wrap(store);
        }
        #[cfg(feature = "admin")]
        if let Some(admin) = &admin {
            store = admin.metering(&ports)(store);
        }
        #[cfg(feature = "admin")]
        let (name, audit) = (server.name.clone(), server.audit.clone());
        let (engine, recovered) = Engine::start(EngineOptions {
            store,
            node: NewNode {
                name: server.name.as_str().into(),
                ..server
                    .node
                    .or(node)
                    .unwrap_or_else(|| host_of_this_start(&ports).into())
            },
            lost_after: u64::try_from(server.lost_after.as_millis()).unwrap_or(u64::MAX),
            ports,
            catalog,
            providers: server.providers,
            max_running: server.max_running,
            quota: server.quota,
            suspend_after: server.suspend_after,
            build: server.build.unwrap_or_else(build_id::of_executable),
            step_observer: server.step_observer,
            may_begin: server.authentication.may_begin(),
            cipher: server.cipher,
        })
        .await?;
        log_recovered(recovered);
        let exposure = Exposure::of(&server.authentication, &server.http, server.tls.is_some());
        let protocol = ProtocolServer::new(ProtocolServerOptions {
            engine: engine.clone(),
            server_info,
            max_body: server.max_body,
            strict_headers: server.strict_headers,
            limits: server.limits,
            authentication: server.authentication,
            http: server.http,
            events: server.events,
            audit: server.audit,
        });
        let running = RunningServer {
            protocol: Arc::new(protocol.await?),
            engine: engine.clone(),
            recovered,
            exposure,
            tls: server.tls,
        };
        #[cfg(feature = "admin")]
        let admin = admin.map(|admin| admin.with_protocol(Arc::clone(&running.protocol)));
        handle.set_running(running);
        #[cfg(feature = "admin")]
        if let Some(admin) = admin {
            if let Some(url) = admin.url() {
                tracing::info!(url, "operated");
            }
            let operated = admin.operate(name, engine.clone(), audit, handle.drain());
            engine.spawn(Box::pin(operated.serve()));
        }
        for begin in server.background_tasks {
            engine.spawn(begin(handle.clone()));
        }
        Ok(handle)
    }

    /// Checks all definitions and collects them in a catalog.
    fn catalog(
        &self,
        tools: Vec<Tool>,
        prompts: Vec<Prompt>,
        resources: Vec<Resource>,
        templates: Vec<ResourceTemplate>,
        (methods, author): (Vec<Method>, AuthorFunctions),
        has_cipher: bool,
    ) -> Result<Catalog, DefinitionErrors> {
        let mut mistakes = Mistakes::default();
        mistakes.check_unique("tool", tools.iter().map(Tool::name));
        mistakes.check_unique("prompt", prompts.iter().map(Prompt::name));
        mistakes.check_unique("resource", resources.iter().map(Resource::uri));
        mistakes.check_unique(
            "resource template",
            templates.iter().map(ResourceTemplate::uri_template),
        );
        mistakes.check_unique("method", methods.iter().map(|method| &method.name));
        mistakes.check_unique("notification", author.notifications.iter().map(|one| &one.name));
        mistakes.collect(author.notifications.iter().map(|one| one.check()));
        mistakes.check_unique("extension", author.extensions.iter().map(|one| &one.name));
        mistakes.collect(author.extensions.iter().map(|one| one.check()));
        if tools.iter().any(Tool::hands_off) {
            mistakes
                .0
                .extend(tools.iter().filter_map(|tool| name_conflict(tool.name())));
        }
        mistakes.collect(tools.iter().map(|tool| tool.check_cipher(has_cipher)));
        let tools = mistakes.collect(tools.into_iter().map(|tool| tool.build(self)));
        let prompts = mistakes.collect(prompts.into_iter().map(|prompt| prompt.build(self)));
        let resources = mistakes.collect(resources.into_iter().map(|resource| resource.build(self)));
        let templates = mistakes.collect(templates.into_iter().map(|template| template.build(self)));
        let methods = mistakes.collect(methods.into_iter().map(|method| method.build(self)));
        if !mistakes.0.is_empty() {
            return Err(DefinitionErrors(mistakes.0));
        }
        let catalog = Catalog::new(tools).map_err(|error| {
            DefinitionErrors(vec![DefinitionError {
                what: "the tools".to_owned(),
                why: error.to_string(),
            }])
        })?;
        prompts.into_iter().for_each(|prompt| catalog.put_prompt(prompt));
        resources
            .into_iter()
            .for_each(|resource| catalog.put_resource(resource));
        templates
            .into_iter()
            .for_each(|template| catalog.put_template(template));
        author.build(methods, self).put_into(&catalog);
        Ok(catalog)
    }

    /// Offers a tool. Replaces one of the same name, whose running calls continue with the old definition.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub async fn put_tool(&self, tool: Tool) -> Result<(), ChangeError> {
        let running = self.running().ok_or(ChangeError::Stopped)?;
        check_follow_tools(&tool, &running.engine.catalog().snapshot())?;
        tool.check_cipher(running.engine.has_cipher())?;
        Ok(running.engine.put_tool(tool.build(self)?).await?)
    }

    /// Offers a prompt. Replaces one of the same name.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_prompt(&self, prompt: Prompt) -> Result<(), ChangeError> {
        let prompt = prompt.build(self)?;
        self.change(|catalog| catalog.put_prompt(prompt))
    }

    /// Offers a resource. Replaces one at the same URI.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_resource(&self, resource: Resource) -> Result<(), ChangeError> {
        let resource = resource.build(self)?;
        self.change(|catalog| catalog.put_resource(resource))
    }

    /// Offers a resource template. Replaces an equal one.
    ///
    /// # Errors
    /// [`ChangeError`]; then nothing has changed.
    pub fn put_template(&self, template: ResourceTemplate) -> Result<(), ChangeError> {
        let template = template.build(self)?;
        self.change(|catalog| catalog.put_template(template))
    }
}

impl Server {
    /// What clients see of it.
    fn server_info(&self) -> ServerInfo {
        let icons = icons_json(&self.icons).map(|icons| icons.to_string());
        let server_info = ServerInfo::new(&self.name, &self.version).with_details(
            self.title.as_deref(),
            self.website.as_deref(),
            icons.as_deref(),
        );
        match &self.instructions {
            Some(instructions) => server_info.with_instructions(instructions.clone()),
            None => server_info,
        }
    }
}

fn log_recovered(recovered: Recovered) {
    if recovered == Recovered::default() {
        return;
    }
    let Recovered {
        attempts,
        orphaned_calls,
        live,
    } = recovered;
    tracing::info!(
        attempts,
        orphaned_calls,
        ?live,
        "recovered the tasks of an earlier process"
    );
}

/// The mistakes found so far.
#[derive(Default)]
struct Mistakes(Vec<DefinitionError>);

impl Mistakes {
    fn check_unique<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a Arc<str>>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.0.push(DefinitionError {
                    what: format!("{kind} `{name}`"),
                    why: "there are two of this name: rename one".to_owned(),
                });
            }
        }
    }

    fn collect<T>(&mut self, built: impl Iterator<Item = Result<T, DefinitionError>>) -> Vec<T> {
        built
            .filter_map(|built| built.map_err(|error| self.0.push(error)).ok())
            .collect()
    }
}

/// The mistake of a tool whose name is that of a tool that follows handed-off calls.
fn name_conflict(name: &Arc<str>) -> Option<DefinitionError> {
    FOLLOW_TOOLS.contains(&&**name).then(|| DefinitionError {
        what: format!("tool `{name}`"),
        why: "the server has a tool of this name itself, with which callers follow calls that were handed off: rename this one"
            .to_owned(),
    })
}

/// Checks a new tool against those that are offered.
fn check_follow_tools(tool: &Tool, offered: &Snapshot) -> Result<(), DefinitionError> {
    let others = || {
        offered
            .tools
            .values()
            .map(|other| other.settings())
            .filter(|other| other.name != *tool.name())
    };
    if !tool.hands_off() && !others().any(|other| matches!(other.handoff, Handoff::After(_))) {
        return Ok(());
    }
    let mut names = others().map(|other| &other.name).chain([tool.name()]);
    names.find_map(name_conflict).map_or(Ok(()), Err)
}

/// A host id of its own: nothing outlives a process that keeps no id.
fn host_of_this_start(ports: &Ports) -> HostId {
    let mut random = [0; 8];
    ports.entropy.fill(&mut random);
    HostId(format!("process-{:016x}", u64::from_le_bytes(random)).into())
}

struct OpenedStore {
    store: Arc<dyn Store>,
    /// What the storage knows of this host.
    node: Option<NewNode>,
    /// Why it can only be read, if so.
    #[cfg(feature = "admin")]
    reads_only: Option<String>,
}

impl OpenedStore {
    fn without_directory(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            node: None,
            #[cfg(feature = "admin")]
            reads_only: None,
        }
    }
}

async fn open(storage: Storage, accept_restored: bool, ports: &Ports) -> Result<OpenedStore, ServeError> {
    match storage {
        Storage::Store(store) => Ok(OpenedStore::without_directory(store)),
        Storage::Memory => {
            tracing::info!("tasks are kept in memory and end with this process; `data_dir` keeps them on disk");
            Ok(OpenedStore::without_directory(Arc::new(MemoryStore::default())))
        }
        Storage::Directory(path) => {
            // Waits up to two seconds for an earlier owner.
            let options = SqliteOptions {
                accept_restored,
                reserve_bytes: RESERVE_BYTES,
                ..SqliteOptions::default()
            };
            let opened = ports.blocking(move || SqliteStore::open(&path, options)).await;
            let store = opened.ok_or(ServeError::Stopped)??;
            if let Some(why) = store.disagreement() {
                tracing::error!(
                    "{why}. The server is read-only: no task runs until `Server::accept_restored_database` is set"
                );
            }
            Ok(OpenedStore {
                node: Some(store.host_id().clone().into()),
                #[cfg(feature = "admin")]
                reads_only: store.disagreement().map(ToString::to_string),
                store: ReadOnlyStore::unless_accepted(Arc::new(store)),
            })
        }
    }
}
