//! `longhaul stdio`: relays standard input and output to the process that owns the data directory, and starts that process if needed.
//!
//! Several clients can connect to one owner, and tasks keep running when a client disconnects.

mod owner;

use crate::{
    args, check,
    config::{self, Environment},
    output,
};
use std::{path::PathBuf, process::ExitCode};
use tokio::{
    io::{self, AsyncWriteExt},
    net::UnixStream,
};

/// Relays until one side closes.
pub(crate) fn run(stdio: &args::Stdio) -> ExitCode {
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
    let data_dir = match &stdio.data_dir {
        Some(data_dir) => std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()),
        None => config.server.data_dir,
    };
    let target = owner::Target {
        file: stdio.file.clone(),
        data_dir,
        idle_exit: config.server.idle_exit,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(relay(&target));
    // A thread may still be blocked on standard input.
    runtime.shutdown_background();
    code
}

async fn relay(target: &owner::Target) -> ExitCode {
    let owner = match owner::find_or_start(target).await {
        Ok(owner) => owner,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match copy_both_ways(owner).await {
        Closed::ByClient => ExitCode::SUCCESS,
        Closed::ByOwner => {
            let log: PathBuf = target.log();
            output::note(&format!(
                "longhaul: the server has exited; its tasks resume when it is started again (log: {})",
                log.display()
            ));
            ExitCode::FAILURE
        }
    }
}

/// The side that closed the connection first.
enum Closed {
    ByClient,
    ByOwner,
}

async fn copy_both_ways(owner: UnixStream) -> Closed {
    let (mut from_owner, mut to_owner) = owner.into_split();
    let up = async {
        // If the owner is gone, its last responses must still be read.
        if io::copy(&mut io::stdin(), &mut to_owner).await.is_err() {
            return std::future::pending().await;
        }
        let _ = to_owner.shutdown().await;
    };
    let down = async {
        let mut out = io::stdout();
        loop {
            match copy_chunk(&mut from_owner, &mut out).await {
                None => {}
                Some(closed) => return closed,
            }
        }
    };
    tokio::pin!(down);
    tokio::select! {
        () = up => {
            down.await;
            Closed::ByClient
        }
        end = &mut down => end,
    }
}

async fn copy_chunk(from_owner: &mut (impl io::AsyncRead + Unpin), out: &mut io::Stdout) -> Option<Closed> {
    use tokio::io::AsyncReadExt;
    let mut bytes = [0; 16 * 1024];
    let length = match from_owner.read(&mut bytes).await {
        Ok(0) | Err(_) => return Some(Closed::ByOwner),
        Ok(length) => length,
    };
    let written = async {
        out.write_all(&bytes[..length]).await?;
        out.flush().await
    };
    match written.await {
        Ok(()) => None,
        Err::<_, io::Error>(_) => Some(Closed::ByClient),
    }
}
