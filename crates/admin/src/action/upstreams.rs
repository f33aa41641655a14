//! The upstreams of a gateway as operators see them, in the API and on the page.

use super::{ActionError, INTERNAL};
use crate::{
    access::Actor,
    context::AdminContext,
    upstream_source::{UpstreamReport, UpstreamState},
};
use longhaul_admin_api::{ToolView, UpstreamView};
use longhaul_core::store::StoreError;
use longhaul_runtime::OperatorError;
use longhaul_server::audit::{AuditAction, AuditOutcome};

fn upstream_view(report: UpstreamReport, tools: &[ToolView], paused: bool) -> UpstreamView {
    let is_own = |tool: &&ToolView| tool.upstream.as_ref() == Some(&report.name);
    let own: Vec<&ToolView> = tools.iter().filter(is_own).collect();
    let sum = |of: fn(&ToolView) -> u64| own.iter().map(|tool| of(tool)).sum();
    let (state, reason) = match report.state {
        UpstreamState::Starting => ("starting", None),
        UpstreamState::Up => ("up", None),
        UpstreamState::Silent(reason) => ("silent", Some(reason)),
        UpstreamState::Down(reason) => ("down", Some(reason)),
    };
    let ended = |tool: &ToolView| (tool.succeeded + tool.failed + tool.cancelled) as f64;
    let millis = own.iter().filter_map(|tool| Some(tool.mean_ms? * ended(tool)));
    let (millis, count): (f64, f64) = (millis.sum(), own.iter().map(|tool| ended(tool)).sum());
    let failures = own.iter().filter_map(|tool| tool.last_failure.clone());
    UpstreamView {
        mean_ms: (count > 0.0).then(|| millis / count),
        // A sum of nothing is -0.0.
        per_minute: own.iter().map(|tool| tool.per_minute).sum::<f64>().abs(),
        last_failure: failures.min_by_key(|failure| failure.ms_ago),
        state: state.into(),
        reason,
        paused,
        name: report.name,
        tools: own.iter().filter(|tool| tool.offered).count(),
        paused_tools: own.iter().filter(|tool| tool.offered && tool.paused).count(),
        left_out: report.left_out,
        queued: sum(|tool| tool.queued),
        running: sum(|tool| tool.running),
        waiting: report.waiting,
        concurrency: report.concurrency,
        asking: sum(|tool| tool.asking),
        succeeded: sum(|tool| tool.succeeded),
        failed: sum(|tool| tool.failed),
        cancelled: sum(|tool| tool.cancelled),
    }
}

impl AdminContext {
    pub(crate) async fn upstream_reports(&self) -> Vec<UpstreamReport> {
        match &self.upstreams {
            Some(upstreams) => upstreams.upstreams().await,
            None => Vec::new(),
        }
    }

    pub(crate) async fn upstreams(&self) -> Result<Vec<UpstreamView>, StoreError> {
        let (reports, tools) = (self.upstream_reports().await, self.tools().await?);
        let view = |report: UpstreamReport| {
            let paused = self.engine.is_upstream_paused(&report.name);
            upstream_view(report, &tools, paused)
        };
        Ok(reports.into_iter().map(view).collect())
    }

    /// Pauses an upstream, with all tools that it has now and later, or ends that, also the pauses of single tools. Returns the names of those that it has now.
    ///
    /// # Errors
    /// [`ActionError`]. Some of the tools may have been resumed then.
    pub(crate) async fn set_upstream_paused(
        &self,
        actor: &Actor,
        name: &str,
        paused: bool,
    ) -> Result<Vec<String>, ActionError> {
        let reports = self.upstream_reports().await;
        let upstream = reports.into_iter().find(|report| report.name == name);
        let action = if paused {
            AuditAction::Pause
        } else {
            AuditAction::Resume
        };
        let detail = format!("{}; upstream {name}", actor.by);
        // The pause of one that is not configured any more holds its queued calls.
        let is_former = !paused && self.engine.is_upstream_paused(name);
        let Some(tools) = upstream.map(|report| report.tools).or(is_former.then(Vec::new)) else {
            self.record(&self.event(actor, action, AuditOutcome::Unknown).with_detail(detail));
            return Err(ActionError::UnknownUpstream);
        };
        self.record(&(self.event(actor, action, AuditOutcome::Ok)).with_detail(format!("{detail}; begins")));
        let done = self.engine.set_upstream_paused(name, paused).await;
        self.live.change();
        self.problems.forget();
        let outcome = match &done {
            Ok(()) => AuditOutcome::Ok,
            Err(_) => AuditOutcome::Failed(INTERNAL),
        };
        self.record(&self.event(actor, action, outcome).with_detail(detail));
        done.map_err(OperatorError::Store)?;
        let resumed = tools.iter().filter(|tool| !paused && self.engine.is_paused(tool));
        for tool in resumed {
            self.set_paused(actor, tool, false).await?;
        }
        Ok(tools)
    }
}
