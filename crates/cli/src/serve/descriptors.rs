//! The limit on open files (`ulimit -n`), without which a server would start and then serve nobody.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What commands need at once: eight descriptors to start one, and one for each that runs.
const FOR_COMMANDS: u64 = 16;
/// Connections get at most half of the limit (`connections_in_all`), so all else must fit into the other half.
const SHARES: u64 = 2;

/// What a start opens: its threads, the store, the listener. Counted, so that who raises the limit by what is said need not raise it again.
pub(super) const OPENED_AT_START: u64 = 19;

/// A server would run out of descriptors before it has served anyone.
#[derive(Debug, thiserror::Error)]
#[error(
    "at most {limit} files may be open at once, and this server needs at least {needed}: raise the limit, for example with `ulimit -n 1024`"
)]
pub(super) struct TooFew {
    limit: u64,
    needed: u64,
}

/// Raises the soft limit to the hard one.
pub(super) fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "could not raise the limit on open files");
    }
}

/// Whether the limit leaves room for commands and connections beside what is open now, and what is `still_to_open`.
///
/// # Errors
/// [`TooFew`]. A limit that cannot be compared, because open files cannot be counted, is none.
pub(super) fn check_limit(still_to_open: u64) -> Result<(), TooFew> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let Ok(open) = std::fs::read_dir("/dev/fd") else {
        return Ok(());
    };
    let needed = SHARES * (open.count() as u64 + still_to_open + FOR_COMMANDS);
    if limit < needed {
        return Err(TooFew { limit, needed });
    }
    Ok(())
}
