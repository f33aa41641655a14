//! Tokens that only their issuer can read (RFC 7662).
//!
//! An answer holds for a minute at most. While something that a token has opened lasts, such as a stream, the issuer is asked again each minute,
//! and it ends when the token does.
//!
//! Anyone can send tokens, so no token may keep others from being asked about. An answer that refuses a token, or that makes no sense, concerns that
//! token alone. Only an issuer that cannot be reached is left alone for a while. Tokens that it has accepted do not wait behind unknown ones.

use super::{
    claims::Claims,
    fetch::{FetchError, FetchedResponse, Fetcher},
    holder::TrustedIssuer,
    issuer::Introspection,
};
use longhaul_core::UnixMillis;
use longhaul_runtime::Ports;
use longhaul_server::auth::{Denied, Identity, Revocation};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use reqwest::StatusCode;
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
/// How many requests the issuer gets at once for tokens that it has accepted, and as many for others.
const AT_ONCE: usize = 16;
/// After a failure the issuer is not asked about the token for this long, and not at all if it cannot be reached.
const PAUSE: Duration = Duration::from_secs(2);
/// The same in the unit of dates.
const PAUSE_MILLIS: u64 = 2_000;
/// What a token has opened ends when the issuer has told nothing about it for this long.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// The digest that a token is remembered by. The token itself is not kept, unless something that it has opened lasts.
pub(super) type TokenDigest = [u8; 32];

/// Asks one issuer about its tokens.
pub(super) struct Introspector {
    issuer: TrustedIssuer,
    endpoint: Introspection,
    fetcher: Fetcher,
    ports: Ports,
    answers: Cache<TokenDigest, Arc<IntrospectionAnswer>>,
    /// Tokens that the issuer has accepted when it was asked last. They are known as such also while it is asked again.
    accepted: Cache<TokenDigest, ()>,
    permits: Permits,
    state: Mutex<IntrospectorState>,
}

struct Permits {
    accepted: Semaphore,
    unknown: Semaphore,
}

#[derive(Default)]
struct IntrospectorState {
    /// When the issuer may be asked again, after it could not be reached.
    resumes: Duration,
    /// The last failure that was logged.
    failure: Option<String>,
}

/// Why nothing is known of a token.
enum NotTold {
    /// The issuer was asked.
    Failed,
    /// It was not: it is left alone, or has too many questions already.
    NotAsked,
}

/// What the issuer said about a token.
struct IntrospectionAnswer {
    outcome: Result<AcceptedToken, Denied>,
    until: UnixMillis,
}

