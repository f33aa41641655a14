//! What keeps work from going on, and what to do about it. The page, the API and `longhaul admin doctor` say the same.

use super::{NO_WORKER, why_not_ready};
use crate::{
    DiskSpace,
    context::AdminContext,
    view::details::{ReadError, full_slots},
};
use longhaul_admin_api::{NodeView, ProblemView, TaskQuery, TaskView, ToolView, UpstreamView, to_url};
use longhaul_core::{
    Millis, NodeId, Principal, QuotaScope, Usage, approximate_duration, plain_line,
    store::{StoreError, StoreHealth},
};
use longhaul_runtime::SlotUse;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

/// A queue that old waits for something, in milliseconds.
const OLD_QUEUE: Millis = 10 * 60_000;
/// A question that nobody has answered for so long.
const OLD_QUESTION: &str = "1h";
/// Attempts of a tool that fail one after another are no accident then.
const FAILED_IN_ROW: u32 = 5;
/// Blocked tasks that are named one by one.
const NAMED: usize = 20;
/// What to do about events that are lost.
const EVENTS_ADVICE: &str = "`store_direct`, or without it `store`, must name the database itself, and no pooler, on each server; their logs say more";

impl AdminContext {
    /// What is wrong now, the worst first.
    pub(crate) async fn problems(&self) -> Result<Arc<Vec<ProblemView>>, ReadError> {
        let clock = &self.engine.ports().clock;
        self.problems.known_or(&**clock, self.find_problems()).await
    }

    async fn find_problems(&self) -> Result<Vec<ProblemView>, ReadError> {
        let mut problems = self.problems_of_server().await;
        // Nothing works, and nothing that is said below could be done.
        if self.reads_only.is_some() {
            return Ok(problems);
        }
        for upstream in self.upstreams().await? {
            problems.extend(of_upstream(&upstream));
            problems.extend(of_left_out(&upstream));
        }
        let stats = self.stats().await?;
        if stats.blocked > 0 {
            let blocked = TaskQuery {
                state: "blocked".into(),
                limit: NAMED.to_string(),
                ..TaskQuery::default()
            };
            problems.extend(self.tasks(&blocked).await?.tasks.iter().filter_map(of_blocked));
        }
        let tools = self.tools().await?;
        let slots = self.engine.slots();
        problems.extend(tools.iter().filter_map(|tool| of_tool(tool, &slots)));
        problems.extend(tools.iter().filter_map(of_failures));
        let has_worker = self.engine.has_worker().await?;
        let nodes = self.nodes().await?.nodes;
        if !has_worker && !nodes.iter().any(|node| node.state == "alive" && node.cordon.is_some()) {
            let advice =
                "start a server with role \"worker\" or \"both\" on the same database, and look why there is none";
            problems.push(ProblemView::new(NO_WORKER.to_owned(), advice, "/nodes"));
        }
        problems.extend(nodes.iter().filter_map(of_events));
        problems.extend(of_database(&self.engine.store().health(), &nodes));
        problems.extend(nodes.iter().filter_map(|node| of_cordon(node, has_worker)));
        problems.extend(nodes.iter().filter(|_| !has_worker).filter_map(of_drain));
        problems.extend(nodes.iter().filter_map(of_dead));
        problems.extend(self.reached_quotas().await?);
        if stats.asking > 0 {
            problems.extend(self.old_questions().await?);
        }
        Ok(problems)
    }

