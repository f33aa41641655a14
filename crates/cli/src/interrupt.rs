//! Signals that end a client command.

use crate::{ask::closes_forms, result::Exit};
use std::{
    pin::Pin,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the command itself waits for Ctrl-C.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C, SIGTERM or SIGHUP while waiting.
pub(crate) struct Interrupt(Pin<Box<dyn Future<Output = Exit>>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Box::pin(signalled()))
    }

    /// Completes when the user presses Ctrl-C, or another signal ends the command, with the status for it. Do not use it again after that.
    pub(crate) async fn pressed(&mut self) -> Exit {
        IS_AWAITED.store(true, Ordering::Relaxed);
        let exit = (&mut self.0).await;
        closes_forms(match exit {
            Exit::Terminated => TERMINATED,
            _ => "interrupted",
        });
        exit
    }
}

const TERMINATED: &str = "this command was terminated by a signal";

/// Waits for the next of the signals.
async fn signalled() -> Exit {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let of_kind = async |kind| match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        };
        tokio::select! {
            () = interrupted => Exit::Interrupted,
            () = of_kind(SignalKind::terminate()) => Exit::Terminated,
            () = of_kind(SignalKind::hangup()) => Exit::Terminated,
        }
    }
    #[cfg(not(unix))]
    {
        interrupted.await;
        Exit::Interrupted
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
    loop {
        let exit = signalled().await;
        // Otherwise the command says first how to go on.
        if !IS_AWAITED.load(Ordering::Relaxed) {
            closes_forms(match exit {
                Exit::Terminated => TERMINATED,
                _ => "interrupted",
            });
            return exit;
        }
    }
}
