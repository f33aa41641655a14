//! `longhaul check`: validates a configuration and prints what it would serve.

mod issuers;
pub(crate) mod machine;
mod shared_store;
mod upstreams;

pub(crate) use issuers::describe_unfit;

use crate::{
    args,
    config::{self, Config, ConfigError, Problem, ServerConfig},
    machine::upstream_logins::UpstreamError,
    mcp_servers::generated_config,
    output,
    servers::notice::with_notice,
};
use longhaul::auth::keys::KeyFile;
use longhaul_core::plain_line;
use longhaul_gateway::UpstreamCheck;
use longhaul_runtime::Ports;
use longhaul_server::http::is_loopback;
use serde_json::{Value, json};
use std::{io, process::ExitCode, time::Duration};

/// Checks the file and prints the problems found.
pub(crate) fn run(check: &args::Check) -> ExitCode {
    let file = check.source.path();
    let config = generated_config::load(&check.source);
    let checked = config.map(|mut config| {
        let others = Others::look(&mut config, check.offline);
        (config, others)
    });
    let has_problems = matches!(&checked, Ok((_, Ok(others))) if others.problems().next().is_some());
    match (checked, check.json) {
        (Ok((_, Err(error))), json) => {
            match json {
                true => output::json_line(
                    &json!({"ok": false, "file": file, "problems": [{"line": null, "message": error.to_string()}], "warnings": []}),
                ),
                false => output::note(&format!("{}: {error}", file.display())),
            }
            return ExitCode::from(config::EXIT_INVALID);
        }
        (Ok((config, Ok(others))), true) => output::json_line(&valid_json(&config, &others)),
        (Ok((config, Ok(others))), false) => {
            let file = file.display().to_string();
            warn(&file, &config.warnings);
            let store = others
                .store
                .as_ref()
                .map(shared_store::InspectedDatabase::describe)
                .unwrap_or_default();
            output::text(&(describe(&config) + &store + &upstreams::describe(&others.upstreams)));
            for warning in others.warnings() {
                output::note(&plain_line(&format!("warning: {file}: {warning}")));
            }
            for problem in others.problems() {
                output::note(&plain_line(&format!("{file}: {problem}")));
            }
        }
        (Err(error), true) => {
            output::json_line(&invalid_json(&error));
            return ExitCode::from(config::EXIT_INVALID);
        }
        (Err(error), false) => {
            output::note(&error.to_string());
            warn(&error.file, &error.warnings);
            return ExitCode::from(config::EXIT_INVALID);
        }
    }
    match has_problems {
        true => ExitCode::from(config::EXIT_INVALID),
        false => ExitCode::SUCCESS,
    }
}

/// A configuration that can be served, as far as that is known.
pub(crate) struct CheckedConfig {
    pub(crate) config: Config,
    /// What is probably a mistake, beside the warnings of the configuration.
    pub(crate) warnings: Vec<String>,
}

/// Looks at a configuration as `longhaul check` does.
///
/// # Errors
/// Why it cannot be served.
pub(crate) fn look(mut config: Config, is_offline: bool) -> Result<CheckedConfig, Vec<String>> {
    let others = Others::look(&mut config, is_offline).map_err(|error| vec![error.to_string()])?;
    let problems: Vec<String> = others.problems().collect();
    match problems.is_empty() {
        true => Ok(CheckedConfig {
            warnings: others.warnings().collect(),
            config,
        }),
        false => Err(problems),
    }
}

/// The machine, and the servers of others that the configuration names, as they are now.
#[derive(Default)]
struct Others {
    /// What of this machine keeps the server from starting.
    machine: Vec<String>,
    /// Why the reserve does not fit on the disk now.
    reserve: Option<String>,
    store: Option<shared_store::InspectedDatabase>,
    upstreams: Vec<UpstreamCheck>,
    /// What issuers do not answer.
    unreachable: Vec<String>,
}

