//! Telling progress to a client that asked for it, on the response stream of its own call (U-01, U-03).

use crate::answer::KeptId;
use longhaul_core::{Progress, Task};
use longhaul_wire::{Meta, RpcError, notification};

/// What one client has been told.
pub(crate) struct ProgressNews {
    token: Option<KeptId>,
    told: Option<f64>,
}

impl ProgressNews {
    /// What the sender of `meta` wants to hear: nothing without a token.
    ///
    /// # Errors
    /// −32602 if the token is neither string nor integer.
    pub(crate) fn wanted(meta: &Meta<'_>) -> Result<Self, RpcError> {
        Ok(Self {
            token: meta.progress_token()?.map(KeptId::of),
            told: None,
        })
    }

    /// The notification about `task`, if its figure has risen since the last one: it must, and a tool may say anything.
    pub(crate) fn about(&mut self, task: &Task) -> Option<String> {
        let token = self.token.as_ref()?;
        let progress @ Progress { current, .. } = task.progress?;
        let risen = current.is_finite() && self.told.is_none_or(|told| current > told);
        if !risen {
            return None;
        }
        self.told = Some(current);
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, task.status.as_deref(), None);
        Some(text)
    }
}
