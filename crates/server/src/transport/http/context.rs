//! What the endpoints need beside what every transport needs.

use super::{
    HttpOptions,
    allowed_hosts::AllowedHosts,
    legacy::{replay::ReplayBuffers, sse_pair::LegacySseStreams},
    trusted_proxies::TrustedProxies,
};
use crate::admission::{caller::TransportMode, handoff::ConnectionHandoff};

pub(crate) struct HttpContext {
    pub(super) allowed_hosts: AllowedHosts,
    pub(super) trusted_proxies: TrustedProxies,
    /// Whether anyone may read what is sent.
    pub(super) plain_http: bool,
    /// Whether methods ask for the address of a request.
    pub(super) keeps_addresses: bool,
    pub(super) replay_buffers: ReplayBuffers,
    pub(super) mode: TransportMode,
    /// Whether the endpoints of 2024-11-05 are served.
    pub(super) legacy_sse: bool,
    pub(super) legacy_sse_streams: LegacySseStreams,
}

impl HttpContext {
    pub(crate) fn new(
        options: HttpOptions,
        replay_buffers: ReplayBuffers,
        (is_authenticated, keeps_addresses): (bool, bool),
    ) -> Self {
        let public_host = options.public_url.as_ref().and_then(|url| url.authority().parse().ok());
        Self {
            allowed_hosts: AllowedHosts {
                origins: options.allowed_origins,
                hosts: options.allowed_hosts.into_iter().chain(public_host).collect(),
                any_address: is_authenticated,
            },
            trusted_proxies: TrustedProxies::new(options.trusted_proxies),
            plain_http: options.plain_http,
            keeps_addresses,
            replay_buffers,
            mode: TransportMode {
                sessions: options.stateful_mode,
                streams: !options.json_response,
                handoff: ConnectionHandoff::AsTools,
            },
            legacy_sse: options.legacy_sse,
            legacy_sse_streams: LegacySseStreams::default(),
        }
    }
}
