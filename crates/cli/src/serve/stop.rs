//! When a server is to stop, and what is told of that.

use super::ServeError;
use crate::output;
use longhaul::ServerHandle;
use longhaul_core::{Millis, format_duration, whole_millis};
use longhaul_runtime::{Engine, Ports};
use longhaul_server::ProtocolServer;
use longhaul_store::SqliteStore;
use std::{io, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled when the server is to stop: at a signal, when it has been idle for `idle_exit`, or when it has lost its lease.
pub(super) fn begin(
    protocol: &Arc<ProtocolServer>,
    running: &ServerHandle,
    idle_exit: Option<Millis>,
    (engine, drain_timeout): (Engine, Duration),
) -> Result<CancellationToken, ServeError> {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let (signal, protocol, running) = (
        stop_signal(engine, drain_timeout)?,
        Arc::clone(protocol),
        running.clone(),
    );
    Ports::system().spawner.spawn(Box::pin(async move {
        let idle = async {
            match idle_exit {
                Some(millis) => protocol.idle_for(Duration::from_millis(millis)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = signal => {}
            () = running.lease_lost() => {}
            () = idle => output::note("longhaul: idle; stopping"),
        }
        stopping.cancel();
    }));
    Ok(stop)
}

/// Completes at the first SIGTERM or SIGINT, once what runs has ended, or after `drain_timeout`, or at the second signal. The next one ends the process at once.
fn stop_signal(engine: Engine, drain_timeout: Duration) -> Result<impl Future<Output = ()>, ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if !drain_timeout.is_zero() {
            let timeout = format_duration(whole_millis(drain_timeout));
            output::note(&format!(
                "longhaul: draining: nothing more begins, and what runs has {timeout} to end; a second signal ends that"
            ));
            tokio::select! {
                () = engine.drain(drain_timeout) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        output::note("longhaul: stopping; calls that run have 5 seconds to finish, tasks resume at the next start");
        Ports::system().spawner.spawn(Box::pin(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        }));
    })
}

/// Writes into the lock file that the server drains, and that it stops.
pub(super) async fn describe(stop: &CancellationToken, engine: &Engine, store: &SqliteStore) {
    let told = |written: io::Result<()>| {
        if let Err(error) = written {
            tracing::warn!(%error, "could not write to the lock file that this process stops");
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = engine.drain_begun() => told(store.describe_owner("it drains: it stops when what runs has ended")),
    }
    stop.cancelled().await;
    told(store.describe_stop());
}
