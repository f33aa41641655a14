//! Which calls may share a connection.

use longhaul_client::EraChoice;
use longhaul_core::{ClientCapabilities, Json, Principal, SessionKey};

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ConnectionKey {
    /// `None` for the connection that all share.
    pub(super) principal: Option<Principal>,
    pub(super) capabilities: ClientCapabilities,
    /// Of a client with roots.
    pub(super) session: Option<SessionKey>,
    pub(super) era: EraChoice,
    /// Extensions and experimental capabilities of the client, as JSON.
    pub(super) relayed: Option<String>,
    /// What the client calls itself, as JSON.
    pub(super) client: Option<Json>,
}

impl ConnectionKey {
    /// Of the connection that all share.
    pub(super) fn shared(era: EraChoice) -> Self {
        Self {
            principal: None,
            capabilities: ClientCapabilities::default(),
            session: None,
            era,
            relayed: None,
            client: None,
        }
    }

    /// Of the connection on which the gateway itself reads what the upstream offers. It declares all that can be relayed, since some servers offer tools
    /// only to clients with a capability.
    pub(super) fn of_gateway(era: EraChoice) -> Self {
        Self {
            principal: Some(Principal::local()),
            capabilities: ClientCapabilities {
                elicitation_form: true,
                elicitation_url: true,
                sampling: true,
                sampling_tools: true,
                roots: true,
                ..ClientCapabilities::default()
            },
            session: None,
            era,
            relayed: None,
            client: None,
        }
    }
}
