//! What the tests of artefacts share: an empty home, and the use of a program that is installed there.

use super::{DistError, VERSION, at, check, make_folder, remove_folder, share::Layout};
use crate::peers::interop::peer;
use harness::{
    clock,
    process::{self, ProcessError},
    server::Server,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// How long a server may take to stop.
pub(super) const STOP: Duration = Duration::from_secs(20);

/// An empty home of a user. All processes that know its path are ended with it.
pub(super) struct Home {
    pub(super) path: PathBuf,
    /// Its `TMPDIR`.
    pub(super) temporary: PathBuf,
}

/// What a program has printed, and its exit code.
pub(super) struct Output {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl Output {
    /// This, of a program that must succeed.
    pub(super) fn expect(self, artefact: &'static str) -> Result<Self, DistError> {
        let what = || format!("ended with {:?}: {}{}", self.code, self.out, self.err);
        check(artefact, self.code == Some(0), what())?;
        Ok(self)
    }
}

impl Home {
    pub(super) fn create(name: &str) -> Result<Self, DistError> {
        let path = env::temp_dir().join(format!("longhaul-dist-{}-{name}", std::process::id()));
        remove_folder(&path)?;
        let temporary = path.join("tmp");
        make_folder(&temporary)?;
        Ok(Self { path, temporary })
    }

    /// A command of this user, with nothing else in its environment.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.path)
            .env("TMPDIR", &self.temporary);
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command.current_dir(&self.path);
        command
    }

    /// Runs a command to its end.
    pub(super) fn output(&self, command: &mut Command) -> Result<Output, DistError> {
        eprintln!("$ {}", process::line(command));
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(at(Path::new(command.get_program())))?;
        Ok(Output {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Removes it, after a test that passed: what a failed one has left can be looked at.
    pub(super) fn remove(self) -> Result<(), DistError> {
        self.end_processes();
        remove_folder(&self.path)
    }

    /// Ends the servers that `wrap` leaves running.
    fn end_processes(&self) {
        let path = self.path.to_string_lossy().into_owned();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
                .and_then(Pid::from_raw);
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if let Some(pid) = pid
                && String::from_utf8_lossy(&words).contains(&path)
                && kill_process(pid, Signal::TERM).is_ok()
            {
                clock::wait_for(STOP, || (!entry.path().exists()).then_some(()));
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.end_processes();
    }
}

/// A program that is installed, as its user calls it.
pub(super) struct InstalledProgram<'a> {
    pub(super) artefact: &'static str,
    pub(super) home: &'a Home,
    /// The program, and the words before its own.
    pub(super) words: Vec<OsString>,
}

impl InstalledProgram<'_> {
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.home.command(&self.words[0]);
        command.args(&self.words[1..]).args(words);
        command
    }

    /// Runs it to its end, which must be a success.
    pub(super) fn prints(&self, words: &[&str]) -> Result<String, DistError> {
        let output = self.home.output(&mut self.command(words))?;
        Ok(output.expect(self.artefact)?.out)
    }

    fn check(&self, holds: bool, what: impl Into<String>) -> Result<(), DistError> {
        check(self.artefact, holds, what)
    }

    pub(super) fn answers_version(&self) -> Result<(), DistError> {
        let said = self.prints(&["--version"])?;
        self.check(said.starts_with(&format!("longhaul {VERSION}")), said)
    }

    /// Manual pages and completions are there, and their readers read them.
    pub(super) fn completes(&self, share: &Path, layout: &Layout) -> Result<(), DistError> {
        for page in ["longhaul.1", "longhaul-serve.1", "longhaul-admin-top.1"] {
            let page = share.join(layout.man).join(page);
            let text = fs::read_to_string(&page).map_err(at(&page))?;
            self.check(text.contains(".TH longhaul"), page.display().to_string())?;
        }
        for (shell, file) in [("bash", layout.bash), ("zsh", layout.zsh), ("fish", layout.fish)] {
            let file = share.join(file);
            let text = fs::read_to_string(&file).map_err(at(&file))?;
            self.check(text.contains("LONGHAUL_COMPLETE"), format!("{shell}: {text}"))?;
        }
        let mut bash = self.home.command("bash");
        bash.args(["-c", ". \"$0\" && complete -p longhaul"])
            .arg(share.join(layout.bash));
        self.home.output(&mut bash)?.expect(self.artefact)?;
        Ok(())
    }

    /// Serves the example, calls a tool of it, and stops it with SIGTERM.
    pub(super) fn serves(&self, configuration: &Path) -> Result<(), DistError> {
        let mut serve = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        serve.arg(configuration).process_group(0);
        let log = self.home.path.join("serve.log");
        let mut server = Group(Server::start(&mut serve, &log)?);
        let address = server.0.ready()?;
        let url = format!("http://{address}/mcp");
        let said = self.prints(&["call", &url, "hash_tree", "path=./"])?;
        self.check(said.contains("quickstart.toml"), said)?;
        let ended = server.0.stop(STOP)?;
        self.check(ended.code() == Some(0), format!("serve ended with {ended}"))?;
        let free = std::net::TcpListener::bind(address);
        self.check(free.is_ok(), format!("something still listens on {address}"))
    }

    /// Wraps a small server, and asks for its tools through the standard streams.
    pub(super) fn wraps(&self) -> Result<(), DistError> {
        let mut tools = self.command(&["tools", "--json", "--"]);
        tools.args(&self.words).args(["wrap", "--", "python3", "-B"]);
        tools
            .arg(peer::source("hosts").join("upstream.py"))
            .arg(self.home.path.join("upstream.log"));
        let said = self.home.output(&mut tools)?.expect(self.artefact)?.out;
        self.check(said.contains("\"quick\"") && said.contains("\"slow\""), said)
    }
}

/// A server in a process group of its own, which is killed with it.
struct Group(Server);

impl Drop for Group {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process_group(self.0.pid(), Signal::KILL);
    }
}

/// A server of the files in a folder, on loopback.
pub(super) struct FileServer {
    child: Child,
    pub(super) url: String,
}

impl FileServer {
    pub(super) fn start(folder: &Path) -> Result<Self, DistError> {
        let mut python = Command::new("python3");
        python
            .args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory"])
            .arg(folder);
        python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let line = process::line(&python);
        let failed = |source| ProcessError::Start { line, source };
        let mut child = python.spawn().map_err(failed)?;
        let mut said = String::new();
        if let Some(out) = child.stdout.as_mut() {
            BufReader::new(out).read_line(&mut said).map_err(at(folder))?;
        }
        let url = said.split_once('(').and_then(|(_, rest)| rest.split_once("/)"));
        let url = url.map(|(url, _)| url.to_owned()).unwrap_or_default();
        Ok(Self { child, url })
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
