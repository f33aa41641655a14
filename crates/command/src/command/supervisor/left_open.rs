//! Outputs that a process which the command has left behind still has open.

use super::boot::ignore;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
};
use std::os::fd::OwnedFd;

/// Reads them to their ends, and drops what is read. A daemon that writes to an output which nobody reads is killed by SIGPIPE, or stops when the pipe is full.
pub(super) fn discard(mut outputs: Vec<OwnedFd>) {
    if outputs.is_empty() {
        return;
    }
    // What is orphaned becomes a child of this process, which waits for none of them any more.
    ignore(Signal::CHILD);
    let mut chunk = vec![0; 64 << 10];
    while !outputs.is_empty() {
        let mut polled: Vec<_> = outputs
            .iter()
            .map(|output| PollFd::new(output, PollFlags::IN))
            .collect();
        let ready = match poll(&mut polled, None) {
            Ok(_) => polled.iter().map(|output| !output.revents().is_empty()).collect(),
            Err(Errno::INTR) => vec![false; outputs.len()],
            Err(_) => return,
        };
        let mut ready = ready.into_iter();
        outputs.retain(|output| {
            let is_ready: bool = ready.next().unwrap_or_default();
            !is_ready
                || matches!(
                    rustix::io::read(output, &mut chunk),
                    Ok(1..) | Err(Errno::AGAIN | Errno::INTR)
                )
        });
    }
}
