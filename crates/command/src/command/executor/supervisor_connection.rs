//! The server's end of the connection to a supervisor.

use crate::command::launch::supervisor_process::SupervisorProcess;
use longhaul_core::StopReason;
use std::io;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

/// Asks a supervisor to end its command, and waits until it closes the connection.
pub(super) async fn end(mut stream: UnixStream) {
    let supervisor = SupervisorProcess::behind(&stream);
    if stream.write_all(request(StopReason::Cancel)).await.is_ok() {
        supervisor.resume();
        let mut events = BufReader::new(stream).lines();
        while let Ok(Some(_)) = events.next_line().await {}
    }
}

pub(super) fn into_tokio(stream: std::os::unix::net::UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The status of a task whose supervisor does not act on a stop.
pub(super) fn unanswered(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancel => {
            "cancel requested, but the command's supervisor does not react: it is suspended, frozen or waits for its disk; the command may still run"
        }
        StopReason::Deadline => {
            "deadline passed, but the command's supervisor does not react: it is suspended, frozen or waits for its disk; the command may still run"
        }
    }
}

pub(super) fn request(reason: StopReason) -> &'static [u8] {
    match reason {
        StopReason::Cancel => b"cancel\n",
        StopReason::Deadline => b"deadline\n",
    }
}
