//! A server that is a child process, with messages on its standard input and output.
#![expect(clippy::disallowed_methods, reason = "real pipes and processes are not simulated")]

use crate::transport::{Outgoing, Reply, StreamTransport, Transport, stream::open_requests::StreamEnd};
use crate::{RequestError, address::masked_address};
use http::HeaderMap;
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStderr, Command},
    sync::Mutex as AsyncMutex,
    time::timeout,
};

/// How long the child may take to exit after its input was closed, and again after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long an exit status is waited for once the child has closed its output.
const STATUS_GRACE: Duration = Duration::from_millis(500);
/// The bytes of the child's standard error that are kept.
const KEPT_STDERR: usize = 8 * 1024;
/// The bytes of it that an error message shows.
const SHOWN_STDERR: usize = 300;

/// How a child process is started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildOptions {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub env: Vec<(String, String)>,
    /// Its working directory; that of this process if absent.
    pub cwd: Option<PathBuf>,
    /// Whether its standard error is also written to that of this process. The last 8 KiB are kept in any case.
    pub show_stderr: bool,
    /// A program that ends the child when this process is killed. Default: none, so then the child ends only if it notices that its input is closed.
    pub supervisor: Option<ChildSupervisor>,
    /// The largest message, in bytes. Default: 64 MiB.
    pub max_message: usize,
}

impl ChildOptions {
    /// A program with these arguments.
    pub fn new(program: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            show_stderr: false,
            supervisor: None,
            max_message: 64 << 20,
        }
    }
}

/// A program that starts a child, with what it is given behind these arguments: the number of a descriptor, the child's program and its arguments. It leads the
/// child's process group, and ends the group when the descriptor reads to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildSupervisor {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub args: Vec<String>,
}

/// A [`Transport`] to a child process, which is started with the first message, and again with the next message after it has exited. On Unix the
/// child has a process group of its own.
///
/// Dropping it kills the child; [`Connection::close`](crate::Connection::close) closes its input first, waits, sends SIGTERM, and then SIGKILL.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_client::{ChildOptions, ChildProcess, Connection, Options};
/// let server = ChildProcess::new(ChildOptions::new("npx", ["-y", "@modelcontextprotocol/server-everything"]));
/// let connection = Connection::over(server, Options::named("example", "1.0"));
/// let tools = connection.list_tools().await?;
/// connection.close().await;
/// # Ok(()) }
/// ```
pub struct ChildProcess {
    options: ChildOptions,
    address: String,
    running: AsyncMutex<Option<RunningChild>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

struct RunningChild {
    transport: Arc<StreamTransport>,
    child: Arc<AsyncMutex<Child>>,
    group: Option<u32>,
    /// Its supervisor sees when this end is closed.
    _alive: Option<PipeWriter>,
}

impl ChildProcess {
    /// A child that is started with the first message.
    pub fn new(options: ChildOptions) -> Self {
        let words = std::iter::once(&options.program).chain(&options.args);
        Self {
            address: words.map(String::as_str).collect::<Vec<_>>().join(" "),
            options,
            running: AsyncMutex::new(None),
            stderr: Arc::default(),
        }
    }

    /// The end of what the child has written to its standard error, up to 8 KiB.
    pub fn stderr(&self) -> String {
        let kept: Vec<u8> = self.stderr.lock().iter().copied().collect();
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// The transport to the running child. Starts the child if it does not run.
    async fn transport(&self) -> Result<Arc<StreamTransport>, RequestError> {
        let mut running = self.running.lock().await;
        if let Some(running) = running.as_ref().filter(|running| !running.transport.has_ended()) {
            return Ok(Arc::clone(&running.transport));
        }
        if let Some(ended) = running.take() {
            ended.stop().await;
        }
        let started = self.start().map_err(|error| RequestError::NotStarted {
            command: masked_address(&self.address),
            reason: match self.options.cwd.as_deref().filter(|folder| !folder.is_dir()) {
                Some(folder) => format!("its folder {} does not exist", folder.display()),
                None => error.to_string(),
            },
        })?;
        Ok(Arc::clone(&running.insert(started).transport))
    }

    /// The transport to the child, if it runs.
    async fn running(&self) -> Result<Arc<StreamTransport>, RequestError> {
        let running = self.running.lock().await;
        match running.as_ref().filter(|running| !running.transport.has_ended()) {
            Some(running) => Ok(Arc::clone(&running.transport)),
            None => Err(RequestError::Unreachable {
                address: masked_address(&self.address),
                reason: "it has ended".to_owned(),
                stderr: None,
                connected: true,
            }),
        }
    }

    fn start(&self) -> std::io::Result<RunningChild> {
        let (mut command, alive) = self.command()?;
        command
            .envs(self.options.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &self.options.cwd {
            command.current_dir(cwd);
        }
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let group = child.id();
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("its pipes are missing"));
        };
        self.stderr.lock().clear();
        let reading = tokio::spawn(keep_stderr(stderr, Arc::clone(&self.stderr), self.options.show_stderr));
        let child = Arc::new(AsyncMutex::new(child));
        let ended = {
            let (child, kept) = (Arc::clone(&child), Arc::clone(&self.stderr));
            async move {
                let status = timeout(STATUS_GRACE, async { child.lock().await.wait().await }).await;
                let _ = timeout(STATUS_GRACE, reading).await;
                let reason = match status {
                    Ok(Ok(status)) => format!("it ended with {status}"),
                    _ => "it closed its output".to_owned(),
                };
                let kept: Vec<u8> = kept.lock().iter().copied().collect();
                StreamEnd {
                    reason,
                    stderr: last_words(&String::from_utf8_lossy(&kept)),
                }
            }
        };
        let transport = StreamTransport::with_end(self.address.clone(), stdout, stdin, self.options.max_message, ended);
        Ok(RunningChild {
            transport: Arc::new(transport),
            child,
            group,
            _alive: alive.map(|(_, writer)| writer),
        })
    }