struct AcceptedToken {
    identity: Arc<Identity>,
    revocation: Revocation,
    /// Whether the issuer is asked again while somebody holds the identity.
    is_watched: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct Active {
    active: bool,
}

/// RFC 6749, 5.2.
#[derive(Deserialize)]
struct ErrorBody {
    error: String,
}

impl Introspector {
    pub(super) fn new(issuer: TrustedIssuer, endpoint: Introspection, fetcher: Fetcher, ports: &Ports) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            endpoint,
            fetcher,
            ports: ports.clone(),
            answers: Cache::new(MOST),
            accepted: Cache::new(MOST),
            permits: Permits {
                accepted: Semaphore::new(AT_ONCE),
                unknown: Semaphore::new(AT_ONCE),
            },
            state: Mutex::default(),
        })
    }

    /// What the issuer has said within the last minute.
    pub(super) fn known(self: &Arc<Self>, token: &str, digest: &TokenDigest) -> Option<Result<Arc<Identity>, Denied>> {
        let answer = self.answers.get(digest)?;
        (self.ports.clock.wall() < answer.until).then(|| self.give(token, *digest, &answer))
    }

    /// Whether the issuer has accepted the token when it was asked last, as far as is remembered.
    pub(super) fn accepted(&self, digest: &TokenDigest) -> bool {
        self.accepted.get(digest).is_some()
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
                    let answer = match self.ask(token, earlier.as_deref()).await {
                        Ok(answer) => {
                            self.remember_outcome(digest, &answer);
                            answer
                        }
                        Err(NotTold::Failed) => IntrospectionAnswer::failure(self.ports.clock.wall()),
                        Err(NotTold::NotAsked) => return Err(UNAVAILABLE),
                    };
                    let answer = Arc::new(answer);
                    // It fails only if the place was removed meanwhile; then the next request asks again.
                    let _ = place.insert(Arc::clone(&answer));
                    return self.give(token, digest, &answer);
                }
            }
        }
    }

    fn remember_outcome(&self, digest: TokenDigest, answer: &IntrospectionAnswer) {
        match &answer.outcome {
            Ok(_) => self.accepted.insert(digest, ()),
            Err(_) => drop(self.accepted.remove(&digest)),
        }
    }

    /// Gives an identity away, and sees to it that it is watched.
    fn give(
        self: &Arc<Self>,
        token: &str,
        digest: TokenDigest,
        answer: &Arc<IntrospectionAnswer>,
    ) -> Result<Arc<Identity>, Denied> {
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
    async fn watch(self: Arc<Self>, token: String, digest: TokenDigest, mut answer: Arc<IntrospectionAnswer>) {
        let now = || self.ports.clock.monotonic();
        let (mut told, mut pause) = (now(), HOLDS);
        loop {
            self.ports.clock.sleep(pause).await;
            let known = self.answers.get(&digest);
            if let Some(known) = known.filter(|known| known.is_continued_from(Some(&answer))) {
                if !Arc::ptr_eq(&known, &answer) {
                    told = now();
                }
                answer = known;
            }
            let Ok(accepted) = &answer.outcome else { return };
            if accepted.identity.is_revoked() || accepted.stop_watching_if_unused() {
                return;
            }
            match self.ask(&token, Some(&answer)).await {
                Ok(new) => {
                    (told, pause) = (now(), HOLDS);
                    let goes_on = new.is_continued_from(Some(&answer));
                    answer = Arc::new(new);
                    self.remember_outcome(digest, &answer);
                    self.answers.insert(digest, Arc::clone(&answer));
                    if !goes_on {
                        return;
                    }
                }
                Err(_) if now().saturating_sub(told) >= PATIENCE => {
                    accepted.revocation.revoke();
                    return;
                }
                Err(NotTold::Failed) => pause = HOLDS,
                Err(NotTold::NotAsked) => pause = PAUSE,
            }
        }
    }

    /// Asks the issuer. What the token has opened ends, if the answer is another one than before.
    async fn ask(&self, token: &str, earlier: Option<&IntrospectionAnswer>) -> Result<IntrospectionAnswer, NotTold> {
        if self.ports.clock.monotonic() < self.state.lock().resumes {
            return Err(NotTold::NotAsked);
        }
        let before = earlier.and_then(|earlier| earlier.outcome.as_ref().ok());
        let permits = match before {
            Some(_) => &self.permits.accepted,
            None => &self.permits.unknown,
        };
        let _permit = permits.try_acquire().map_err(|_| NotTold::NotAsked)?;
        let said = self.fetcher.introspection(&self.endpoint, token).await;
        let now = self.ports.clock.wall();
        let outcome = match said {
            Ok(said) => self.read(&said, now).map_err(|reason| self.failed(reason, false))?,
            Err(error) => {
                let is_unreachable = matches!(error, FetchError::Unreachable(_));
                return Err(self.failed(error.to_string(), is_unreachable));
            }
        };
        if self.state.lock().failure.take().is_some() {
            tracing::info!(issuer = &*self.issuer.name, "the issuer tells about tokens again");
        }
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
        Ok(IntrospectionAnswer {
            outcome,
            until: ends.map_or(until, |ends| ends.min(until)),
        })
    }

    /// Logs a failure, unless it is the same as the last one.
    fn failed(&self, reason: String, is_unreachable: bool) -> NotTold {
        let mut state = self.state.lock();
        if is_unreachable {
            state.resumes = self.ports.clock.monotonic() + PAUSE;
        }
        if state.failure.as_ref() != Some(&reason) {
            tracing::error!(
                issuer = &*self.issuer.name,
                reason,
                "the issuer does not tell about a token"
            );
            state.failure = Some(reason);
        }
        NotTold::Failed
    }

    /// What the answer means.
    ///
    /// # Errors
    /// If it is none: then nothing is known of the token.
    fn read(&self, said: &FetchedResponse, now: UnixMillis) -> Result<Result<AcceptedToken, Denied>, String> {
        let FetchedResponse { status, body: said } = said;
        if is_refusal(*status, said) {
            return Ok(Err(Denied::invalid("the issuer does not take the token for one")));
        }
        if *status != StatusCode::OK {
            return Err(format!("it answered with status {status}"));
        }
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
            Ok(AcceptedToken {
                identity,
                revocation,
                is_watched: Arc::default(),
            })
        };
        Ok(accept())
    }
}

const UNAVAILABLE: Denied = Denied::Unavailable { retry_after: PAUSE };

/// Whether the status says that something is wrong with the token, and not with this server or the issuer.
fn is_refusal(status: StatusCode, body: &[u8]) -> bool {
    let names_the_client = || {
        let error = serde_json::from_slice(body).map(|ErrorBody { error }| error);
        error.is_ok_and(|error| ["invalid_client", "unauthorized_client"].contains(&error.as_str()))
    };
    match status {
        StatusCode::BAD_REQUEST => !names_the_client(),
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => true,
        _ => false,
    }
}

impl IntrospectionAnswer {
    /// Nothing is known, and the issuer is not asked again about this token at once.
    fn failure(now: UnixMillis) -> Self {
        Self {
            outcome: Err(UNAVAILABLE),
            until: now.plus(PAUSE_MILLIS),
        }
    }

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

impl AcceptedToken {
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
