//! Legacy sessions: their ids, their preferences, which of their requests are being answered, and which of ours they have not
//! answered.

pub(crate) mod capabilities;
pub(crate) mod in_flight;
pub(crate) mod other_nodes;
pub(crate) mod preferences;
pub(crate) mod replies;
mod session_id;

pub(crate) use session_id::Session;

use crate::signer::Signer;
use in_flight::InFlight;
use longhaul_core::{NodeId, Principal, SessionKey, UnixMillis, store::StoreError};
use longhaul_runtime::{Engine, SessionChange};
use other_nodes::SessionMessage;
use preferences::SessionPreferences;
use replies::PendingReplies;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};

/// How long until the store is asked again whether a session has ended: its client may have ended it at another node.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Ends of sessions that are buffered for each waiter; one that misses more reads the store again.
const ENDS: usize = 64;

/// The legacy sessions, as far as this process keeps state of them.
pub(crate) struct Sessions {
    /// Signs their ids.
    pub(crate) ids: Signer,
    pub(crate) preferences: SessionPreferences,
    pub(crate) in_flight: InFlight,
    pub(crate) replies: PendingReplies,
    /// Which sessions end.
    ends: broadcast::Sender<SessionKey>,
}

impl Sessions {
    pub(crate) fn new(ids: Signer, me: NodeId, now: UnixMillis) -> Self {
        Self {
            ids,
            preferences: SessionPreferences::default(),
            in_flight: InFlight::default(),
            replies: PendingReplies::new(me, now),
            ends: broadcast::Sender::new(ENDS),
        }
    }

    /// The live session behind an id, if it is one of `principal`'s.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn find(
        &self,
        engine: &Engine,
        principal: &Principal,
        id: &[u8],
    ) -> Result<Option<Session>, StoreError> {
        let now = engine.ports().clock.now();
        let session = std::str::from_utf8(id)
            .ok()
            .and_then(|id| Session::from_id(id, &self.ids, now));
        let Some(session) = session.filter(|session| session.principal == *principal) else {
            return Ok(None);
        };
        let ended = engine.store().session_ended(&session.key).await?;
        Ok(Some(session).filter(|_| !ended))
    }

    /// Ends a session. Its tasks go on.
    ///
    /// # Errors
    /// The store's: the session has not ended.
    pub(crate) async fn end(&self, engine: &Engine, session: &Session) -> Result<(), StoreError> {
        engine.store().end_session(&session.key, session.expires_at).await?;
        self.has_ended(engine, &session.key);
        let ended = session.to_id(&self.ids);
        other_nodes::broadcast(engine, &SessionMessage::Ended { session: ended });
        Ok(())
    }

    /// Forgets a session that has ended, here or at another node.
    pub(crate) fn has_ended(&self, engine: &Engine, session: &SessionKey) {
        self.preferences.remove(session);
        // Fails if there is no receiver.
        let _ = self.ends.send(session.clone());
        engine.catalog().session_changed(SessionChange::Ended(session.clone()));
    }

    /// Completes when its client has ended the session.
    pub(crate) async fn ended(&self, engine: &Engine, session: &SessionKey) {
        let mut ends = self.ends.subscribe();
        while !engine.store().session_ended(session).await.unwrap_or_default() {
            let clock = &engine.ports().clock;
            let look_again = clock.sleep(LOOK_AGAIN_AFTER);
            tokio::pin!(look_again);
            loop {
                tokio::select! {
                    end = ends.recv() => match end {
                        Ok(ended) if ended == *session => return,
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => break,
                        Err(RecvError::Closed) => unreachable!("the sender is `self`"),
                    },
                    () = &mut look_again => break,
                }
            }
        }
    }
}
