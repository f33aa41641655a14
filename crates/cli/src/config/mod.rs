//! The configuration file of `longhaul serve`.
//!
//! All mistakes in a file are reported at once, with how to fix them and their lines, where they have one. Values are checked only if the syntax is valid.

mod admin;
mod content;
mod data_dir;
mod display;
mod file;
mod keys;
pub(crate) mod media_type;
mod paths;
mod schedule;
mod section;
mod server;
mod size;
mod tool;
mod upstream;
pub(crate) mod variables;

#[cfg(test)]
mod tests;

pub(crate) use content::{
    ContainedFolder, ContentConfig, FOLDER_VARIABLE, PromptArgument, PromptConfig, ResourceConfig, ResourceSource,
};
pub(crate) use data_dir::{DataDirConfig, load_for_data_dir};
pub(crate) use display::Display;
pub(crate) use file::{ConfigError, Problem};
pub(crate) use keys::{KeysConfig, load_for_keys};
pub(crate) use paths::Environment;
pub(crate) use server::audit::AuditConfig;
pub(crate) use server::auth::UNAUTHENTICATED;
pub(crate) use server::shared_store::{DEFAULT_SCHEMA, SharedStore, is_address};
pub(crate) use server::{Listen, ServerConfig, Way, admits_same_user, check_exposure, is_server_name, parse_listen};
pub(crate) use tool::{HttpTool, Output, ToolConfig, command::Stdin};
pub(crate) use upstream::{UpstreamAuth, UpstreamConfig};

use file::File;
use longhaul_admin::AdminSettings;
use longhaul_runtime::Schedule;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Exit status of a command whose configuration is invalid.
pub(crate) const EXIT_INVALID: u8 = 2;

/// How many attempts run at once by default in a server with upstreams.
const MAX_RUNNING_WITH_UPSTREAMS: u32 = 1_000;

/// A valid configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The `[server]` section.
    pub(crate) server: ServerConfig,
    /// The `[admin]` section, or what holds without it.
    pub(crate) admin: AdminSettings,
    /// The `[[tool]]` sections in the order of the file.
    pub(crate) tools: Vec<ToolConfig>,
    /// The `[[resource]]` and `[[prompt]]` sections.
    pub(crate) content: ContentConfig,
    /// The `[[schedule]]` sections in the order of the file.
    pub(crate) schedules: Vec<Schedule>,
    /// The `[upstream.NAME]` sections in the order of the file. There is at least one tool, resource, prompt or upstream.
    pub(crate) upstreams: Vec<UpstreamConfig>,
    /// Whether the names of tools begin with those of their upstreams.
    pub(crate) prefix: bool,
    /// Settings that are valid but probably a mistake.
    pub(crate) warnings: Vec<Problem>,
    /// The digest of the text that was read.
    pub(crate) digest: String,
    /// The digest of the text of `[server]` and `[admin]`, which a server reads at its start only. Not of their values: defaults and variables differ between
    /// processes.
    pub(crate) settings: String,
}

/// The digest of the text of a configuration, so that a changed one is noticed.
pub(crate) fn digest(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads and checks the configuration at `path`.
///
/// # Errors
/// [`ConfigError`] with every mistake found, in the order of their lines.
pub(crate) fn load(path: &Path, environment: &Environment) -> Result<Config, ConfigError> {
    check(File::read(path)?, path, environment)
}

/// Checks a configuration that was made of the file at `path`. Lines in messages are those of `text`.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_generated(path: &Path, text: String, environment: &Environment) -> Result<Config, ConfigError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    check(File::of_text(absolute, text), path, environment)
}

fn check(file: File, path: &Path, environment: &Environment) -> Result<Config, ConfigError> {
    let config = read(&file, environment);
    let (problems, warnings) = file.into_problems();
    match config {
        Some(config) if problems.is_empty() => Ok(Config { warnings, ..config }),
        _ => Err(ConfigError {
            file: path.display().to_string(),
            problems,
            warnings,
        }),
    }
}

/// `None` when a problem was reported without which no configuration can be built.
fn read(file: &File, environment: &Environment) -> Option<Config> {
    let document = file.parse()?;
    let root = section::Section::root(file, document.get_ref());

    let prefix = root.get_or("prefix", true, section::Entry::flag);
    let upstream = root.get("upstream");
    let max_running = match &upstream {
        // Calls of upstreams wait most of the time, and take no core.
        Some(_) => MAX_RUNNING_WITH_UPSTREAMS,
        None => environment.cores.max(1),
    };
    let server = match root.get("server") {
        Some(entry) => entry
            .section("[server]", "[server]")
            .and_then(|section| server::read(&section, environment, max_running)),
        None => {
            file.report(
                None,
                "the section [server] is missing; it needs at least name = \"...\"".to_owned(),
            );
            None
        }
    };
    let tools = match root.get("tool") {
        Some(entry) => tool::read_all(&entry, environment),
        None => {
            if upstream.is_none() && root.get("resource").or(root.get("prompt")).is_none() {
                let nothing =
                    "there is no [[tool]], [[resource]], [[prompt]] or [upstream.NAME], so there is nothing to serve";
                file.report(None, nothing.to_owned());
            }
            Vec::new()
        }
    };
    let content = ContentConfig::read(&root, environment);
    let schedules = match root.get("schedule") {
        Some(entry) => {
            // A tool with a mistake is left out of them, and is no mistake of its schedule.
            let known = (!file.has_problems()).then_some(&*tools);
            schedule::read_all(&entry, known, upstream.is_some())
        }
        None => Vec::new(),
    };
    let admin = root.get_or("admin", AdminSettings::default(), |entry| {
        let listen = server.as_ref().map(|server| &server.listen);
        let of_tools = tools
            .iter()
            .flat_map(|tool| tool.labels.iter().map(|(name, _)| name.as_str()));
        // A tool with a mistake is left out of them.
        let labels = (!file.has_problems()).then(|| of_tools.collect());
        admin::read(&entry.section("[admin]", "[admin]")?, listen, labels.as_ref())
    });
    let upstreams = upstream.map_or_else(Vec::new, |entry| upstream::read_all(&entry, environment));
    root.finish();

    Some(Config {
        server: server?,
        admin: admin?,
        tools,
        content,
        schedules,
        // One upstream keeps its names.
        prefix: prefix? && upstreams.len() > 1,
        upstreams,
        warnings: Vec::new(),
        digest: file.digest(),
        settings: file.settings_digest(),
    })
}
