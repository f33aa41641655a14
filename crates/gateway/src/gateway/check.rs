//! What a gateway would offer: connects to each upstream once, without an engine.

use super::make_all;
use crate::{
    GatewayError, JobTools, UpstreamOptions,
    catalog::{Offering, Owners, UpstreamTool, offering::offering, too_long, upstream_tool},
    config::unused_names::unused,
    lists::{UpstreamLists, text_member},
    upstream::Upstream,
};
use futures_util::future::join_all;
use longhaul_client::{RequestError, ServerDescription};
use longhaul_core::{Json, Millis, TaskPolicy, format_duration, whole_millis};
use longhaul_runtime::{DEFAULT_HANDOFF, Handoff, Ports, Tool};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

/// What an upstream offers, and how its tools would be offered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpstreamCheck {
    /// Its name.
    pub name: String,
    /// What it says of itself, or why it cannot be reached.
    pub server: Result<ServerDescription, String>,
    /// Its tools that would be offered.
    pub tools: Vec<ReportedTool>,
    /// Its tools that the configuration leaves out, by its names.
    pub left_out: Vec<String>,
    /// How many prompts it has.
    pub prompts: usize,
    /// How many resources it lists.
    pub resources: usize,
    /// How many resource templates it lists.
    pub templates: usize,
    /// What is probably a mistake.
    pub warnings: Vec<String>,
    /// Its tools whose names are those of another upstream's, which is a mistake.
    pub collisions: Vec<String>,
}

/// A tool of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportedTool {
    /// The upstream's name for it.
    pub name: String,
    /// The name under which it is offered.
    pub offered: String,
    /// Which calls become tasks.
    pub policy: TaskPolicy,
    /// Whether the upstream makes tasks of it itself.
    pub makes_tasks: bool,
    /// Whether a call may be made again when it is not known what became of it.
    pub idempotent: bool,
    /// After how long a waiting client without tasks is told how to follow the call, in milliseconds.
    pub handoff: Option<Millis>,
    /// From the creation to the end of all work, in milliseconds.
    pub deadline: Option<Millis>,
}

/// Connects to each upstream, all at once and for at most `limit`, and tells what it offers. Nothing is called.
///
/// # Errors
/// [`GatewayError`]
pub async fn check(
    upstreams: Vec<UpstreamOptions>,
    prefix: bool,
    version: &'static str,
    limit: Duration,
    ports: &Ports,
) -> Result<Vec<UpstreamCheck>, GatewayError> {
    let upstreams = make_all(upstreams, prefix, version, ports)?;
    let read = join_all(upstreams.iter().map(|upstream| async {
        let read = ports.within(limit, read(upstream)).await;
        // A child that does not answer must not keep the caller.
        ports.within(limit, upstream.connections.close()).await;
        match read {
            Some(read) => read.map_err(|error| error.to_string()),
            None => Err(format!(
                "it has not answered within {}",
                format_duration(whole_millis(limit))
            )),
        }
    }));
    let read = read.await;
    let mut reports: Vec<UpstreamCheck> = upstreams
        .iter()
        .zip(&read)
        .map(|(upstream, read)| report(upstream, read))
        .collect();
    find_collisions(&mut reports);
    warn_of_uris(&mut reports, &read);
    Ok(reports)
}

type ReadResult = Result<(ServerDescription, UpstreamLists), String>;

async fn read(upstream: &Upstream) -> Result<(ServerDescription, UpstreamLists), RequestError> {
    let own = upstream.connections.own();
    let connection = &own.map_err(|error| RequestError::Setup(error.to_string()))?.connection;
    Ok((
        connection.server().await?,
        UpstreamLists::read(connection, &upstream.ports, None).await?,
    ))
}