    /// What is wrong with this server itself.
    async fn problems_of_server(&self) -> Vec<ProblemView> {
        let mut problems = Vec::new();
        if let Some(why) = why_not_ready(self).await
            && !self.stop.is_cancelled()
            && !self.engine.is_draining()
        {
            let advice = "look at the disk, at the database, and at the server's log";
            problems.push(ProblemView::new(why.to_owned(), advice, "/"));
        }
        if let Some(why) = &self.reads_only {
            let what = format!("the server only reads, it takes no calls: {why}");
            let advice = "look at the tasks; then stop the server, and start it once with --accept-restored-database: what is queued runs then, perhaps for the second time \
                 (`longhaul restore --interrupt-queued` makes a copy in which nothing does)";
            problems.push(ProblemView::new(what, advice, "/"));
        }
        if let Some(fault) = crate::clock_fault(self.engine.ports().clock.wall()) {
            let advice = "then start the server again: what it has written meanwhile has wrong times";
            problems.push(ProblemView::new(fault.to_owned(), advice, "/"));
        }
        if let Some(space) = self
            .data_dir
            .as_deref()
            .and_then(DiskSpace::of)
            .filter(DiskSpace::is_little)
        {
            let has_tasks = !self.engine.store().capabilities().many_nodes;
            problems.push(ProblemView::new(space.to_string(), space.advice(has_tasks), "/"));
        }
        if let Some(lost) = self
            .audit
            .as_ref()
            .map(|audit| audit.lost())
            .filter(|lost| lost.at_present > 0)
        {
            let what = format!(
                "the audit log cannot be written: {} lines are missing. What is done is done all the same",
                lost.at_present
            );
            problems.push(ProblemView::new(
                what,
                "the server's log says why; make room for its file",
                "/audit",
            ));
        }
        problems
    }

    /// Who has as much as may be: further calls are refused.
    async fn reached_quotas(&self) -> Result<Vec<ProblemView>, StoreError> {
        let quota = *self.engine.quota();
        let mut problems = Vec::new();
        let in_all = self.present().await?.usage;
        if let Some(reached) = reached(in_all, quota.live_in_all, quota.bytes_in_all) {
            let what = format!("all principals together have {reached}: calls are refused");
            let advice =
                "see who has most, and cancel or delete tasks, or raise `live_tasks` or `stored` in `[server.limits]`";
            problems.push(ProblemView::new(what, advice, "/principals").with_command(&["principals"]));
        }
        if !quota.limits(QuotaScope::Principal) {
            return Ok(problems);
        }
        let counted = self.principals().await?;
        for principal in counted.principals.iter().take(NAMED) {
            let name = Principal::named(&*principal.principal);
            let has = self.engine.store().usage(Some(&name)).await?;
            let Some(reached) = reached(has, quota.live_per_principal, quota.bytes_per_principal) else {
                continue;
            };
            let name = &principal.principal;
            let what = format!("{} has {reached}: its calls are refused", plain_line(name));
            let live = TaskQuery {
                state: "live".into(),
                principal: name.clone(),
                ..TaskQuery::default()
            };
            let advice =
                "see what it has, and cancel or delete tasks, or raise `live_tasks` or `stored` in `[server.limits]`";
            problems.push(
                ProblemView::new(what, advice, format!("/?{}", to_url(&live))).with_command(&[
                    "tasks",
                    "--state",
                    "live",
                    "--principal",
                    name,
                ]),
            );
        }
        Ok(problems)
    }

    async fn old_questions(&self) -> Result<Option<ProblemView>, ReadError> {
        let asking = TaskQuery {
            asks: "yes".into(),
            older: OLD_QUESTION.into(),
            order: "oldest".into(),
            limit: "500".into(),
            ..TaskQuery::default()
        };
        let found = self.tasks(&asking).await?.tasks;
        Ok(found.first().map(|oldest| {
            let what = format!(
                "{} tasks ask, and are older than {OLD_QUESTION}; the oldest is {} {}",
                found.len(),
                oldest.tool,
                oldest.id
            );
            let advice = "answer its question with name=value, or decline it";
            ProblemView::new(what, advice, format!("/tasks/{}", oldest.id)).with_command(&["answer", &oldest.id])
        }))
    }
}

/// Which of these limits is reached, in words. A next call hardly fits into the last hundredth of the bytes.
fn reached(has: Usage, live: Option<u64>, bytes: Option<u64>) -> Option<String> {
    if let Some(limit) = live.filter(|limit| has.live >= *limit) {
        return Some(format!("{} live tasks, and may have {limit}", has.live));
    }
    let limit = bytes.filter(|limit| has.bytes >= limit - limit / 100)?;
    Some(format!("stored {} bytes, and may store {limit}", has.bytes))
}

