//! The keys of an issuer, fetched when they are needed and kept for a while.
//!
//! - Keys are fetched again in the background once they are ten minutes old.
//! - A token that names an unknown key has them fetched at once, at most every 30 seconds, however many such tokens come. Whether it is valid is not
//!   known until the next fetch.
//! - All requests that wait for keys share one fetch, which goes on when they leave.
//! - While the issuer does not answer, or answers nonsense, the last keys are used for up to a day. Then also tokens that were verified before wait
//!   for the next ones. A set without keys is no nonsense: all keys are withdrawn.

mod key;

pub(super) use key::{KeySet, NO_KEY, VerifyingKey};

use super::{fetch::Fetcher, issuer::KeySource};
use jsonwebtoken::Algorithm;
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

/// When keys are fetched again although they are known: one that the issuer has withdrawn must not stay.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// How long keys are used while no newer ones can be had.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The least time between two fetches while there are keys.
const PAUSE: Duration = Duration::from_secs(30);
/// The same while there are none.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);
/// As much as is taken from an address.
const LARGEST_FILE: u64 = 512 * 1024;

/// The keys of one issuer.
pub(super) struct Jwks {
    shared: Arc<Shared>,
}

struct Shared {
    issuer: String,
    source: KeySource,
    fetcher: Fetcher,
    ports: Ports,
    state: Mutex<State>,
    /// When the keys are not fresh any more, in milliseconds.
    stale_at: AtomicU64,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// When the last fetch began.
    tried: Option<Duration>,
    /// Closed at the end of the fetch that is under way.
    fetching: Option<watch::Receiver<()>>,
    /// The last failure that was logged.
    failure: Option<String>,
}

struct Known {
    keys: Arc<KeySet>,
    /// Those before. One that is only there was withdrawn.
    before: Option<Arc<KeySet>>,
    since: Duration,
}

impl Known {
    /// Whether the issuer had a key before that it has no more, or has none any more.
    fn has_withdrawn(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let before = self.before.as_ref();
        self.keys.is_empty() || before.is_some_and(|before| before.find(id, algorithm).is_some())
    }
}

impl State {
    /// What may still be used.
    fn usable(&self, now: Duration) -> Option<&Known> {
        let known = self.known.as_ref();
        known.filter(|known| now.saturating_sub(known.since) < KEPT)
    }
}

/// What is known without waiting.
enum Look {
    Found(Arc<VerifyingKey>),
    Wait(watch::Receiver<()>),
    /// The keys were fetched for this token, and this one is not among them.
    Unknown,
    /// It is not among the keys that were fetched shortly before. The issuer may have a new one since then, which is looked for after this time.
    Undecided(Duration),
    Unavailable(Duration),
}

impl Jwks {
    pub(super) fn new(issuer: &str, source: &KeySource, fetcher: Fetcher, ports: &Ports) -> Self {
        let shared = Shared {
            issuer: issuer.to_owned(),
            source: source.clone(),
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
        if millis(now) < self.shared.stale_at.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.shared.state.lock();
        let is_due = state.tried.is_none_or(|tried| now.saturating_sub(tried) >= PAUSE);
        if state.fetching.is_none() && is_due {
            self.shared.start(&mut state, now);
        }
        state.usable(now).is_some()
    }

    /// Fetches the keys before the first token comes.
    pub(super) fn warm_up(&self) {
        let now = self.shared.ports.clock.monotonic();
        self.shared.start(&mut self.shared.state.lock(), now);
    }

    /// The key for a token, if it is known without waiting.
    pub(super) fn find_known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<VerifyingKey>> {
        match self.shared.look(id, algorithm, false) {
            Look::Found(key) => Some(key),
            _ => None,
        }
    }

    /// The key for a token.
    ///
    /// # Errors
    /// If there is none, or if the keys cannot be had.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Arc<VerifyingKey>, Denied> {
        let mut may_fetch = true;
        loop {
            match self.shared.look(id, algorithm, may_fetch) {
                Look::Found(key) => return Ok(key),
                Look::Unknown => {
                    return Err(Denied::invalid(
                        "the token is signed with a key that its issuer does not have",
                    ));
                }
                Look::Undecided(retry_after) => return Err(Denied::Undecided { retry_after }),
                Look::Unavailable(retry_after) => return Err(Denied::Unavailable { retry_after }),
                // It ends with an error when the fetch has ended, and nothing is ever sent.
                Look::Wait(mut fetching) => while fetching.changed().await.is_ok() {},
            }
            may_fetch = false;
        }
    }
}

impl Shared {
    fn look(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm, may_fetch: bool) -> Look {
        let now = self.ports.clock.monotonic();
        let mut state = self.state.lock();
        // One that did not come to its end would keep all others from beginning.
        state.fetching = state.fetching.take().filter(|fetching| fetching.has_changed().is_ok());
        let known = state.known.as_ref();
        let usable = state.usable(now);
        let pause = if usable.is_some() { PAUSE } else { PAUSE_WITHOUT_KEYS };
        let since_last = state.tried.map_or(Duration::MAX, |tried| now.saturating_sub(tried));
        let has_keys = usable.is_some();
        let is_fresh = known.is_some_and(|known| now.saturating_sub(known.since) < FRESH);
        let found = usable.and_then(|known| known.keys.find(id, algorithm)).cloned();
        // A failed fetch does not tell whether the issuer has a new key.
        let is_current = known.is_some_and(|known| state.tried.is_none_or(|tried| known.since >= tried));
        let is_withdrawn = known.is_some_and(|known| known.has_withdrawn(id, algorithm));
        let is_due = state.fetching.is_none() && since_last >= pause;
        if let Some(key) = found {
            if is_due && !is_fresh {
                self.start(&mut state, now);
            }
            return Look::Found(key);
        }
        if may_fetch && is_due {
            self.start(&mut state, now);
        }
        match &state.fetching {
            Some(fetching) if may_fetch => Look::Wait(fetching.clone()),
            _ if has_keys && (may_fetch || !is_current) && !is_withdrawn => {
                Look::Undecided(pause.saturating_sub(since_last).max(Duration::from_secs(1)))
            }
            _ if has_keys => Look::Unknown,
            _ => Look::Unavailable(pause.saturating_sub(since_last).max(Duration::from_secs(1))),
        }
    }

    fn start(self: &Arc<Self>, state: &mut State, now: Duration) {
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
            KeySource::Url(url) => self.fetcher.key_set(url).await,
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
                state.known = Some(Known {
                    keys: Arc::clone(&keys),
                    before,
                    since: now,
                });
                self.stale_at.store(millis(now + FRESH), Ordering::Relaxed);
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The text of a file with keys.
pub(super) fn read_file(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut text = Vec::new();
        std::fs::File::open(path)?
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
