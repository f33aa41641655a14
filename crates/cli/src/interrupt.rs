//! Signals that end a client command.

use crate::{ask::closes_forms, result::Exit};
use std::{
    io,
    pin::Pin,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the command itself waits for Ctrl-C.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C while waiting.
pub(crate) struct Interrupt(Pin<Box<dyn Future<Output = io::Result<()>>>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Box::pin(tokio::signal::ctrl_c()))
    }

    /// Completes when the user presses Ctrl-C. Do not use it again after that.
    pub(crate) async fn pressed(&mut self) {
        IS_AWAITED.store(true, Ordering::Relaxed);
        let _ = (&mut self.0).await;
        closes_forms("interrupted");
    }
}

/// Runs a command to its end, or until a signal ends it. Then it is dropped, which also ends a server that is its child.
pub(crate) async fn or_ended(command: impl Future<Output = ExitCode>) -> ExitCode {
    tokio::select! {
        biased;
        exit = ended() => exit.into(),
        exit = command => exit,
    }
}

async fn ended() -> Exit {
    let interrupted = async {
        loop {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            if !IS_AWAITED.load(Ordering::Relaxed) {
                closes_forms("interrupted");
                return Exit::Interrupted;
            }
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let of_kind = async |kind| match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        };
        let exit = tokio::select! {
            exit = interrupted => exit,
            () = of_kind(SignalKind::terminate()) => Exit::Terminated,
            () = of_kind(SignalKind::hangup()) => Exit::Terminated,
        };
        if exit == Exit::Terminated {
            closes_forms("this command was terminated by a signal");
        }
        exit
    }
    #[cfg(not(unix))]
    interrupted.await
}
