//! Going on with a legacy session that another process has opened, or with a new one.

use super::Connection;
use crate::{
    RequestError, SessionRef,
    connect::era::{Era, LegacySession},
    journal::call_record::CallRecord,
};
use http::HeaderValue;
use longhaul_wire::{Generation, Version};
use std::sync::Arc;

impl Connection {
    /// The era, for a request that is the call of this record. The session that it is sent in is recorded first: no process may end that while the call, or its
    /// task, may be in it.
    pub(crate) async fn era_of_call(&self, record: Option<&CallRecord>) -> Result<Arc<Era>, RequestError> {
        let era = self.era().await?;
        if let (Some(record), Some(session)) = (record, self.session_of(&era))
            && let Err(error) = record.enter_session(session).await
        {
            tracing::warn!(%error, "the new session of a call is not recorded");
        }
        Ok(era)
    }

    /// The connection in a legacy session: this one if it is in it, else another one to the same server. This one keeps what the server said about itself.
    pub(crate) async fn in_session(&self, session: &SessionRef) -> Self {
        if self.session().await.is_some_and(|own| own.id == session.id) {
            return self.clone();
        }
        let mut sessions = self.0.resumed_sessions.lock().await;
        if let Some(connection) = sessions.get(&session.id) {
            return connection.clone();
        }
        let losses = self.listening().losses.clone();
        let connection = Self::with(Arc::clone(self.transport()), self.options().clone(), losses);
        connection.legacy_tasks().serve_handles_alone();
        connection.resume(session).await;
        sessions.insert(session.id.clone(), connection.clone());
        connection
    }

    /// The connections in sessions of other processes, which this one gives up.
    pub(crate) async fn take_resumed_sessions(&self) -> Vec<Self> {
        std::mem::take(&mut *self.0.resumed_sessions.lock().await)
            .into_values()
            .collect()
    }

    /// The legacy session over HTTP, for another process that goes on with its tasks: see [`resume`](Self::resume). `None` if there is none.
    pub async fn session(&self) -> Option<SessionRef> {
        self.session_of(&*self.known_era().await?)
    }

    /// The legacy session of an era.
    pub(crate) fn session_of(&self, era: &Era) -> Option<SessionRef> {
        let legacy = era.legacy()?;
        Some(SessionRef {
            id: legacy.session.as_ref()?.to_str().ok()?.to_owned(),
            revision: legacy.version.as_str().to_owned(),
            capabilities: self.options().declared_to_legacy(),
        })
    }

    /// Goes on with a legacy session that another connection has opened. Nothing is sent. If the server has ended it meanwhile, there is a new one.
    /// A session of an unknown revision is ignored.
    pub async fn resume(&self, session: &SessionRef) {
        let version = Version::parse(&session.revision).filter(|version| version.generation() == Generation::Legacy);
        if let (Some(version), Ok(id)) = (version, HeaderValue::from_str(&session.id)) {
            let era = Era::Legacy(LegacySession::resumed(version, id));
            *self.0.era.lock().await = Some(Arc::new(era));
            if self.options().inputs.is_some() {
                self.listen();
            }
        }
    }
}