fn of_upstream(upstream: &UpstreamView) -> Option<ProblemView> {
    let reason = upstream.reason.as_deref()?;
    let what = format!("the upstream {} does not answer: {reason}", upstream.name);
    let has_calls = upstream.tools > 0 || upstream.has_live_calls();
    if !has_calls || upstream.is_paused() {
        return Some(ProblemView::new(
            what,
            "mend or start it: it is tried again by itself",
            "/upstreams",
        ));
    }
    if upstream.state == "silent" {
        let running = TaskQuery {
            state: "running".into(),
            order: "oldest".into(),
            ..TaskQuery::default()
        };
        let advice = "see which calls run for long, and cancel them, or mend or restart the upstream";
        return Some(
            ProblemView::new(what, advice, format!("/?{}", to_url(&running)))
                .with_command(&["tasks", "--state", "running", "--oldest"]),
        );
    }
    let advice = "mend or start it: it is tried again by itself. A pause lets its calls wait instead of fail";
    Some(ProblemView::new(what, advice, "/upstreams").with_command(&["pause", "--upstream", &upstream.name]))
}

fn of_left_out(upstream: &UpstreamView) -> impl Iterator<Item = ProblemView> {
    upstream.left_out.iter().map(|(tool, why)| {
        let what = format!(
            "the tool {tool} of the upstream {} is not offered: {why}",
            upstream.name
        );
        let advice = "change the configuration, and have it read again (SIGHUP)";
        ProblemView::new(what, advice, "/upstreams")
    })
}

/// A server whose events do not reach others as they should.
fn of_events(node: &NodeView) -> Option<ProblemView> {
    let what = format!("{}: {}", node.words(), node.events_in_words()?);
    Some(ProblemView::new(what, EVENTS_ADVICE, "/nodes"))
}

/// Rows that another session of the database has locked, and servers whose events do not arrive.
fn of_database(health: &StoreHealth, nodes: &[NodeView]) -> Vec<ProblemView> {
    let mut problems = Vec::new();
    if let Some(who) = &health.locked_by {
        let what = format!("another session of the database has locked tasks, so changes are refused: {who}");
        problems.push(ProblemView::new(what, "see what it does, and end its transaction", "/"));
    }
    for node in nodes.iter().filter(|node| health.silent.contains(&NodeId(node.node))) {
        // It says so itself.
        if node.events.as_deref() != Some("lost") {
            let what = format!(
                "the events of {} are not heard here: the database is polled",
                node.words()
            );
            problems.push(ProblemView::new(what, EVENTS_ADVICE, "/nodes"));
        }
    }
    problems
}

fn of_cordon(node: &NodeView, has_worker: bool) -> Option<ProblemView> {
    if node.cordon.as_deref() != Some("cordoned") {
        return None;
    }
    let what = match has_worker {
        true => format!("{} is cordoned: it begins nothing", node.words()),
        false => format!(
            "{} is cordoned, and no other server begins work: calls are accepted, and wait",
            node.words()
        ),
    };
    let advice = format!("`longhaul nodes uncordon FILE {}`, if it is to work again", node.node);
    Some(ProblemView::new(what, advice, "/nodes"))
}

/// A server that drains while no other one begins work.
fn of_drain(node: &NodeView) -> Option<ProblemView> {
    if node.state != "alive" || node.cordon.as_deref() != Some("draining") {
        return None;
    }
    let what = format!(
        "{} drains, and no other server begins work: it stops once what runs has ended",
        node.words()
    );
    Some(ProblemView::new(
        what,
        "start a server again when it has stopped",
        "/nodes",
    ))
}

fn of_dead(node: &NodeView) -> Option<ProblemView> {
    if node.state != "dead" || node.bound_attempts == 0 {
        return None;
    }
    let what = format!(
        "{} attempts are bound to the host {}, whose server is away",
        node.bound_attempts, node.host
    );
    Some(ProblemView::new(
        what,
        node.outlook.clone().unwrap_or_default(),
        "/nodes",
    ))
}

