//! Signals and their names.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// A signal that asks a command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM
    #[default]
    Term,
    /// SIGINT, as Ctrl-C sends it.
    Int,
    /// SIGHUP
    Hup,
    /// SIGQUIT
    Quit,
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
}

impl StopSignal {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Term, Self::Int, Self::Hup, Self::Quit, Self::Usr1, Self::Usr2];

    /// The one of this name, with or without `SIG`.
    pub fn named(text: &str) -> Option<Self> {
        let wanted = text.strip_prefix("SIG").unwrap_or(text);
        Self::ALL.into_iter().find(|signal| signal.name() == wanted)
    }

    /// Its name without `SIG`.
    pub fn name(self) -> String {
        name(self.to_signal().as_raw())
    }

    pub(crate) fn to_signal(self) -> Signal {
        match self {
            Self::Term => Signal::TERM,
            Self::Int => Signal::INT,
            Self::Hup => Signal::HUP,
            Self::Quit => Signal::QUIT,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
        }
    }
}

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
