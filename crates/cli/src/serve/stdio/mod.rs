//! `longhaul stdio`: relays standard input and output to the process that owns the data directory, and starts that process if needed.
//!
//! Several clients can connect to one owner, and tasks keep running when a client disconnects. When the owner is killed, what it has not answered is answered with
//! an error, and another one is started.

mod owner;
mod relay;

use crate::{
    args, check,
    config::{self, Environment},
    machine::served_file,
    output,
};
use longhaul_client::SystemClock;
use longhaul_core::{Clock as _, Millis};
use relay::{Input, RelayEnd, Session};
use std::{fs::File, path::PathBuf, process::ExitCode, time::Duration};
use tokio::{
    io::{BufReader, stdin, stdout},
    net::UnixStream,
};

/// An owner that has lived so long does not count.
const LONG: Duration = Duration::from_secs(60);
/// So many owners in a row may exit without an answer to the client, and for so long as one may take to start, before this process gives up.
const MOST_EXITS: u32 = 3;
/// How long the next owner waits at most, after several have exited.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Relays until the client leaves. When the owner exits, another one is started. `longhaul wrap` has a claim on the data directory, and beside it the hand-off of
/// this client, if it has one.
pub(crate) fn run(stdio: &args::Stdio, wrapped: Option<(File, Option<Millis>)>) -> ExitCode {
    let (claim, handoff) = wrapped.unzip();
    let config = match config::load(&stdio.file, &Environment::of_this_process()) {
        Ok(config) => config,
        Err(error) => {
            output::note(&error.to_string());
            return ExitCode::from(config::EXIT_INVALID);
        }
    };
    check::warn(&stdio.file.display().to_string(), &config.warnings);
    // Checked here too, because a server started by this process would fail with the same environment.
    if let Err(error) = crate::serve::log::filter() {
        output::note(&format!("longhaul: {error}"));
        return ExitCode::from(config::EXIT_INVALID);
    }
    let settings = config.settings;
    let data_dir = match &stdio.data_dir {
        Some(data_dir) => std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()),
        None => config.server.data_dir,
    };
    let target = owner::Target {
        file: stdio.file.clone(),
        data_dir,
        settings,
        idle_exit: config.server.idle_exit,
        claim,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(relay(&target, handoff.flatten()));
    // A thread may still be blocked on standard input.
    runtime.shutdown_background();
    code
}

async fn relay(target: &owner::Target, handoff: Option<Millis>) -> ExitCode {
    let (session, mut input, mut output) = (Session::new(handoff), Input::new(BufReader::new(stdin())), stdout());
    // Owners that have exited in a row, and since when.
    let (mut exits, mut exiting_since) = (0, Duration::ZERO);
    loop {
        // Who has stopped the server on purpose need not see it start again at once.
        if exits > 0 && target.claim.is_none() && !input.is_next().await {
            return ExitCode::SUCCESS;
        }
        SystemClock.sleep(pause(exits)).await;
        let mut owner = match connect(target, exits > 0).await {
            Ok(owner) => BufReader::new(owner),
            Err(error) => {
                output::note(&format!("longhaul: {error}"));
                // What is wrong may be mended before the next request, and the client has its session still.
                if exits > 0 && target.claim.is_none() && session.refuse(&mut input, &mut output, &*error).await.is_ok()
                {
                    continue;
                }
                return ExitCode::FAILURE;
            }
        };
        let since = SystemClock.monotonic();
        if session.begin_again(&mut owner, &mut output).await.is_ok() {
            match session.relay(&mut input, &mut output, owner).await {
                RelayEnd::ByClient => return ExitCode::SUCCESS,
                RelayEnd::ByOwner if session.takes_heard() => exits = 0,
                RelayEnd::ByOwner => {}
            }
        }
        if SystemClock.monotonic().saturating_sub(since) >= LONG {
            exits = 0;
        }
        if exits == 0 {
            exiting_since = SystemClock.monotonic();
        }
        exits += 1;
        if session.fail_open(&mut output).await.is_err() {
            return ExitCode::SUCCESS;
        }
        let log: PathBuf = target.log();
        if exits >= MOST_EXITS && SystemClock.monotonic().saturating_sub(exiting_since) >= owner::START_TIMEOUT {
            output::note(&format!(
                "longhaul: the server has exited; its tasks resume when it is started again (log: {})",
                log.display()
            ));
            return ExitCode::FAILURE;
        }
        output::note(&format!(
            "longhaul: the server has exited, and is started again when it is needed (log: {})",
            log.display()
        ));
    }
}

/// Connects to a server that serves the file as it is now.
async fn connect(target: &owner::Target, has_exited: bool) -> Result<UnixStream, Box<dyn std::error::Error>> {
    let owner = owner::find_or_start(target, has_exited).await?;
    // The file of `longhaul wrap` is written by each of them.
    if target.claim.is_none() {
        served_file::follow(&target.file, &target.data_dir).await?;
        if let Some(unread) = served_file::unread(&target.file, &target.data_dir, &target.settings) {
            output::note(&format!("longhaul: {unread}"));
        }
    }
    Ok(owner)
}

/// How long the next owner waits when so many have exited in a row: the first one starts at once.
fn pause(exits: u32) -> Duration {
    match exits.checked_sub(2) {
        None => Duration::ZERO,
        Some(more) => LONGEST_PAUSE.min(Duration::from_millis(100) * 2_u32.saturating_pow(more)),
    }
}
