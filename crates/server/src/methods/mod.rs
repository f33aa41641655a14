//! One file for each JSON-RPC method, named after it. `dispatch::table` lists them.

pub(crate) mod calls_cancel;
pub(crate) mod completion_complete;
pub(crate) mod legacy;
pub(crate) mod modern;
pub(crate) mod prompts_get;
pub(crate) mod prompts_list;
pub(crate) mod resources_list;
pub(crate) mod resources_read;
pub(crate) mod resources_templates_list;
pub(crate) mod tasks_cancel;
pub(crate) mod tasks_delete;
pub(crate) mod tasks_get;
pub(crate) mod tools_call;
pub(crate) mod tools_list;

use crate::{
    admission::handoff::ConnectionHandoff,
    call::{Calls, follow_tools},
    catalog::pages::Lists,
    interaction::Interaction,
    signer::Signer,
};
use longhaul_runtime::Engine;
use longhaul_wire::ServerInfo;
use std::{borrow::Cow, sync::Arc};

/// What methods need to answer a request.
pub(crate) struct Methods {
    pub(crate) engine: Engine,
    pub(crate) server_info: Arc<ServerInfo>,
    pub(crate) lists: Lists,
    pub(crate) calls: Arc<Calls>,
    pub(crate) interaction: Arc<Interaction>,
}

impl Methods {
    pub(crate) fn new(interaction: &Arc<Interaction>, cursors: Signer) -> Self {
        let Interaction {
            engine, server_info, ..
        } = &**interaction;
        Self {
            engine: engine.clone(),
            server_info: Arc::clone(server_info),
            lists: Lists::new(interaction, cursors),
            calls: Arc::new(Calls::new(interaction)),
            interaction: Arc::clone(interaction),
        }
    }

    /// What the server is, with the instructions for what it offers now.
    ///
    /// The instructions are those of the server, then those of what is behind it, then those for the tools that follow calls. A client that has tasks is told of these, too: the
    /// answer is the same for all clients.
    pub(crate) fn described(&self, handoff: ConnectionHandoff) -> Cow<'_, ServerInfo> {
        let snapshot = self.engine.catalog().snapshot();
        let follow = follow_tools::instructions(&snapshot, handoff, self.server_info.title());
        if snapshot.instructions.is_none() && snapshot.server_info.is_none() && follow.is_none() {
            return Cow::Borrowed(&self.server_info);
        }
        let mut described = ServerInfo::clone(&self.server_info);
        if let Some(info) = &snapshot.server_info {
            described = described.presenting(info.as_str());
        }
        let parts = [
            self.server_info.instructions(),
            snapshot.instructions.as_deref(),
            follow.as_deref(),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().map(str::trim).collect();
        if !parts.is_empty() {
            described = described.with_instructions(parts.join("\n\n"));
        }
        Cow::Owned(described)
    }
}
