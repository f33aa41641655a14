//! Results of modern servers that may be used again.

use crate::ServerChange;
use longhaul_core::Json;
use longhaul_wire::{Generation, Method};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::HashMap, time::Duration};

/// A server cannot ask for more.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// With more results, or more bytes, all are forgotten.
const MAX_RESULTS: usize = 256;
const MAX_BYTES: usize = 16 << 20;

/// The results of one connection, so of one authorization: `cacheScope` makes no difference.
#[derive(Default)]
pub(crate) struct ResponseCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    results: HashMap<Key, CachedResult>,
    bytes: usize,
    /// Counts what was forgotten, so that a result is not kept that was requested before the server said that it has changed.
    forgotten: u64,
}

/// A request that may be answered from the cache.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    method: Method,
    /// As JSON, without what the era adds.
    params: String,
}

struct CachedResult {
    result: Json,
    /// By the clock's monotonic time.
    until: Duration,
}

/// What the cache knows of a request.
pub(crate) enum Lookup {
    Found(Json),
    /// Pass the number to [`ResponseCache::insert`].
    Missing(u64),
}

impl Key {
    /// `None` if the result of the request is not to be cached: by its method, or because it is the answer to questions.
    pub(crate) fn of(method: &str, params: &Map<String, Value>) -> Option<Self> {
        let method = Method::parse(method, Generation::Modern)?;
        let is_cacheable = matches!(
            method,
            Method::ToolsList
                | Method::PromptsList
                | Method::ResourcesList
                | Method::ResourceTemplatesList
                | Method::ResourcesRead
        );
        let is_retry = params.contains_key("inputResponses") || params.contains_key("requestState");
        if !is_cacheable || is_retry {
            return None;
        }
        let params = Value::Object(params.clone()).to_string();
        Some(Self { method, params })
    }

    fn is_changed_by(&self, change: &ServerChange) -> bool {
        match change {
            ServerChange::Tools => self.method == Method::ToolsList,
            ServerChange::Prompts => self.method == Method::PromptsList,
            ServerChange::Resources => {
                matches!(self.method, Method::ResourcesList | Method::ResourceTemplatesList)
            }
            ServerChange::Resource { uri, .. } => {
                let is_uri = || serde_json::from_str::<Value>(&self.params).is_ok_and(|params| params["uri"] == **uri);
                self.method == Method::ResourcesRead && is_uri()
            }
        }
    }
}

impl ResponseCache {
    pub(crate) fn get(&self, key: &Key, now: Duration) -> Lookup {
        let state = self.0.lock();
        match state.results.get(key).filter(|cached| now < cached.until) {
            Some(cached) => Lookup::Found(cached.result.clone()),
            None => Lookup::Missing(state.forgotten),
        }
    }

    /// How often something was forgotten.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().forgotten
    }

    /// Keeps a result for as long as it says, if nothing was forgotten since it was looked up.
    pub(crate) fn insert(&self, key: Key, result: &Json, now: Duration, forgotten: u64) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hints {
            result_type: Option<String>,
            ttl_ms: Option<f64>,
        }
        let Ok(hints) = serde_json::from_str::<Hints>(result.as_str()) else {
            return;
        };
        let is_complete = hints.result_type.is_none_or(|kind| kind == "complete");
        let ttl = hints.ttl_ms.filter(|ttl| *ttl > 0.0);
        let (Some(ttl), true) = (ttl, is_complete) else { return };
        let ttl = Duration::from_millis(ttl as u64).min(MAX_TTL);
        let mut state = self.0.lock();
        if state.forgotten != forgotten {
            return;
        }
        let bytes = key.params.len() + result.as_str().len();
        if state.results.len() >= MAX_RESULTS || state.bytes.saturating_add(bytes) > MAX_BYTES {
            state.results.clear();
            state.bytes = 0;
        }
        if bytes > MAX_BYTES {
            return;
        }
        let until = now.saturating_add(ttl);
        let result = result.clone();
        if let Some(replaced) = state.results.insert(key.clone(), CachedResult { result, until }) {
            state.bytes -= key.params.len() + replaced.result.as_str().len();
        }
        state.bytes += bytes;
    }

    /// Forgets what has changed.
    pub(crate) fn forget(&self, change: &ServerChange) {
        self.retain(|key| !key.is_changed_by(change));
    }

    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, keep: impl Fn(&Key) -> bool) {
        let mut state = self.0.lock();
        state.forgotten += 1;
        let mut bytes = 0;
        state.results.retain(|key, cached| {
            let is_kept = keep(key);
            if is_kept {
                bytes += key.params.len() + cached.result.as_str().len();
            }
            is_kept
        });
        state.bytes = bytes;
    }
}
