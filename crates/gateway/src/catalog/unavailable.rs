//! Why there are no tools, while no upstream can be reached.

use crate::upstream::{Upstreams, words};
use longhaul_client::RequestError;
use longhaul_runtime::{Engine, Unavailable};
use std::sync::Arc;

/// Why one upstream cannot be reached.
pub(crate) fn of_upstream(name: &str, error: &RequestError) -> Unavailable {
    let told = |is_local: bool| format!("upstream `{name}`: {}", words(error, is_local)).into();
    Unavailable {
        for_local: told(true),
        for_others: told(false),
    }
}

/// Why the tools of an upstream could not be listed.
pub(crate) fn of_list(name: &str, why: &str) -> Unavailable {
    let told: Arc<str> = format!("upstream `{name}`: its tools could not be listed: {why}").into();
    Unavailable {
        for_local: Arc::clone(&told),
        for_others: told,
    }
}

/// That an upstream was started or connected to, and says nothing.
pub(crate) fn of_silent(name: &str) -> Unavailable {
    let told: Arc<str> =
        format!("upstream `{name}`: it has not answered since it was started, and may still do so").into();
    Unavailable {
        for_local: Arc::clone(&told),
        for_others: told,
    }
}

/// All of these together.
pub(crate) fn of_all(failures: impl IntoIterator<Item = Unavailable>) -> Option<Unavailable> {
    let joined = |all: Unavailable, more: Unavailable| Unavailable {
        for_local: format!("{}; {}", all.for_local, more.for_local).into(),
        for_others: format!("{}; {}", all.for_others, more.for_others).into(),
    };
    failures.into_iter().reduce(joined)
}

/// Tells clients that there are no tools because no upstream can be reached, for as long as that is so. Most hosts show the error of a list, and nothing of an
/// empty one.
pub(crate) fn offer(upstreams: &Upstreams, engine: &Engine) {
    let all = upstreams.all();
    let failures: Option<Vec<Unavailable>> = all.iter().map(|upstream| upstream.failure.read().clone()).collect();
    let unavailable = failures.and_then(of_all).map(|all| Unavailable {
        for_local: format!("There are no tools: {}", all.for_local).into(),
        for_others: format!("There are no tools: {}", all.for_others).into(),
    });
    let catalog = engine.catalog();
    if catalog.snapshot().unavailable != unavailable {
        catalog.set_unavailable(unavailable);
    }
}
