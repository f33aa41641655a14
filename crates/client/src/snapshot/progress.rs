//! Progress as a server reports it.

use longhaul_core::Json;
use longhaul_wire::{Method, jsonrpc::Notification};
use serde::Deserialize;

/// The progress of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far, in the tool's own unit. MCP requires servers to increase it each time; this is not checked here.
    pub progress: f64,
    /// The value of `progress` at the end, if known.
    pub total: Option<f64>,
    /// The tool's message.
    pub message: Option<String>,
    /// All of it, as the server wrote it.
    pub params: Json,
}

impl Progress {
    /// What a notification reports, if it reports progress.
    pub(crate) fn read(notification: &Notification<'_>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params {
            progress: f64,
            total: Option<f64>,
            message: Option<String>,
        }
        if notification.method != Method::Progress.as_str() {
            return None;
        }
        let Params {
            progress,
            total,
            message,
        } = serde_json::from_str(notification.raw_params()?.get()).ok()?;
        Some(Self {
            progress,
            total,
            message,
            params: Json::from(notification.raw_params()?),
        })
    }
}
