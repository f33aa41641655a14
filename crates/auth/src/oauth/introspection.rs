//! Tokens that only their issuer can read (RFC 7662).
//!
//! An answer holds for a minute at most. While something that a token has opened lasts, such as a stream, the issuer is asked again each minute,
//! and it ends when the token does.

use super::{claims::Claims, fetch::Fetcher, holder::TrustedIssuer, issuer::Introspection};
use longhaul_core::UnixMillis;
use longhaul_runtime::Ports;
use longhaul_server::auth::{Denied, Identity, Revocation};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use serde::Deserialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(60);
/// The same in the unit of dates.
const HOLDS_MILLIS: u64 = 60_000;
/// How many tokens are remembered. Those that are used stay when invented ones come.
const MOST: usize = 10_000;
/// How many requests the issuer gets at once.
const AT_ONCE: usize = 16;
/// After a failure the issuer is left alone for this long.
const PAUSE: Duration = Duration::from_secs(2);
/// What a token has opened ends when the issuer has not answered this often, a minute apart.
const MOST_FAILURES: u32 = 5;

/// The digest that a token is remembered by. The token itself is not kept, unless something that it has opened lasts.
pub(super) type TokenDigest = [u8; 32];

/// Asks one issuer about its tokens.
pub(super) struct Introspector {
    issuer: TrustedIssuer,
    endpoint: Introspection,
    fetcher: Fetcher,
    ports: Ports,
    answers: Cache<TokenDigest, Arc<Answer>>,
    permits: Semaphore,
    /// When the issuer may be asked again after a failure.
    resumes: Mutex<Duration>,
}

/// What the issuer said about a token.
struct Answer {
    outcome: Result<Accepted, Denied>,
    until: UnixMillis,
}

