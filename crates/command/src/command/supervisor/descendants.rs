//! The command and all that descends from it.

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};

/// Signals the command's process group. `leader` must not have been reaped: until then no other group can have its number.
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    // Gone, or not ours to signal (a program that changed its user): nothing more can be done either way.
    let _ = rustix::process::kill_process_group(leader, signal);
}

/// A child that has exited, now reaped; `None` while none has.
///
/// # Errors
/// `ECHILD` when there is no child at all.
pub(super) fn reap_any() -> Result<Option<(Pid, WaitStatus)>, Errno> {
    rustix::process::wait(WaitOptions::NOHANG)
}

/// What a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swept {
    /// No child is left.
    Clean,
    /// Some were reaped; there may be more.
    Progress,
    /// What is left is dying.
    Waiting,
    /// Only processes that belong to another user now are left.
    OutOfReach,
}

/// Kills every child of ours and reaps the dead. Killing a child makes its children ours (we are their subreaper), so repeated
/// sweeps reach all descendants, whatever session or group they moved to. A pid read as a child of ours stays that child's until
/// we reap it, and only we do.
pub(super) fn sweep() -> Swept {
    let mut reaped = false;
    loop {
        match reap_any() {
            Ok(Some(_)) => reaped = true,
            Ok(None) => break,
            Err(Errno::INTR) => {}
            Err(_) => return Swept::Clean,
        }
    }
    let own = own_pid();
    let children = processes()
        .into_iter()
        .filter(|process| process.parent == own)
        .collect::<Vec<_>>();
    let refused = |process: &&Process| {
        process.state != b'Z'
            && Pid::from_raw(process.pid)
                .is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL) == Err(Errno::PERM))
    };
    let out_of_reach = children.iter().filter(refused).count();
    match reaped {
        true => Swept::Progress,
        false if !children.is_empty() && out_of_reach == children.len() => Swept::OutOfReach,
        false => Swept::Waiting,
    }
}

/// Whether anything but its leader is alive in a group.
pub(super) fn group_is_alive(leader: Pid) -> bool {
    let leader = leader.as_raw_nonzero().get();
    processes()
        .iter()
        .any(|process| process.group == leader && process.pid != leader && process.state != b'Z')
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

pub(in super::super) struct Process {
    pub(in super::super) pid: i32,
    pub(in super::super) state: u8,
    pub(in super::super) parent: i32,
    group: i32,
}

/// All processes we can see. Without a proc file system none: then only the process group is known.
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbered = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbered.filter_map(read_stat).collect()
}

/// What the proc file system says of a process.
pub(in super::super) fn read_stat(pid: i32) -> Option<Process> {
    parse_stat(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    // The program's name stands in parentheses and may hold anything, parentheses and spaces included.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some(Process {
        pid,
        state,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_program_name_does_not_confuse_the_fields() {
        let process = parse_stat(7, b"7 (a) R 1 1 (b\xff) S 42 43 44 0 -1").unwrap();
        assert_eq!((process.state, process.parent, process.group), (b'S', 42, 43));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_among_them() {
        assert!(processes().iter().any(|process| process.pid == own_pid()));
    }
}
