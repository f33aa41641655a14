//! The answer to `server/discover`.

use super::COMPLETE;
use crate::{cache::Cache, error::write_versions, features::Features, identity::Identity, version::Version};

/// Appends the DiscoverResult (L-10). It lists every served revision, legacy ones too (C-36).
pub fn write_discover(out: &mut String, features: &Features, cache: Cache, identity: &Identity) {
    out.push_str(COMPLETE);
    out.push_str(r#","supportedVersions":"#);
    write_versions(out, &Version::ALL);
    out.push_str(r#","capabilities":{"#);
    let any = features.push_shared(out);
    if features.tasks {
        out.push_str(if any { "," } else { "" });
        // Exactly an empty object: peers switch tasks off at any key in it (G2-01, conformance.md 1b).
        out.push_str(r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#);
    }
    out.push('}');
    identity.push_instructions(out);
    cache.push_members(out);
    identity.push_full_meta(out);
    out.push('}');
}