fn report(upstream: &Arc<Upstream>, read: &ReadResult) -> UpstreamCheck {
    let mut report = UpstreamCheck {
        name: upstream.name().to_owned(),
        server: read.as_ref().map(|(server, _)| server.clone()).map_err(Clone::clone),
        tools: Vec::new(),
        left_out: Vec::new(),
        prompts: 0,
        resources: 0,
        templates: 0,
        warnings: Vec::new(),
        collisions: Vec::new(),
    };
    let Ok((_, lists)) = read else { return report };
    (report.prompts, report.resources, report.templates) =
        (lists.prompts.len(), lists.resources.len(), lists.templates.len());
    let failures = lists.failures.iter();
    report
        .warnings
        .extend(failures.map(|(list, failure)| format!("its list of {list} could not be read: {}", failure.why)));
    let mended = lists.mended.iter();
    report.warnings.extend(mended.map(|(tool, wrong)| {
        format!("its tool `{tool}` has members that clients refuse, which are left out or replaced: {wrong}")
    }));
    let dropped = lists.dropped.iter();
    report
        .warnings
        .extend(dropped.map(|(list, what)| format!("of its list of {list} is ignored: {what}")));
    let (mut names, mut offered) = (HashSet::new(), BTreeSet::new());
    for listed in &lists.tools {
        let Some(name) = text_member(listed, "name") else {
            continue;
        };
        names.insert(name.clone());
        let (shown, job) = match offering(upstream, &name) {
            Offering::LeftOut => {
                report.left_out.push(name);
                continue;
            }
            Offering::Bound => continue,
            Offering::Tool { shown, job } => (shown, job),
        };
        if offered.contains(&shown) {
            report.warnings.push(format!(
                "it lists a second tool `{name}` that would be offered as `{shown}`: only the first one is"
            ));
            continue;
        }
        report.warnings.extend(too_long(upstream, &name, &shown));
        report.warnings.extend(odd_name(&name, &shown));
        match reported(upstream, &name, &shown, job, listed) {
            Ok(tool) => {
                report.tools.push(tool);
                offered.insert(shown);
            }
            Err(why) => report
                .warnings
                .push(format!("its tool `{name}` cannot be offered: {why}")),
        }
    }
    report.warnings.extend(unused(upstream.options(), &names));
    report
}

fn reported(
    upstream: &Arc<Upstream>,
    name: &str,
    shown: &str,
    job: Option<&JobTools>,
    listed: &Json,
) -> Result<ReportedTool, String> {
    let UpstreamTool {
        settings,
        makes_tasks,
        idempotent,
    } = upstream_tool(upstream, name, shown, job, listed)?;
    let (policy, deadline) = (settings.policy, settings.deadline);
    let handoff = match settings.handoff {
        Handoff::Off => None,
        _ if policy == TaskPolicy::Never => None,
        Handoff::Default => Some(DEFAULT_HANDOFF),
        Handoff::After(millis) => Some(millis),
    };
    let tool = Tool::new(settings).map_err(|error| error.to_string())?;
    Ok(ReportedTool {
        name: name.to_owned(),
        offered: tool.name().to_string(),
        policy,
        makes_tasks,
        idempotent,
        handoff,
        deadline,
    })
}

/// What is wrong with a name that some hosts refuse for its characters, and what to do (MCP 2025-11-25, Tools, "Tool Names").
fn odd_name(name: &str, shown: &str) -> Option<String> {
    let is_usual = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let why = match shown.chars().find(|char| !is_usual(*char)) {
        Some(' ') => "has a space".to_owned(),
        Some(odd) => format!("has {odd:?}"),
        None if shown.is_empty() => "is empty".to_owned(),
        None if name.is_empty() => "is that of the upstream alone".to_owned(),
        None => return None,
    };
    Some(format!(
        "the name of its tool `{shown}` {why}, and some hosts take only letters, digits, `_`, `-` and `.`: give it another name with `tools = {{ rename = {{ {name:?} = \"…\" }} }}`"
    ))
}

fn find_collisions(reports: &mut [UpstreamCheck]) {
    let mut owners = Owners::default();
    for report in reports {
        for tool in &report.tools {
            let collision = owners.claim(&report.name, &tool.name, &tool.offered);
            report
                .collisions
                .extend(collision.map(|collision| collision.to_string()));
        }
    }
}

fn warn_of_uris(reports: &mut [UpstreamCheck], read: &[ReadResult]) {
    let mut owners: BTreeMap<&str, String> = BTreeMap::new();
    for (report, read) in reports.iter_mut().zip(read) {
        let Ok((_, lists)) = read else { continue };
        let index = lists.index();
        let mut uris: Vec<&str> = index
            .uris
            .iter()
            .chain(&index.template_uris)
            .map(String::as_str)
            .collect();
        uris.sort_unstable();
        for uri in uris {
            match owners.get(uri) {
                Some(owner) if *owner != report.name => report.warnings.push(format!(
                    "its resource {uri} is hidden: upstream `{owner}` has one with this URI"
                )),
                _ => drop(owners.insert(uri, report.name.clone())),
            }
        }
    }
}