/// The servers of others cannot be asked.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Upstreams(#[from] UpstreamError),
    #[error("cannot connect to the servers that it names: {0}")]
    Runtime(#[from] io::Error),
}

impl Others {
    /// Looks at the machine and, unless it `is_offline`, at the others. Adds to the warnings of the configuration what is known only then.
    fn look(config: &mut Config, is_offline: bool) -> Result<Self, AskError> {
        let others = match is_offline {
            true => Self::default(),
            false => Self::ask(config)?,
        };
        let unfit = issuers::patterns_without_tool(config, &others.upstreams);
        config.warnings.extend(unfit);
        config.warnings.sort_by_key(|warning| warning.line);
        Ok(Self {
            machine: machine::faults(&config.server),
            reserve: machine::reserve_doubt(&config.server.data_dir, config.server.disk_reserve),
            ..others
        })
    }

    /// Asks all of them at once. Upstreams are taken out of the configuration.
    fn ask(config: &mut Config) -> Result<Self, AskError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let entered = runtime.enter();
        let (upstreams, ports) = (std::mem::take(&mut config.upstreams), Ports::system());
        let asked = async {
            tokio::join!(
                shared_store::look(config),
                upstreams::dial(upstreams, config, &ports),
                issuers::find_unreachable(&config.server.auth.issuers, &ports),
            )
        };
        let (store, upstreams, unreachable) = runtime.block_on(with_notice("the servers that it names", asked));
        drop(entered);
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(Self {
            machine: Vec::new(),
            reserve: None,
            store,
            upstreams: upstreams?,
            unreachable,
        })
    }

    /// Why the file cannot be served.
    fn problems(&self) -> impl Iterator<Item = String> {
        let of_store = self.store.iter().filter_map(shared_store::InspectedDatabase::problem);
        let of_machine = self.machine.iter().cloned();
        of_machine.chain(of_store).chain(upstreams::collisions(&self.upstreams))
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        let of_store = self.store.iter().flat_map(|store| store.warnings().iter().cloned());
        let of_issuers = self.unreachable.iter().cloned();
        let of_reserve = self.reserve.iter().cloned();
        of_reserve
            .chain(of_store)
            .chain(of_issuers)
            .chain(upstreams::warnings(&self.upstreams))
    }
}

/// Prints warnings: settings that are valid but probably a mistake.
pub(crate) fn warn(file: &str, warnings: &[Problem]) {
    for warning in warnings {
        output::note(&format!("warning: {}", warning.at(file)));
    }
}

fn describe(config: &Config) -> String {
    let server = &config.server;
    let width = config
        .tools
        .iter()
        .map(|tool| tool.name.len())
        .max()
        .unwrap_or_default();
    let mut text = format!(
        "`{}` would listen on {}, serve {}, and keep its data in {}\n",
        server.name,
        server.listen.url(server.tls.is_some()),
        access(server),
        server.data_dir.display()
    );
    for tool in &config.tools {
        let summary = tool.description.lines().next().unwrap_or_default();
        text.push_str(&format!("  {:width$}  {}\n", tool.name, plain_line(summary)));
    }
    for resource in &config.content.resources {
        text.push_str(&format!("  resource {}  {}\n", resource.name, resource.uri));
    }
    for prompt in &config.content.prompts {
        let summary = prompt.description.as_deref().unwrap_or_default();
        let summary = summary.lines().next().unwrap_or_default();
        text.push_str(plain_line(&format!("  prompt {}  {summary}", prompt.name)).trim_end());
        text.push('\n');
    }
    for schedule in &config.schedules {
        let (name, tool) = (plain_line(&schedule.name), plain_line(&schedule.tool));
        text.push_str(&format!("  schedule {name}: {tool}, {}\n", schedule.recurrence));
    }
    text
}

