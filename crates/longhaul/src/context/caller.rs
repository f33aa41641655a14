//! The client that calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A family of protocol revisions; written as `legacy` and `modern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Up to 2025-11-25: sessions, and questions that the server sends as requests.
    Legacy,
    /// From 2026-07-28: no sessions; a question is answered by sending the request again.
    Modern,
}

/// The name and version of a client, as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its name, for programs.
    pub name: String,
    /// Its display name.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
}

impl ClientInfo {
    pub(crate) fn read(info: &str) -> Option<Self> {
        let info: Value = serde_json::from_str(info).ok()?;
        let text = |member: &str| info[member].as_str().map(str::to_owned);
        Some(Self {
            name: text("name")?,
            title: text("title"),
            version: text("version").unwrap_or_default(),
        })
    }
}
