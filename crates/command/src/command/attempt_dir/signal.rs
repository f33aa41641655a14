//! The names of signals.

/// As in `kill -TERM`; of those without a name everywhere, the number.
pub(crate) fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "ABRT",
        libc::SIGALRM => "ALRM",
        libc::SIGBUS => "BUS",
        libc::SIGFPE => "FPE",
        libc::SIGHUP => "HUP",
        libc::SIGILL => "ILL",
        libc::SIGINT => "INT",
        libc::SIGKILL => "KILL",
        libc::SIGPIPE => "PIPE",
        libc::SIGQUIT => "QUIT",
        libc::SIGSEGV => "SEGV",
        libc::SIGSYS => "SYS",
        libc::SIGTERM => "TERM",
        libc::SIGTRAP => "TRAP",
        libc::SIGUSR1 => "USR1",
        libc::SIGUSR2 => "USR2",
        libc::SIGXCPU => "XCPU",
        libc::SIGXFSZ => "XFSZ",
        other => return other.to_string(),
    };
    name.to_owned()
}
