//! Finds the executor of a stored call again.

use crate::{
    executor::UpstreamExecutor,
    job::JobExecutor,
    upstream::{Definition, KIND, Purpose, Upstream, Upstreams, not_configured},
};
use longhaul_core::Json;
use longhaul_runtime::{Executor, Provider};
use std::sync::Arc;

/// What runs the calls of a tool.
pub(crate) fn executor_of(definition: Definition, upstream: Arc<Upstream>) -> Arc<dyn Executor> {
    let call = UpstreamExecutor {
        upstream,
        tool: definition.tool,
        idempotent: definition.idempotent,
        purpose: match definition.job {
            Some(_) => Purpose::Submit,
            None => Purpose::Tool,
        },
    };
    match definition.job {
        Some(job) => Arc::new(JobExecutor { submit: call, job }),
        None => Arc::new(call),
    }
}

/// Executors of upstreams' tools, which may be offered in another way by now, or not at all.
pub(crate) struct UpstreamProvider(pub(crate) Arc<Upstreams>);

impl Provider for UpstreamProvider {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let definition: Definition =
            serde_json::from_str(definition.as_str()).map_err(|error| format!("its definition: {error}"))?;
        if definition.version != 1 {
            return Err("another version of Longhaul has written its definition".to_owned());
        }
        let upstream = self
            .0
            .named(&definition.upstream)
            .ok_or_else(|| not_configured(&definition.upstream))?;
        Ok(executor_of(definition, upstream))
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
