//! `longhaul stdio`: standard input and output for the process that owns the data directory, which is started if there is none.
//!
//! Bytes are passed on and nothing else, so a desktop client may come and go, and two may be there at once, while the tasks run on.

mod owner;

use crate::{
    args,
    config::{self, Surroundings},
    output,
};
use std::{path::PathBuf, process::ExitCode};
use tokio::{
    io::{self, AsyncWriteExt},
    net::UnixStream,
};

/// A configuration that cannot be served.
const INVALID: u8 = 2;

/// Relays until one side is done.
pub(crate) fn run(stdio: &args::Stdio) -> ExitCode {
    let config = match config::load(&stdio.file, &Surroundings::of_this_process()) {
        Ok(config) => config,
        Err(error) => {
            output::note(&error.to_string());
            return ExitCode::from(INVALID);
        }
    };
    // The server that is started has the same environment.
    if let Err(error) = crate::serve::log::filter() {
        output::note(&format!("longhaul: {error}"));
        return ExitCode::from(INVALID);
    }
    let data_dir = match &stdio.data_dir {
        Some(data_dir) => std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()),
        None => config.server.data_dir,
    };
    let wanted = owner::Wanted {
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
    let code = runtime.block_on(relay(&wanted));
    // A thread may still be waiting for standard input.
    runtime.shutdown_background();
    code
}

async fn relay(wanted: &owner::Wanted) -> ExitCode {
    let owner = match owner::find_or_start(wanted).await {
        Ok(owner) => owner,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match pass_on(owner).await {
        End::Client => ExitCode::SUCCESS,
        End::Owner => {
            let log: PathBuf = wanted.log();
            output::note(&format!(
                "longhaul: the server has ended; tasks go on with the next one (its log: {})",
                log.display()
            ));
            ExitCode::FAILURE
        }
    }
}

/// Which side was done first.
enum End {
    Client,
    Owner,
}

async fn pass_on(owner: UnixStream) -> End {
    let (mut said, mut to_owner) = owner.into_split();
    let up = async {
        // Whatever has become of the owner, it may have left answers.
        if io::copy(&mut io::stdin(), &mut to_owner).await.is_err() {
            return std::future::pending().await;
        }
        let _ = to_owner.shutdown().await;
    };
    let down = async {
        let mut out = io::stdout();
        loop {
            match pass_some(&mut said, &mut out).await {
                Passed::Some => {}
                Passed::OwnerDone => return End::Owner,
                Passed::ClientGone => return End::Client,
            }
        }
    };
    tokio::pin!(down);
    tokio::select! {
        () = up => {
            down.await;
            End::Client
        }
        end = &mut down => end,
    }
}

enum Passed {
    Some,
    OwnerDone,
    ClientGone,
}

async fn pass_some(said: &mut (impl io::AsyncRead + Unpin), out: &mut io::Stdout) -> Passed {
    use tokio::io::AsyncReadExt;
    let mut bytes = [0; 16 * 1024];
    let length = match said.read(&mut bytes).await {
        Ok(0) | Err(_) => return Passed::OwnerDone,
        Ok(length) => length,
    };
    let passed = async {
        out.write_all(&bytes[..length]).await?;
        out.flush().await
    };
    match passed.await {
        Ok(()) => Passed::Some,
        Err::<_, io::Error>(_) => Passed::ClientGone,
    }
}
