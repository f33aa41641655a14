//! The `[server.limits]` section.

use crate::config::section::Section;
use longhaul_core::Quota;
use longhaul_server::Limits;
use std::num::NonZeroU32;

/// A larger number is reported as a typing mistake.
const MAX_COUNT: u32 = 1_000_000_000;

/// The limits on clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitsConfig {
    /// Of requests, connections and streams.
    pub(crate) protocol: Limits,
    /// Of live tasks and stored bytes.
    pub(crate) quota: Quota,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            protocol: Limits::default(),
            quota: Quota {
                live_per_principal: Some(100_000),
                live_in_all: Some(1_000_000),
                bytes_per_principal: Some(8 << 30),
                bytes_in_all: Some(32 << 30),
            },
        }
    }
}

/// Reads the section; `None` after a problem.
pub(crate) fn read(section: &Section<'_>) -> Option<LimitsConfig> {
    let LimitsConfig { protocol, quota } = LimitsConfig::default();
    let count = |key, default: Option<u64>| {
        section.get_or(key, default, |entry| Some(Some(u64::from(entry.count(MAX_COUNT)?))))
    };
    let size = |key, default: Option<u64>| section.get_or(key, default, |entry| Some(Some(entry.size()?)));
    // Every key is read before the first `?`, so that one mistake does not hide another.
    let live = count("live_tasks", quota.live_per_principal);
    let live_in_all = count("live_tasks_in_all", quota.live_in_all);
    let stored = size("stored", quota.bytes_per_principal);
    let stored_in_all = size("stored_in_all", quota.bytes_in_all);
    let places = |key, default| section.get_or(key, default, |entry| usize::try_from(entry.count(MAX_COUNT)?).ok());
    let connections = places("connections", protocol.connections);
    let connections_in_all = places("connections_in_all", protocol.connections_in_all);
    let streams = places("streams", protocol.streams);
    let streams_in_all = places("streams_in_all", protocol.streams_in_all);
    let memory = section.get_or("memory", protocol.memory, |entry| usize::try_from(entry.size()?).ok());
    let rate = |key| section.optional(key, |entry| NonZeroU32::new(entry.count(MAX_COUNT)?));
    let requests = rate("requests_per_second");
    let requests_in_all = rate("requests_per_second_in_all");
    let calls = rate("calls_per_second");
    let reads = rate("reads_per_second");
    let unknown_ids = rate("unknown_ids_per_second");
    let denied = section.get_or("denied_per_second", protocol.denied_per_second, |entry| {
        NonZeroU32::new(entry.count(MAX_COUNT)?).map(Some)
    });
    section.finish();
    Some(LimitsConfig {
        protocol: Limits {
            requests_per_second: requests?,
            requests_per_second_in_all: requests_in_all?,
            calls_per_second: calls?,
            reads_per_second: reads?,
            unknown_ids_per_second: unknown_ids?,
            denied_per_second: denied?,
            connections: connections?,
            connections_in_all: connections_in_all?,
            streams: streams?,
            streams_in_all: streams_in_all?,
            memory: memory?,
        },
        quota: Quota {
            live_per_principal: live?,
            live_in_all: live_in_all?,
            bytes_per_principal: stored?,
            bytes_in_all: stored_in_all?,
        },
    })
}
