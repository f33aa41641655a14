//! How a store that many nodes share reaches its database, and the nodes each other.

use crate::NodeId;
use std::time::Duration;

/// How the events of a node reach the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventDelivery {
    /// By its own connection for events, as far as is known.
    #[default]
    Own,
    /// What it sends on that is lost, so it sends through its other connections.
    Other,
    /// It does not hear its own events, however they are sent: it polls, and others learn late of what it does.
    Lost,
}

/// What a store knows of its connections and events in this process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreHealth {
    /// How this process's own events reach others.
    pub delivery: EventDelivery,
    /// How many notifications were sent to other nodes.
    pub sent: u64,
    /// How many were heard of other nodes.
    pub heard: u64,
    /// The nodes that live, and whose events are not heard here.
    pub silent: Vec<NodeId>,
    /// Who holds a lock that a change has waited for in vain within the last 30 seconds.
    pub locked_by: Option<String>,
    /// The groups of connections to a database.
    pub pools: Vec<PoolHealth>,
}

/// A group of connections to a database.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolHealth {
    /// What they are for.
    pub name: &'static str,
    /// How many there may be.
    pub size: usize,
    /// How many callers wait for one now.
    pub waiting: usize,
    /// How often one was asked for since the start.
    pub asked: u64,
    /// For how long callers have waited for one, all together.
    pub waited: Duration,
}