fn of_blocked(task: &TaskView) -> Option<ProblemView> {
    let blocked = task.blocked.as_ref()?;
    let reason = &*blocked.reason;
    let what = format!("{} {} is blocked ({reason}): {}", task.tool, task.id, blocked.message);
    let page = format!("/tasks/{}", task.id);
    Some(match reason {
        "unavailable" => ProblemView::new(what, "offer its tool again, or cancel it", page),
        "poisoned" => {
            let advice =
                "each try crashes the process at the same point: mend the tool and release the task, or cancel it";
            ProblemView::new(what, advice, page).with_command(&["release", &task.id])
        }
        _ => {
            let advice = "deploy code that fits the task's journal: it is tried again by itself; or reset or cancel it";
            ProblemView::new(what, advice, page)
        }
    })
}

fn of_tool(tool: &ToolView, slots: &SlotUse) -> Option<ProblemView> {
    let age = tool.queue_age_ms.unwrap_or_default();
    if tool.queued == 0 || (age < OLD_QUEUE && !tool.paused) {
        return None;
    }
    let limit = tool
        .concurrency
        .map_or_else(String::new, |limit| format!(" of {limit}"));
    let mut what = format!(
        "{}, the first for {}; {}{limit} run",
        match tool.queued {
            1 => format!("1 task of {} is queued", tool.name),
            queued => format!("{queued} tasks of {} are queued", tool.name),
        },
        approximate_duration(age),
        tool.running
    );
    let is_below_own_limit = tool.concurrency.is_none_or(|limit| tool.running < limit as u64);
    let full = full_slots(slots).filter(|_| is_below_own_limit && tool.offered && !tool.paused);
    if let Some(full) = &full {
        what.push_str(&format!("; {full}"));
    }
    Some(if let Some(upstream) = &tool.paused_upstream {
        let advice = "the upstream of the tool is paused, and what waits fails after `queue_timeout`: resume it";
        ProblemView::new(what, advice, "/upstreams").with_command(&["resume", "--upstream", upstream])
    } else if tool.paused {
        let advice = "the tool is paused, and what waits fails after `queue_timeout`: resume it";
        ProblemView::new(what, advice, "/tools").with_command(&["resume", &tool.name])
    } else if tool.offered {
        let running = TaskQuery {
            state: "running".into(),
            // Tasks of any tool have the slots that it waits for.
            tool: if full.is_some() {
                String::new()
            } else {
                tool.name.clone()
            },
            order: "oldest".into(),
            ..TaskQuery::default()
        };
        let advice = match full {
            Some(_) => "see what runs for long and cancel it, raise `max_running`, or give tools a `concurrency`",
            None => "see what runs for long and cancel it, or raise `concurrency` or `max_running`",
        };
        let mut command = vec!["tasks", "--state", "running", "--oldest"];
        if !running.tool.is_empty() {
            command.extend(["--tool", &tool.name]);
        }
        ProblemView::new(what, advice, format!("/?{}", to_url(&running))).with_command(&command)
    } else {
        let advice = "the tool is not offered any more: configure it again, or cancel its tasks";
        ProblemView::new(what, advice, "/tools")
    })
}

fn of_failures(tool: &ToolView) -> Option<ProblemView> {
    if tool.failed_in_row < FAILED_IN_ROW {
        return None;
    }
    let mut what = format!("the last {} attempts of {} have failed", tool.failed_in_row, tool.name);
    let page = match &tool.last_failure {
        None => format!("/?tool={}", utf8_percent_encode(&tool.name, NON_ALPHANUMERIC)),
        Some(failure) => {
            if let Some(reason) = &failure.reason {
                what.push_str(&format!("; the latest task: {reason}"));
            }
            format!("/tasks/{}", failure.task)
        }
    };
    let problem = ProblemView::new(what, "see why; a pause lets its calls wait instead of fail", page);
    Some(match tool.paused {
        true => problem,
        false => problem.with_command(&["pause", &tool.name]),
    })
}
