//! The servers that share a store.

use crate::Word;
use longhaul_core::{NodeId, store::NodeStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The servers of a store.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Nodes")]
pub struct NodesView {
    /// The servers, in order of their numbers.
    pub nodes: Vec<NodeView>,
    /// For how long a host may be without a server before its attempts are given up, in milliseconds.
    pub lost_after_ms: u64,
}

/// A server, from its start to its end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(rename = "Node")]
pub struct NodeView {
    /// The server's number: a server that is started again gets another one.
    pub node: i64,
    /// The machine and data directory.
    pub host: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address where the server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether the server accepts requests, runs tasks, or both.
    #[schemars(extend("enum" = ["both", "front", "worker"]))]
    pub role: Word,
    /// Whether this server has answered the request.
    pub answers: bool,
    /// When the server was started.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// Whether the server's lease holds.
    #[schemars(extend("enum" = ["alive", "dead"]))]
    pub state: Word,
    /// Why the server begins no work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["cordoned", "draining"]))]
    pub cordon: Option<Word>,
    /// When the lease ends unless the server renews it, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// For how long the host has been without a server, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_away_ms: Option<u64>,
    /// When the attempts that are bound to the host are given up, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up_in_ms: Option<u64>,
    /// What is wrong with how the server's events reach the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["another_connection", "lost"]))]
    pub events: Option<Word>,
    /// Active attempts that the server holds.
    pub attempts: u64,
    /// Active attempts that are bound to the server's host, such as commands.
    pub bound_attempts: u64,
    /// What becomes of the attempts of a dead server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<String>,
}

impl NodeView {
    /// What is wrong with the events of one that lives, in words.
    pub fn events_in_words(&self) -> Option<&'static str> {
        let events = self.events.as_ref().filter(|_| self.state == "alive")?;
        Some(match &**events {
            "lost" => "its events are lost: it and the others poll the database",
            _ => "what it sends on its connection for events is lost: it sends on another one",
        })
    }

    /// The server in words.
    pub fn words(&self) -> String {
        NodeStatus::describe(NodeId(self.node), &self.name, self.address.as_deref())
    }
}
