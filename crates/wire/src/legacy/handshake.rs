//! The result of `initialize`.

use crate::{capability::server::ServerCapabilities, protocol::Version, result::ServerInfo};

/// Appends the InitializeResult for the negotiated `version`. Tasks are declared only in the revision that has them.
pub fn write_initialize(out: &mut String, version: Version, features: &ServerCapabilities, server_info: &ServerInfo) {
    out.push_str(r#"{"protocolVersion":""#);
    out.push_str(version.as_str());
    out.push_str(r#"","capabilities":{"#);
    let any = features.push_shared(out);
    let relayed = &features.relayed;
    let any = features.push_extensions(out, any, ("experimental", ""), &relayed.experimental);
    ServerCapabilities::push_relayed(out, any, "extensions", &relayed.extensions);
    if features.tasks && version.has_legacy_tasks() {
        out.push(',');
        // Objects, not booleans; exactly what is served.
        let list = if features.task_list { r#""list":{},"# } else { "" };
        out.push_str(r#""tasks":{"#);
        out.push_str(list);
        out.push_str(r#""cancel":{},"requests":{"tools":{"call":{}}}}"#);
    }
    out.push_str(r#"},"serverInfo":"#);
    out.push_str(server_info.info());
    server_info.push_instructions(out);
    out.push('}');
}
