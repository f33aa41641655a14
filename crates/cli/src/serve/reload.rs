//! Reads the configuration again at SIGHUP: tools, resources, prompts and upstreams come and go, tasks stay.

use super::{
    content::{ContentChanges, OfferedContent},
    tools::{self, ToolProviders, UnusableTool},
};
use crate::{
    args,
    config::{Config, ConfigError, ToolConfig},
    machine::{
        secret_keys::{SecretKeys, SecretKeysError},
        served_file::{ServedFile, present_digest},
        upstream_logins::{UpstreamError, UpstreamLogins},
    },
    mcp_servers::generated_config,
    output,
};
use longhaul::{
    ServerHandle,
    audit::{Audit, AuditAction, AuditEvent, AuditOutcome},
};
use longhaul_core::{Millis, Store};
use longhaul_gateway::{Gateway, GatewayError, Reloaded};
use longhaul_runtime::Engine;
use std::{collections::BTreeMap, sync::Arc};
use tokio::signal::unix::Signal;

/// What the file offers now.
pub(super) struct Present {
    /// By name.
    tools: BTreeMap<String, ToolConfig>,
    pub(super) content: OfferedContent,
}

/// What is needed to change what a running server offers.
pub(super) struct ReloadContext<'a> {
    pub(super) asked: &'a args::Serve,
    pub(super) gateway: &'a Gateway,
    pub(super) logins: &'a UpstreamLogins,
    pub(super) providers: &'a ToolProviders,
    /// With the store that has what they encrypt.
    pub(super) secret_keys: (&'a SecretKeys, &'a dyn Store),
    pub(super) queue_timeout: Millis,
    pub(super) running: &'a ServerHandle,
    pub(super) engine: &'a Engine,
    pub(super) audit: Option<&'a Arc<dyn Audit>>,
}