    /// The command that starts the child, and the pipe by which its supervisor sees that this process is gone.
    fn command(&self) -> io::Result<(Command, Option<(PipeReader, PipeWriter)>)> {
        let ChildOptions { program, args, .. } = &self.options;
        let Some(supervisor) = &self.options.supervisor else {
            let mut command = Command::new(program);
            command.args(args);
            return Ok((command, None));
        };
        // A supervisor could only tell in the words of an exit.
        if !self.is_there() {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error()));
        }
        let (reader, writer) = io::pipe()?;
        // Children that are started at the same moment get this end, too, and nothing by it.
        rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty())?;
        let mut command = Command::new(&supervisor.program);
        command
            .args(&supervisor.args)
            .arg(reader.as_raw_fd().to_string())
            .arg(program)
            .args(args);
        Ok((command, Some((reader, writer))))
    }

    /// Whether there is a file of the program's name where it is looked for.
    fn is_there(&self) -> bool {
        let program = Path::new(&self.options.program);
        let folder = self.options.cwd.clone().unwrap_or_default();
        if program.components().count() > 1 || self.options.program.starts_with('.') {
            return folder.join(program).exists();
        }
        let given = self.options.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = given.map(|(_, path)| path.into()).or_else(|| std::env::var_os("PATH"));
        path.is_none_or(|path| std::env::split_paths(&path).any(|place| folder.join(place).join(program).exists()))
    }
}

/// The last that a child wrote to its standard error, in one line.
fn last_words(stderr: &str) -> Option<String> {
    let stderr = stderr.trim();
    let shown = &stderr[stderr.ceil_char_boundary(stderr.len().saturating_sub(SHOWN_STDERR))..];
    Some(shown.replace(char::is_control, " ")).filter(|shown| !shown.is_empty())
}

impl RunningChild {
    /// Stops the child: closes its input, then SIGTERM, then SIGKILL, to its process group.
    async fn stop(self) {
        let Self {
            transport,
            child,
            group,
            _alive,
        } = self;
        transport.close(HeaderMap::new()).await;
        // Requests that are still open hold the transport, and so the child's input, for a moment longer.
        drop(transport);
        let mut child = child.lock().await;
        for signal in [None, Some(Signal::Terminate), Some(Signal::Kill)] {
            if let Some(signal) = signal {
                signal_group(group, signal);
            }
            if timeout(EXIT_GRACE, child.wait()).await.is_ok() {
                break;
            }
        }
        // What the child itself started.
        signal_group(group, Signal::Kill);
    }
}

enum Signal {
    Terminate,
    Kill,
}

#[cfg(unix)]
fn signal_group(group: Option<u32>, signal: Signal) {
    use rustix::process::{Pid, Signal as Unix, kill_process_group};
    let signal = match signal {
        Signal::Terminate => Unix::TERM,
        Signal::Kill => Unix::KILL,
    };
    if let Some(group) = group.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(not(unix))]
fn signal_group(_: Option<u32>, _: Signal) {}

async fn keep_stderr(mut from: ChildStderr, kept: Arc<Mutex<VecDeque<u8>>>, show: bool) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if show {
            crate::transport::stderr::write_or_drop(&buffer[..read]);
        }
        let mut kept = kept.lock();
        kept.extend(&buffer[..read]);
        let excess = kept.len().saturating_sub(KEPT_STDERR);
        kept.drain(..excess);
    }
}

impl Transport for ChildProcess {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            let transport = match message.id {
                Some(_) => self.transport().await?,
                // It belongs to what the running child has sent or received.
                None => self.running().await?,
            };
            transport.send(message).await
        })
    }

    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        Box::pin(async move { self.transport().await?.listen(headers).await })
    }

    fn close(&self, _: HeaderMap) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(running) = self.running.lock().await.take() {
                running.stop().await;
            }
        })
    }

    fn is_session(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        // While it is locked, a request is starting a child or stopping it.
        let running = self.running.try_lock();
        running.is_ok_and(|running| running.as_ref().is_some_and(|running| running.transport.has_ended()))
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if let Some(running) = self.running.get_mut() {
            signal_group(running.group, Signal::Kill);
        }
    }
}
