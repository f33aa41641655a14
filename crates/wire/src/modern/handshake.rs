//! The result of `server/discover`.

use super::COMPLETE;
use crate::{
    capability::server::ServerCapabilities,
    protocol::{Version, write_versions},
    result::{CacheHints, ServerInfo},
};

/// Appends the DiscoverResult. It lists every served revision, also the legacy ones.
pub fn write_discover(out: &mut String, features: &ServerCapabilities, cache: CacheHints, server_info: &ServerInfo) {
    out.push_str(COMPLETE);
    out.push_str(r#","supportedVersions":"#);
    write_versions(out, &Version::ALL);
    out.push_str(r#","capabilities":{"#);
    let any = features.push_shared(out);
    // Some peers disable tasks if their object has any key.
    let (own, relayed) = (
        ("extensions", r#""io.modelcontextprotocol/tasks":{},"#),
        &features.relayed,
    );
    let any = features.push_extensions(out, any, own, &relayed.extensions);
    ServerCapabilities::push_relayed(out, any, "experimental", &relayed.experimental);
    out.push('}');
    server_info.push_instructions(out);
    cache.push_members(out);
    server_info.push_full_meta(out);
    out.push('}');
}
