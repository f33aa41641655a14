//! By what a request of a legacy server can be answered.

use longhaul_core::masked_session;
use std::fmt;

/// By what a request of a legacy server over HTTP can be answered, from any process. A debug print shows the beginning of the session's id alone: who has the
/// whole id can use the session.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestRef {
    /// The id of the session that it came in, if that has one.
    pub session: Option<String>,
    /// The id of the request, as JSON.
    pub id: String,
}

impl fmt::Debug for RequestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestRef")
            .field("session", &self.session.as_deref().map(masked_session))
            .field("id", &self.id)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionRef;

    #[test]
    fn a_debug_print_opens_no_session() {
        let id = "0123456789-secret";
        let request = RequestRef {
            session: Some(id.to_owned()),
            id: "7".to_owned(),
        };
        let session = SessionRef {
            id: id.to_owned(),
            revision: "2025-11-25".to_owned(),
            capabilities: longhaul_core::Json::trusted("{}"),
        };
        for shown in [format!("{request:?}"), format!("{session:?}")] {
            assert!(shown.contains("01234567…") && !shown.contains("secret"), "{shown}");
        }
    }
}
