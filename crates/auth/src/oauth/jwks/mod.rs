//! The keys of an issuer, fetched when they are needed and kept for a while.
//!
//! - Keys are fetched again in the background once they are ten minutes old; those in a file after two seconds.
//! - A token that none of them has signed has them fetched at once, at most every 30 seconds (a file: every second), however many such tokens come. If it names
//!   an unknown key, nobody knows whether it is valid until the next fetch.
//! - All requests that wait for keys share one fetch, which goes on when they leave.
//! - While the issuer does not answer, or answers nonsense, the last keys are used for up to a day. Then also tokens that were verified before wait
//!   for the next ones. A set without keys is no nonsense: all keys are withdrawn.

mod key;

pub(super) use key::{KeySet, NO_KEY, VerifyingKey};

use super::{fetch::Fetcher, issuer::KeySource, jwt::UnverifiedJwt};
use key::Signer;
use longhaul_core::whole_millis;
use longhaul_runtime::Ports;
use longhaul_server::auth::Denied;
use parking_lot::Mutex;
use std::{
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// How long keys are used while no newer ones can be had.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The least time between two fetches while there are no keys.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);
/// As much as is taken from an address.
const LARGEST_FILE: u64 = 512 * 1024;

/// How often keys are fetched.
struct Pace {
    /// When keys are fetched again although they are known: one that the issuer has withdrawn must not stay.
    fresh: Duration,
    /// The least time between two fetches while there are keys.
    pause: Duration,
    /// Between two looks whether somebody holds what tokens have opened, so that the keys must be kept fresh.
    look: Duration,
}

const PACE_OF_URL: Pace = Pace {
    fresh: Duration::from_secs(10 * 60),
    pause: Duration::from_secs(30),
    look: Duration::from_secs(60),
};
/// A file is at hand.
const PACE_OF_FILE: Pace = Pace {
    fresh: Duration::from_secs(2),
    pause: Duration::from_secs(1),
    look: Duration::from_secs(2),
};

/// The keys of one issuer.
pub(super) struct Jwks {
    shared: Arc<Shared>,
}

struct Shared {
    issuer: String,
    source: KeySource,
    pace: &'static Pace,
    fetcher: Fetcher,
    ports: Ports,
    state: Mutex<KeySetState>,
    /// When the keys are not fresh any more, in milliseconds.
    stale_at: AtomicU64,
}

#[derive(Default)]
struct KeySetState {
    known: Option<KnownKeys>,
    /// When the last fetch began.
    tried: Option<Duration>,
    /// Closed at the end of the fetch that is under way.
    fetching: Option<watch::Receiver<()>>,
    /// The last failure that was logged.
    failure: Option<String>,
}

#[derive(Clone)]
struct KnownKeys {
    keys: Arc<KeySet>,
    /// Those before. One that is only there was withdrawn.
    before: Option<Arc<KeySet>>,
    since: Duration,
}

impl KnownKeys {
    /// Whether it may still be used.
    fn is_usable(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < KEPT
    }

    /// Whether the issuer had the key that has signed a token and has it no more, or has none any more.
    fn has_withdrawn_signer_of(&self, token: &UnverifiedJwt<'_>) -> bool {
        let before = self.before.as_ref();
        self.keys.is_empty() || before.is_some_and(|before| before.has_withdrawn(&self.keys, token))
    }
}

/// What is known without waiting.
pub(super) enum Lookup {
    Known(Result<Arc<VerifyingKey>, Denied>),
    /// After this fetch more will be known.
    Wait(Fetch),
}

/// It ends with an error when the fetch has ended, and nothing is ever sent.
pub(super) type Fetch = watch::Receiver<()>;

impl Jwks {
    pub(super) fn new(issuer: &str, source: &KeySource, fetcher: Fetcher, ports: &Ports) -> Self {
        let shared = Shared {
            issuer: issuer.to_owned(),
            source: source.clone(),
            pace: match source {
                KeySource::Url(_) => &PACE_OF_URL,
                KeySource::File(_) => &PACE_OF_FILE,
            },
            fetcher,
            ports: ports.clone(),
            state: Mutex::default(),
            stale_at: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Takes keys that were read already.
    pub(super) fn set(&self, keys: KeySet) {
        self.shared.finish(Ok(keys));
    }

    /// Whether the keys may still be used, for tokens that need no key because they were verified before. Fetches keys that are not fresh, in the
    /// background.
    pub(super) fn are_usable(&self) -> bool {
        let now = self.shared.ports.clock.monotonic();
        if whole_millis(now) < self.shared.stale_at.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.shared.state.lock();
        let is_due = state
            .tried
            .is_none_or(|tried| now.saturating_sub(tried) >= self.shared.pace.pause);
        if state.fetching.is_none() && is_due {
            self.shared.start(&mut state, now);
        }
        state.known.as_ref().is_some_and(|known| known.is_usable(now))
    }

    /// Fetches the keys before the first token comes.
    pub(super) fn warm_up(&self) {
        let now = self.shared.ports.clock.monotonic();
        self.shared.start(&mut self.shared.state.lock(), now);
    }

    /// Which key has signed a token. If it is none of those that are known, they are fetched, unless that was done shortly before.
    ///
    /// # Errors
    /// If none has, or if the keys cannot be had.
    pub(super) fn find(&self, token: &UnverifiedJwt<'_>) -> Lookup {
        self.shared.look(token, true)
    }

    /// The same after the fetch that [`find`](Self::find) has named.
    pub(super) async fn find_after(
        &self,
        mut fetch: Fetch,
        token: &UnverifiedJwt<'_>,
    ) -> Result<Arc<VerifyingKey>, Denied> {
        loop {
            while fetch.changed().await.is_ok() {}
            match self.shared.look(token, false) {
                Lookup::Known(known) => return known,
                Lookup::Wait(next) => fetch = next,
            }
        }
    }

    /// Between two calls of [`are_usable`](Self::are_usable) while somebody holds what tokens have opened.
    pub(super) fn time_to_look(&self) -> Duration {
        self.shared.pace.look
    }
}

impl Shared {
    /// Verifies a token with the keys that are known. Signatures are verified without the lock.
    fn look(self: &Arc<Self>, token: &UnverifiedJwt<'_>, may_fetch: bool) -> Lookup {
        loop {
            let known = self.state.lock().known.clone();
            if let Some(lookup) = self.look_among(known.as_ref(), token, may_fetch) {
                return lookup;
            }
        }
    }

    /// `None` if the known keys are other ones meanwhile.
    fn look_among(
        self: &Arc<Self>,
        known: Option<&KnownKeys>,
        token: &UnverifiedJwt<'_>,
        may_fetch: bool,
    ) -> Option<Lookup> {
        let signer = known.map_or(Signer::Unknown, |known| known.keys.signer_of(token));
        let is_found = matches!(signer, Signer::Key(_));
        let is_withdrawn = !is_found && known.is_some_and(|known| known.has_withdrawn_signer_of(token));
        let now = self.ports.clock.monotonic();
        let mut state = self.state.lock();
        let set = |known: &KnownKeys| Arc::as_ptr(&known.keys);
        if state.known.as_ref().map(set) != known.map(set) {
            return None;
        }
        // One that did not come to its end would keep all others from beginning.
        state.fetching = state.fetching.take().filter(|fetching| fetching.has_changed().is_ok());
        let has_keys = known.is_some_and(|known| known.is_usable(now));
        let pause = if has_keys { self.pace.pause } else { PAUSE_WITHOUT_KEYS };
        let since_last = state.tried.map_or(Duration::MAX, |tried| now.saturating_sub(tried));
        let is_fresh = known.is_some_and(|known| now.saturating_sub(known.since) < self.pace.fresh);
        let is_due = state.fetching.is_none() && since_last >= pause;
        let may_fetch_now = if is_found && has_keys { !is_fresh } else { may_fetch };
        if is_due && may_fetch_now {
            self.start(&mut state, now);
        }
        if let Signer::Key(key) = signer
            && has_keys
        {
            return Some(Lookup::Known(Ok(Arc::clone(key))));
        }
        if let Some(fetching) = &state.fetching
            && may_fetch
        {
            return Some(Lookup::Wait(fetching.clone()));
        }
        // A failed fetch does not tell whether the issuer has a new key.
        let is_current = known.is_some_and(|known| state.tried.is_none_or(|tried| known.since >= tried));
        let retry_after = pause.saturating_sub(since_last).max(Duration::from_secs(1));
        let is_open = !is_current || (may_fetch && matches!(signer, Signer::Unknown));
        Some(Lookup::Known(Err(match signer {
            _ if !has_keys => Denied::Unavailable { retry_after },
            _ if is_open && !is_withdrawn => Denied::Undecided { retry_after },
            Signer::Other => Denied::invalid("the signature of the token is not its issuer's"),
            _ => Denied::invalid("the token is signed with a key that its issuer does not have"),
        })))
    }

    fn start(self: &Arc<Self>, state: &mut KeySetState, now: Duration) {
        let (done, fetching) = watch::channel(());
        state.tried = Some(now);
        state.fetching = Some(fetching);
        let this = Arc::clone(self);
        self.ports.spawner.spawn(Box::pin(async move {
            let fetched = this.fetch().await.and_then(|text| KeySet::parse(&text));
            this.finish(fetched);
            drop(done);
        }));
    }

    async fn fetch(&self) -> Result<Vec<u8>, String> {
        match &self.source {
            KeySource::Url(url) => self.fetcher.document(url).await,
            KeySource::File(path) => {
                let path = path.clone();
                let read = self.ports.blocking(move || read_file(&path)).await;
                read.unwrap_or_else(|| Err("the read was abandoned".to_owned()))
            }
        }
    }

    fn finish(&self, fetched: Result<KeySet, String>) {
        let now = self.ports.clock.monotonic();
        let mut state = self.state.lock();
        state.fetching = None;
        match fetched {
            Ok(mut keys) => {
                let before = state.known.take().map(|known| known.keys);
                if let Some(before) = &before {
                    keys.replace(before);
                }
                let keys = Arc::new(keys);
                state.known = Some(KnownKeys {
                    keys: Arc::clone(&keys),
                    before,
                    since: now,
                });
                self.stale_at
                    .store(whole_millis(now + self.pace.fresh), Ordering::Relaxed);
                let reason = keys.is_empty().then(|| NO_KEY.to_owned());
                match (&reason, &state.failure) {
                    (Some(reason), failed) if failed.as_ref() != Some(reason) => tracing::error!(
                        issuer = self.issuer,
                        reason,
                        "the issuer's keys cannot be used; its tokens are refused"
                    ),
                    (None, Some(_)) => tracing::info!(issuer = self.issuer, "the issuer's keys can be read again"),
                    _ => {}
                }
                state.failure = reason;
            }
            Err(reason) if state.failure.as_ref() == Some(&reason) => {}
            Err(reason) => {
                let then = match state.known {
                    Some(_) => "the last ones are used for up to a day",
                    None => "its tokens cannot be verified until they can",
                };
                tracing::error!(issuer = self.issuer, reason, then, "the issuer's keys cannot be read");
                state.failure = Some(reason);
            }
        }
    }
}

/// The text of a file with keys.
pub(super) fn read_file(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut text = Vec::new();
        longhaul_private_dir::open_named(path)?
            .take(LARGEST_FILE + 1)
            .read_to_end(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if text.len() as u64 > LARGEST_FILE => Err(format!("it has more than {LARGEST_FILE} bytes")),
        Ok(text) => Ok(text),
        Err(error) => Err(std::io::Error::to_string(&error)),
    }
}
