//! Signals that end a client command.

use crate::{ask::closes_forms, exit::result::Exit};
use std::{
    pin::Pin,
    process::ExitCode,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether the command itself waits for Ctrl-C.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);

/// Whether the command was started with SIGHUP ignored, as `nohup` does: then it goes on after a hangup. A handler would end that, so none is installed.
#[cfg(unix)]
static IS_HANGUP_IGNORED: LazyLock<bool> = LazyLock::new(|| {
    // Only Linux says it without a handler.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
});

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
            () = of_kind(SignalKind::hangup()), if !*IS_HANGUP_IGNORED => Exit::Terminated,
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