/// The new configuration cannot be used, and nothing of it is.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Tool(#[from] UnusableTool),
    #[error(transparent)]
    Secrets(#[from] SecretKeysError),
    #[error(transparent)]
    Upstreams(#[from] UpstreamError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}

/// What has changed, by names.
#[derive(Default)]
struct Changes {
    tools_added: Vec<String>,
    tools_changed: Vec<String>,
    tools_removed: Vec<String>,
    /// Of the text that was read.
    digest: String,
    upstreams: Reloaded,
    content: ContentChanges,
    /// How many there are now.
    schedules: usize,
    /// The digest of the settings, which are used at the start only.
    settings: String,
    /// What could not be done.
    problems: Vec<String>,
}

impl Present {
    pub(super) fn new(tools: &[ToolConfig]) -> Self {
        Self {
            tools: tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect(),
            content: OfferedContent::default(),
        }
    }
}

impl ReloadContext<'_> {
    /// Reloads at each signal. Never completes.
    pub(super) async fn on_hangup(&self, hangup: &mut Signal, present: &mut Present, served: &mut ServedFile) {
        let path = self.asked.source.path();
        let file = path.display();
        while hangup.recv().await.is_some() {
            // If it changes meanwhile, what is refused is not what a client has then.
            let before = present_digest(path);
            match self.reload(present).await {
                Ok(changes) => {
                    let settings = match served.has_started_with(&changes.settings) {
                        true => "",
                        false => "; [server] or [admin] has changed, and is read at the next start",
                    };
                    output::note(&format!(
                        "longhaul: {file} was read again: {}{settings}",
                        changes.summary()
                    ));
                    for problem in &changes.problems {
                        output::note(&format!("longhaul: {problem}"));
                    }
                    self.record(&changes.digest, AuditOutcome::Ok);
                    served.take(changes.digest);
                }
                Err(error) => {
                    output::note(&format!(
                        "longhaul: {file} was read again, but has mistakes, so nothing has changed:\n{error}"
                    ));
                    served.refuse(before, error.to_string());
                }
            }
        }
    }

    fn record(&self, digest: &str, outcome: AuditOutcome) {
        if let Some(audit) = self.audit {
            let event = AuditEvent::new(self.engine.ports().clock.wall(), AuditAction::Configuration, outcome);
            audit.record(&event.with_detail(format!("read again; configuration sha256 {digest}")));
        }
    }

    /// All that can be a mistake is found before anything changes.
    async fn reload(&self, present: &mut Present) -> Result<Changes, ReloadError> {
        let Config {
            tools,
            content,
            upstreams,
            schedules,
            prefix,
            warnings,
            digest,
            settings,
            ..
        } = generated_config::load_again(&self.asked.source)?;
        crate::check::warn(&self.asked.source.path().display().to_string(), &warnings);
        let (secret_keys, store) = self.secret_keys;
        let have_secrets = tools.iter().any(|tool| !tool.secrets.is_empty());
        secret_keys.prepare(have_secrets, store).await?;
        let upstreams = self.logins.apply(upstreams)?;
        let next: BTreeMap<_, _> = tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect();
        let is_other = |tool: &ToolConfig| present.tools.get(&tool.name) != Some(tool);
        let other: Vec<ToolConfig> = tools.into_iter().filter(is_other).collect();
        let names: Vec<String> = other.iter().map(|tool| tool.name.clone()).collect();
        let built = tools::build_all(other, self.queue_timeout, self.providers)?;
        let mut changes = Changes {
            upstreams: self.gateway.reload(self.engine, upstreams, prefix).await?,
            content: (present.content)
                .update(content, self.engine.catalog(), self.engine.ports())
                .await,
            digest,
            settings,
            ..Changes::default()
        };
        for gone in present.tools.keys().filter(|name| !next.contains_key(*name)) {
            self.running.remove_tool(gone);
            changes.tools_removed.push(gone.clone());
        }
        let mut failed = Vec::new();
        for (name, tool) in names.into_iter().zip(built) {
            let is_new = !present.tools.contains_key(&name);
            if is_new && self.engine.catalog().tool(&name).is_some() {
                changes.problems.push(format!(
                    "the tool `{name}` is not offered: an upstream offers one of this name"
                ));
                failed.push(name);
                continue;
            }
            match self.running.put_tool(tool).await {
                Ok(()) if is_new => changes.tools_added.push(name),
                Ok(()) => changes.tools_changed.push(name),
                Err(error) => {
                    changes
                        .problems
                        .push(format!("the tool `{name}` was not changed: {error}"));
                    failed.push(name);
                }
            }
        }
        let kept = failed.into_iter().map(|name| {
            let before = present.tools.remove(&name);
            (name, before)
        });
        let kept: Vec<_> = kept.collect();
        present.tools = next;
        for (name, before) in kept {
            match before {
                Some(before) => drop(present.tools.insert(name, before)),
                None => drop(present.tools.remove(&name)),
            }
        }
        let count = schedules.len();
        match self.engine.set_schedules(schedules).await {
            Ok(()) => changes.schedules = count,
            Err(error) => changes.problems.push(format!("the schedules are as before: {error}")),
        }
        Ok(changes)
    }
}

impl Changes {
    fn summary(&self) -> String {
        let lists = [
            ("new tools", &self.tools_added),
            ("changed tools", &self.tools_changed),
            ("removed tools", &self.tools_removed),
            ("new resources", &self.content.resources.added),
            ("changed resources", &self.content.resources.changed),
            ("removed resources", &self.content.resources.removed),
            ("new prompts", &self.content.prompts.added),
            ("changed prompts", &self.content.prompts.changed),
            ("removed prompts", &self.content.prompts.removed),
            ("new upstreams", &self.upstreams.added),
            ("changed upstreams", &self.upstreams.changed),
            ("removed upstreams", &self.upstreams.removed),
        ];
        let told: Vec<String> = lists
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        let mut told = match told.is_empty() {
            true => "what it offers is as before".to_owned(),
            false => told.join("; "),
        };
        if self.schedules > 0 {
            told.push_str(&format!("; schedules: {}", self.schedules));
        }
        told
    }
}