/// Who may come in.
fn access(server: &ServerConfig) -> String {
    let (auth, mut who) = (&server.auth, Vec::new());
    if auth.api_keys {
        who.push(match KeyFile::is_in(&server.data_dir) {
            true => "holders of API keys",
            false => "holders of API keys (there is none yet: `longhaul keys add FILE NAME`)",
        });
    }
    if !auth.issuers.is_empty() {
        who.push("holders of tokens of its issuers");
    }
    if auth.same_user.unwrap_or(!auth.unauthenticated) {
        if admits_same_user(server) {
            who.push("processes of this user");
        } else if who.is_empty() && !auth.unauthenticated {
            who.push(NOBODY);
        }
    } else if who.is_empty() && !auth.unauthenticated {
        who.push("every user of this machine");
    }
    if auth.unauthenticated {
        who.push("anyone, as the principal `anyone`");
    }
    let who = who.join(" and ");
    match proxies(server) {
        Some(proxies) => format!("{who} ({proxies})"),
        None => who,
    }
}

/// Who may come in if no program of this machine is taken for one of this user, and nobody else is named.
pub(crate) const NOBODY: &str = "nobody: all that can connect is taken for a proxy, or refused";

/// Whether processes of this user can come in without credentials.
pub(crate) fn admits_same_user(server: &ServerConfig) -> bool {
    config::admits_same_user(&server.listen, &server.http.trusted_proxies)
}

/// What proxies mean for whoever comes through them, or does not.
pub(crate) fn proxies(server: &ServerConfig) -> Option<String> {
    let http = &server.http;
    if http.trusted_proxies.is_empty() {
        return None;
    }
    let proxies: Vec<String> = http.trusted_proxies.iter().map(ToString::to_string).collect();
    let proxies = proxies.join(", ");
    let others = match server.tls.is_some()
        || http.plain_http
        || server.listen.address().is_none_or(|address| is_loopback(address.ip()))
    {
        true => "",
        false => ", and from other machines only through them: TLS ends there",
    };
    Some(format!("clients' addresses as the proxies at {proxies} tell{others}"))
}

fn valid_json(config: &Config, others: &Others) -> Value {
    let tools: Vec<Value> = config
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description}))
        .collect();
    let content = &config.content;
    let resources = content.resources.iter();
    let resources: Vec<Value> = resources.map(|one| json!({"name": one.name, "uri": one.uri})).collect();
    let prompts: Vec<Value> = content.prompts.iter().map(|one| json!({"name": one.name})).collect();
    let server = &config.server;
    let mut warnings = problems_json(&config.warnings);
    warnings.extend(
        others
            .warnings()
            .map(|warning| json!({"line": null, "message": warning})),
    );
    let problems: Vec<Value> = others
        .problems()
        .map(|problem| json!({"line": null, "message": problem}))
        .collect();
    let mut valid = json!({
        "ok": problems.is_empty(),
        "server": {"name": server.name, "listen": listen(server), "tls": server.tls.is_some(), "access": access(server), "dataDir": server.data_dir},
        "tools": tools,
        "resources": resources,
        "prompts": prompts,
        "upstreams": upstreams::to_json(&others.upstreams),
        "warnings": warnings,
    });
    if !config.schedules.is_empty() {
        let schedules = config.schedules.iter().map(|schedule| {
            json!({"name": &*schedule.name, "tool": &*schedule.tool, "plan": schedule.recurrence.to_string(), "as": schedule.principal.as_str()})
        });
        valid["schedules"] = schedules.collect();
    }
    if let Some(store) = &others.store {
        valid["store"] = store.to_json();
    }
    if !problems.is_empty() {
        valid["problems"] = problems.into();
    }
    valid
}

fn listen(server: &ServerConfig) -> String {
    match server.listen.address() {
        Some(address) => address.to_string(),
        None => server.listen.url(false),
    }
}

fn invalid_json(error: &ConfigError) -> Value {
    json!({
        "ok": false,
        "file": error.file,
        "problems": problems_json(&error.problems),
        "warnings": problems_json(&error.warnings),
    })
}

fn problems_json(problems: &[Problem]) -> Vec<Value> {
    problems
        .iter()
        .map(|problem| json!({"line": problem.line, "message": problem.message}))
        .collect()
}
