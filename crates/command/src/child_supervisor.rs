//! The process between a server and a child that it speaks with: the child, and all in its process group, ends with the server, also if that is killed.
//!
//! A supervisor is the host program itself, started with a private first argument. It leads the process group of the child, and holds one end of a pipe whose other
//! end the server has open until it is gone. What a child puts into another group or session stays: it is meant to outlive the child.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The first argument that makes a host program a supervisor.
const WORD: &str = "__longhaul-child-supervisor";
/// The variable by which a later server finds what an earlier one has left: whose child it is, and its group.
pub const MARK: &str = "LONGHAUL_CHILD_OF";
/// How long ending what is left may take.
const LONGEST_END: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts supervisors for the children of one server.
#[derive(Debug, Clone)]
pub struct ChildSupervisors {
    /// The host program.
    pub program: PathBuf,
    owner: String,
}

impl ChildSupervisors {
    /// For the server that owns this directory.
    ///
    /// # Errors
    /// The system's, for this program's path and the directory.
    pub fn of(directory: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = directory.metadata()?;
        Ok(Self {
            program: std::env::current_exe()?,
            owner: format!("{:x}-{:x}", found.dev(), found.ino()),
        })
    }

    /// The first arguments of a supervisor. Behind them stand the number of the pipe's descriptor, and the child's command.
    pub fn arguments(&self) -> Vec<String> {
        vec![WORD.to_owned(), self.owner.clone()]
    }

    /// Ends what an earlier server with this directory has left, and waits until it is gone. Call it while nobody else can own the directory, before any child is
    /// started: a call that is made again must not run beside its first run. Returns how many processes there were.
    pub fn end_left(&self) -> usize {
        system::end_left(&self.owner)
    }
}

/// Turns this process into the supervisor of one child if that is what it was started for, and then never returns. Call it first in `main`.
pub fn become_child_supervisor_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(WORD)) {
        return;
    }
    let owner = arguments.next().unwrap_or_default();
    let pipe = arguments.next().and_then(|pipe| pipe.to_str()?.parse().ok());
    let (Some(pipe), Some(program)) = (pipe, arguments.next()) else {
        std::process::exit(2);
    };
    let arguments: Vec<OsString> = arguments.collect();
    std::process::exit(system::supervise(&owner, pipe, &program, &arguments));
}

mod system {
    use super::{LONGEST_END, LOOK_EVERY, MARK};
    use rustix::process::{Pid, Signal};
    use std::{
        ffi::{OsStr, OsString},
        fs::File,
        io::{self, Read as _},
        os::{
            fd::{FromRawFd as _, RawFd},
            unix::process::{CommandExt as _, ExitStatusExt as _},
        },
        process::Command,
        thread,
    };

    /// Signals that are sent to the group and are meant for the child.
    const FOR_THE_CHILD: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

    fn set_disposition(signal: Signal, disposition: libc::sighandler_t) {
        #[expect(
            unsafe_code,
            reason = "SIG_IGN and SIG_DFL install no handler, and signal(2) is async-signal-safe"
        )]
        unsafe {
            libc::signal(signal.as_raw(), disposition);
        }
    }

    pub(super) fn supervise(owner: &OsStr, pipe: RawFd, program: &OsStr, arguments: &[OsString]) -> i32 {
        let own = rustix::process::getpid();
        for signal in FOR_THE_CHILD {
            set_disposition(signal, libc::SIG_IGN);
        }
        #[expect(
            unsafe_code,
            reason = "the server has left this descriptor open for this process alone"
        )]
        let mut pipe = unsafe { File::from_raw_fd(pipe) };
        let _ = rustix::io::fcntl_setfd(&pipe, rustix::io::FdFlags::CLOEXEC);
        let mut mark = owner.to_owned();
        mark.push(format!(":{}", own.as_raw_nonzero()));
        let mut command = Command::new(program);
        command.args(arguments).env(MARK, mark);
        let prepare = move || {
            for signal in FOR_THE_CHILD {
                set_disposition(signal, libc::SIG_DFL);
            }
            die_with(own)
        };
        #[expect(
            unsafe_code,
            reason = "between fork and exec: only system calls that are async-signal-safe, no allocation"
        )]
        unsafe {
            command.pre_exec(prepare);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("cannot start {}: {error}", program.to_string_lossy());
                return 127;
            }
        };
        // The child's end of its pipes is its own: the server sees when it closes them.
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        let watching = thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            // Nothing is written to it.
            let _ = pipe.read(&mut [0]);
            let _ = rustix::process::kill_process_group(own, Signal::KILL);
        });
        if watching.is_err() {
            let _ = rustix::process::kill_process_group(own, Signal::KILL);
        }
        let status = child.wait();
        // A script may have left the server itself in the group.
        while group_is_alive(own) {
            #[expect(clippy::disallowed_methods, reason = "the group tells nobody that it is empty")]
            thread::sleep(LOOK_EVERY);
        }
        match status {
            Ok(status) => match status.signal().and_then(Signal::from_named_raw) {
                Some(signal) => {
                    set_disposition(signal, libc::SIG_DFL);
                    let _ = rustix::process::kill_process(own, signal);
                    1
                }
                None => status.code().unwrap_or(1),
            },
            Err(_) => 1,
        }
    }

    /// Makes this process, which becomes the child, die when the supervisor does.
    #[cfg(target_os = "linux")]
    fn die_with(supervisor: Pid) -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before we asked.
        if rustix::process::getppid() != Some(supervisor) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn die_with(_: Pid) -> io::Result<()> {
        Ok(())
    }

    /// The processes that this one can see. None without a proc file system.
    fn processes() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Its state and its group.
    fn state(process: Pid) -> Option<(u8, Pid)> {
        let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
        // The program's name stands in parentheses and may hold anything.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        Some((state, Pid::from_raw(fields.nth(1)?.parse().ok()?)?))
    }

    fn group_is_alive(leader: Pid) -> bool {
        processes().any(|process| {
            process != leader && state(process).is_some_and(|(state, group)| group == leader && state != b'Z')
        })
    }

    /// The group that a process was started in by this owner, if it is still in it.
    fn left_group(process: Pid, owner: &str) -> Option<Pid> {
        let variables = std::fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
        let mut marks = variables
            .split(|byte| *byte == 0)
            .filter_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
        let (of, group) = std::str::from_utf8(marks.next()?).ok()?.rsplit_once(':')?;
        let group = Pid::from_raw(group.parse().ok()?)?;
        let (state, present) = state(process)?;
        (of == owner && present == group && state != b'Z').then_some(group)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn end_left(owner: &str) -> usize {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
        let (mut ended, mut waited) = (std::collections::BTreeSet::new(), std::time::Duration::ZERO);
        loop {
            let mut is_left = false;
            for process in processes() {
                // Before it is looked at, so that the number cannot be another's when it is ended.
                let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else {
                    continue;
                };
                if left_group(process, owner).is_some() {
                    is_left = true;
                    ended.insert(process.as_raw_nonzero());
                    let _ = pidfd_send_signal(&handle, Signal::KILL);
                }
            }
            if !is_left || waited >= LONGEST_END {
                return ended.len();
            }
            #[expect(clippy::disallowed_methods, reason = "processes tell nobody that they have ended")]
            thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn end_left(_: &str) -> usize {
        let _ = (LONGEST_END, left_group as fn(Pid, &str) -> Option<Pid>);
        0
    }
}
