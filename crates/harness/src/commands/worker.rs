//! The command of every tool. It writes to the journal when it starts and ends, and if another attempt is running.

use super::{journal::JournalWriter, kind::CommandKind, output};
use crate::{
    clock,
    server::supervisors::{CommandAttempt, attempt_of},
};
use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// `cargo xtask worker`
#[derive(Debug, clap::Args)]
pub struct WorkerArgs {
    /// The folder of the journal and the locks
    #[arg(long)]
    side: PathBuf,
    kind: CommandKind,
    token: String,
    millis: u64,
    bytes: u64,
}

/// The exit status of a failing command.
const FAILURE: u8 = 7;
/// The exit status of a command that has no supervisor and has done nothing.
const ORPHAN: u8 = 99;
const CHATTY_BYTES: usize = 4 << 20;

/// Runs the command.
pub fn run(args: &WorkerArgs) -> ExitCode {
    // A command is a child of its supervisor, whose command line names the attempt.
    let Some(attempt) = attempt_of(std::os::unix::process::parent_id()) else {
        return ExitCode::from(ORPHAN);
    };
    match work(args, &attempt) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(ORPHAN)
        }
    }
}

fn work(args: &WorkerArgs, attempt: &CommandAttempt) -> io::Result<ExitCode> {
    let journal = JournalWriter::open(&args.side.join("journal"))?;
    // Held until this process ends in any way, so that another attempt of the task finds it locked.
    let lock = File::create(args.side.join("locks").join(&attempt.task))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => journal.overlaps(attempt)?,
        Err(TryLockError::Error(error)) => return Err(error),
    }
    journal.starts(attempt, &args.token)?;
    if args.kind == CommandKind::Chatty {
        chatter()?;
    }
    clock::pause(Duration::from_millis(args.millis));
    journal.ends(attempt)?;
    if args.kind == CommandKind::Printing {
        return print(args, attempt);
    }
    let identity = output::identity(attempt, &args.token);
    if args.kind == CommandKind::Failing {
        eprintln!("{identity}");
        return Ok(ExitCode::from(FAILURE));
    }
    println!("{identity}");
    Ok(ExitCode::SUCCESS)
}

/// Prints in pieces of many sizes, small ones first, so that the last ones are still in the pipe when this process ends.
fn print(args: &WorkerArgs, attempt: &CommandAttempt) -> io::Result<ExitCode> {
    let whole = output::whole(attempt, &args.token, args.bytes);
    let mut rest = whole.as_slice();
    let mut size = 1;
    // Not the standard library's stdout, which flushes at each line.
    let mut stdout = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.len().min(size));
        stdout.write_all(piece)?;
        (rest, size) = (later, (size * 3).min(1 << 20));
    }
    Ok(ExitCode::SUCCESS)
}

fn chatter() -> io::Result<()> {
    let line = [b"0123456789abcdef".as_slice(); 63].concat();
    let mut stdout = io::stdout().lock();
    for _ in 0..CHATTY_BYTES / line.len() {
        stdout.write_all(&line)?;
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}
