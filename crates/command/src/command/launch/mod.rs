//! Starting supervisors, whatever has become of our executable's path meanwhile, and the processes that they are.

pub(super) mod process_context;
pub(crate) mod shared_lifetime;
pub(crate) mod supervisor_process;

use super::{
    attempt_dir::{AttemptDir, secret_input::SecretInput},
    supervisor::{READY, SUPERVISOR_WORD},
};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

/// A program that calls [`become_supervisor_if_asked`](super::become_supervisor_if_asked), normally this one.
#[derive(Debug, Clone)]
pub struct Launcher {
    path: PathBuf,
    /// Keeps the executable open, also when its file is replaced.
    _opened: Option<Arc<File>>,
}

impl Launcher {
    /// This process's own executable. Call it at boot: on Linux it is held open, and a deploy that replaces the file does not
    /// change which program our supervisors are.
    ///
    /// # Errors
    /// When the executable cannot be found or opened.
    pub fn this_program() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            Self::program(Path::new("/proc/self/exe"))
        }
        #[cfg(not(target_os = "linux"))]
        {
            Ok(Self {
                path: std::env::current_exe()?,
                _opened: None,
            })
        }
    }

    /// Another program, for tests and for hosts that ship a supervisor apart.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn program(path: &Path) -> io::Result<Self> {
        let opened = File::open(path)?;
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            // Resolved in the new process, where the descriptor is still open: it closes as the program begins.
            let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            Ok(Self {
                path,
                _opened: Some(Arc::new(opened)),
            })
        }
        #[cfg(not(target_os = "linux"))]
        {
            drop(opened);
            Ok(Self {
                path: path.to_owned(),
                _opened: None,
            })
        }
    }

    /// Starts a supervisor on a prepared directory and waits until it holds the attempt. When this returns `Ok` the command is
    /// recorded as started. On an error [`judge`](super::judge) knows what became of it.
    ///
    /// The future may be dropped: the supervisor keeps running.
    ///
    /// # Errors
    /// When no process can be started, or the supervisor refuses; its reason is the error's text.
    pub async fn launch(&self, dir: &AttemptDir) -> io::Result<Supervisor> {
        self.launch_with(dir, &SecretInput::default()).await
    }

    /// The same with the secrets of the attempt, which go to the supervisor alone. One that does not get all of them starts nothing.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub async fn launch_with(&self, dir: &AttemptDir, secret: &SecretInput) -> io::Result<Supervisor> {
        let stdin = match secret.is_empty() {
            true => Stdio::null(),
            false => Stdio::piped(),
        };
        let mut process = Command::new(&self.path)
            .arg0("longhaul-supervisor")
            .arg(SUPERVISOR_WORD)
            .arg(dir.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut pipe) = process.stdin.take() {
            // What goes wrong the supervisor says.
            let _ = pipe.write_all(&secret.to_bytes()?).await;
        }
        let mut answer = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut answer).await?;
        }
        match answer.trim_end() {
            READY => Ok(Supervisor { process }),
            "" => Err(io::Error::other("the supervisor ended before it was ready")),
            refusal => Err(io::Error::other(refusal.to_owned())),
        }
    }
}

/// A supervisor this process started. Dropping it leaves the supervisor alone; as long as this process lives it is reaped.
#[derive(Debug)]
pub struct Supervisor {
    process: Child,
}

impl Supervisor {
    /// Its process id, as long as it has not been reaped.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }
}