struct Accepted {
    identity: Arc<Identity>,
    revocation: Revocation,
    /// Whether the issuer is asked again while somebody holds the identity.
    is_watched: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct Active {
    active: bool,
}

impl Introspector {
    pub(super) fn new(issuer: TrustedIssuer, endpoint: Introspection, fetcher: Fetcher, ports: &Ports) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            endpoint,
            fetcher,
            ports: ports.clone(),
            answers: Cache::new(MOST),
            permits: Semaphore::new(AT_ONCE),
            resumes: Mutex::default(),
        })
    }

    /// What the issuer has said within the last minute.
    pub(super) fn known(self: &Arc<Self>, token: &str, digest: &TokenDigest) -> Option<Result<Arc<Identity>, Denied>> {
        let answer = self.answers.get(digest)?;
        (self.ports.clock.wall() < answer.until).then(|| self.give(token, *digest, &answer))
    }

    /// Asks the issuer, unless it has answered within the last minute. Requests with the same token share one question.
    pub(super) async fn identify(self: &Arc<Self>, token: &str, digest: TokenDigest) -> Result<Arc<Identity>, Denied> {
        let mut earlier = self.answers.get(&digest);
        loop {
            let now = self.ports.clock.wall();
            self.answers.remove_if(&digest, |answer| answer.until <= now);
            match self.answers.get_value_or_guard_async(&digest).await {
                Ok(answer) if answer.until <= self.ports.clock.wall() => earlier = Some(answer),
                Ok(answer) => return self.give(token, digest, &answer),
                Err(place) => {
                    let answer = Arc::new(self.ask(token, earlier.as_deref()).await?);
                    // It fails only if the place was removed meanwhile; then the next request asks again.
                    let _ = place.insert(Arc::clone(&answer));
                    return self.give(token, digest, &answer);
                }
            }
        }
    }

    /// Gives an identity away, and sees to it that it is watched.
    fn give(self: &Arc<Self>, token: &str, digest: TokenDigest, answer: &Arc<Answer>) -> Result<Arc<Identity>, Denied> {
        let accepted = answer.outcome.as_ref().map_err(Denied::clone)?;
        // Before it is watched: nobody seems to hold it otherwise.
        let identity = Arc::clone(&accepted.identity);
        if !accepted.is_watched.swap(true, Ordering::AcqRel) {
            let watching = Arc::clone(self).watch(token.to_owned(), digest, Arc::clone(answer));
            self.ports.spawner.spawn(Box::pin(watching));
        }
        Ok(identity)
    }

    /// Asks again while somebody holds the identity that the answer gave, so that a revoked token ends what it has opened.
    async fn watch(self: Arc<Self>, token: String, digest: TokenDigest, mut answer: Arc<Answer>) {
        let mut failures = 0;
        loop {
            self.ports.clock.sleep(HOLDS).await;
            let known = self.answers.get(&digest);
            if let Some(known) = known.filter(|known| known.is_continued_from(Some(&answer))) {
                answer = known;
            }
            let Ok(accepted) = &answer.outcome else { return };
            if accepted.identity.is_revoked() || accepted.stop_watching_if_unused() {
                return;
            }
            match self.ask(&token, Some(&answer)).await {
                Ok(new) => {
                    failures = 0;
                    let goes_on = new.is_continued_from(Some(&answer));
                    answer = Arc::new(new);
                    self.answers.insert(digest, Arc::clone(&answer));
                    if !goes_on {
                        return;
                    }
                }
                Err(_) if failures < MOST_FAILURES => failures += 1,
                Err(_) => {
                    accepted.revocation.revoke();
                    return;
                }
            }
        }
    }

    /// Asks the issuer. What the token has opened ends, if the answer is another one than before.
    async fn ask(&self, token: &str, earlier: Option<&Answer>) -> Result<Answer, Denied> {
        let unavailable = || Denied::Unavailable { retry_after: PAUSE };
        if self.ports.clock.monotonic() < *self.resumes.lock() {
            return Err(unavailable());
        }
        let _permit = self.permits.try_acquire().map_err(|_| unavailable())?;
        let said = self.fetcher.introspection(&self.endpoint, token).await;
        let now = self.ports.clock.wall();
        let outcome = said.and_then(|said| self.read(&said, now));
        let outcome = outcome.map_err(|reason| {
            tracing::error!(
                issuer = &*self.issuer.name,
                reason,
                "the issuer does not tell about a token"
            );
            *self.resumes.lock() = self.ports.clock.monotonic() + PAUSE;
            unavailable()
        })?;
        let before = earlier.and_then(|earlier| earlier.outcome.as_ref().ok());
        let outcome = match (outcome, before) {
            (Ok(new), Some(before)) if before.is_same_as(&new) => Ok(before.share()),
            (outcome, before) => {
                if let Some(before) = before {
                    before.revocation.revoke();
                }
                outcome
            }
        };
        let ends = outcome
            .as_ref()
            .ok()
            .and_then(|accepted| accepted.identity.expires_at());
        let until = now.plus(HOLDS_MILLIS);
        Ok(Answer {
            outcome,
            until: ends.map_or(until, |ends| ends.min(until)),
        })
    }

    /// What the answer means.
    ///
    /// # Errors
    /// If it is none: then nothing is known of the token.
    fn read(&self, said: &[u8], now: UnixMillis) -> Result<Result<Accepted, Denied>, String> {
        let wrong = |error: serde_json::Error| format!("its answer is not one of RFC 7662: {error}");
        let Active { active } = serde_json::from_slice(said).map_err(wrong)?;
        if !active {
            return Ok(Err(Denied::invalid("the token is not active")));
        }
        let claims: Claims = serde_json::from_slice(said).map_err(wrong)?;
        let TrustedIssuer { name, audience, .. } = &self.issuer;
        let accept = || {
            claims.check_introspected(name, audience, now)?;
            let revocation = Revocation::default();
            let identity = Arc::new(self.issuer.identify(&claims, &revocation)?);
            Ok(Accepted {
                identity,
                revocation,
                is_watched: Arc::default(),
            })
        };
        Ok(accept())
    }
}

impl Answer {
    fn is_continued_from(&self, earlier: Option<&Self>) -> bool {
        let identity = |answer: &Self| {
            answer
                .outcome
                .as_ref()
                .ok()
                .map(|accepted| Arc::as_ptr(&accepted.identity))
        };
        earlier
            .and_then(identity)
            .is_some_and(|before| identity(self) == Some(before))
    }
}

impl Accepted {
    /// Whether nobody holds the identity, so that whoever gives it away next has it watched again.
    fn stop_watching_if_unused(&self) -> bool {
        // The answer holds it.
        let is_unused = || Arc::strong_count(&self.identity) <= 1;
        if !is_unused() {
            return false;
        }
        self.is_watched.store(false, Ordering::Release);
        // It may have been given away meanwhile, by somebody who saw that it was watched.
        is_unused() || self.is_watched.swap(true, Ordering::AcqRel)
    }

    fn share(&self) -> Self {
        Self {
            identity: Arc::clone(&self.identity),
            revocation: self.revocation.clone(),
            is_watched: Arc::clone(&self.is_watched),
        }
    }

    fn is_same_as(&self, other: &Self) -> bool {
        let parts = |accepted: &Self| (accepted.identity.principal().clone(), accepted.identity.expires_at());
        parts(self) == parts(other)
            && self.identity.permissions() == other.identity.permissions()
            && !self.identity.is_revoked()
    }
}
