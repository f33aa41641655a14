//! A private PostgreSQL server, which a run may kill.

use crate::{
    clock,
    network::namespace::{self, NetworkHost},
    process,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// How long it may take until the server admits us. After a crash it may wait for what is left of the processes before, and read its log.
const START: Duration = Duration::from_secs(60);
/// PostgreSQL refuses to run as root: this is `nobody`.
const NOBODY: u32 = 65_534;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("PostgreSQL cannot be started: {0}")]
    Io(#[from] io::Error),
    #[error(
        "PostgreSQL, 14 or later, is needed to test the store on it; install it, for example with `apt-get install postgresql`"
    )]
    Missing,
    #[error("`{program}` of PostgreSQL failed: {said}")]
    Failed { program: &'static str, said: String },
    #[error("PostgreSQL did not start within {} s; its log is {log}", START.as_secs())]
    Silent { log: PathBuf },
}

/// A server, with its data and its socket in a folder of its own. Dropping it kills it, and removes the folder.
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    /// Where its processes run, and where else it listens.
    host: Option<NetworkHost>,
    settings: &'static [&'static str],
    postmaster: Option<Child>,
}

impl Postgres {
    /// Makes a database and starts a server for it, with these settings (`name=value`).
    pub fn create(settings: &'static [&'static str]) -> Result<Self, PostgresError> {
        Self::create_on(None, settings)
    }

    /// As [`create`](Self::create), in a network of its own if there is one.
    pub fn create_on(host: Option<NetworkHost>, settings: &'static [&'static str]) -> Result<Self, PostgresError> {
        // Short, because the name of a socket has 107 characters at most, and where `nobody` can come.
        let folder = std::env::temp_dir().join(format!("lh-{}-{:x}", std::process::id(), fastrand::u32(..)));
        fs::create_dir(&folder)?;
        let mut postgres = Self {
            folder,
            port: free_port()?,
            host,
            settings,
            postmaster: None,
        };
        if is_root() {
            chown(&postgres.folder, Some(NOBODY), Some(NOBODY))?;
        }
        let data = postgres.data();
        let mut initdb = postgres.program("initdb")?;
        initdb.args([
            "--username=longhaul",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        initdb.arg("--pgdata").arg(data);
        output_of("initdb", &mut initdb)?;
        if postgres.host.is_some() {
            let mut admitted = File::options().append(true).open(postgres.data().join("pg_hba.conf"))?;
            writeln!(admitted, "host all all samenet trust")?;
        }
        postgres.start()?;
        Ok(postgres)
    }

    /// Where it listens: in its own network, if it has one.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.listens_at(), self.port))
    }

    fn listens_at(&self) -> Ipv4Addr {
        self.host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.address)
    }

    /// The URL of its database, reached at this address.
    pub fn url_at(address: SocketAddr) -> String {
        // Another machine's is reached with TLS by default, and this one has none.
        format!("postgres://longhaul@{address}/postgres?sslmode=disable")
    }

    /// What a statement returns: a line for each row, with `|` between columns.
    pub fn query(&self, sql: &str) -> Result<String, PostgresError> {
        let mut psql = self.program("psql")?;
        psql.args([
            "-X",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "longhaul",
            "-d",
            "postgres",
        ]);
        psql.arg("-h")
            .arg(&self.folder)
            .args(["-p", &self.port.to_string(), "-c", sql]);
        output_of("psql", &mut psql)
    }

    /// Writes all that is in the database to a file, and its log to another one beside it.
    pub fn dump(&self, file: &Path) -> Result<(), PostgresError> {
        fs::copy(self.log(), file.with_extension("log"))?;
        let mut dump = self.program("pg_dump")?;
        dump.args(["-U", "longhaul", "-d", "postgres", "-p", &self.port.to_string()]);
        dump.arg("-h").arg(&self.folder);
        Ok(fs::write(file, output_of("pg_dump", &mut dump)?)?)
    }

    /// A program of PostgreSQL, as a user that it accepts.
    pub fn program(&self, name: &'static str) -> Result<Command, PostgresError> {
        let mut command = Command::new(program(name)?);
        command
            .current_dir(&self.folder)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ok(command)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The ids of its processes.
    pub fn processes(&self) -> Vec<u32> {
        let processes = self.postmaster.iter().flat_map(|postmaster| processes(postmaster.id()));
        processes
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
            .collect()
    }

    /// Kills all of its processes at once.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else {
            return Ok(());
        };
        for process in processes(postmaster.id()) {
            // It may have ended since.
            let _ = kill_process(process, Signal::KILL);
        }
        postmaster.wait().map(drop)
    }

    /// Starts it, and returns once it admits us.
    pub fn start(&mut self) -> Result<(), PostgresError> {
        let log = self.log();
        let started = clock::wait_for(START, || self.try_start(&log).transpose());
        started.unwrap_or(Err(PostgresError::Silent { log }))
    }

    /// Starts it unless it runs; whether it admits us.
    fn try_start(&mut self, log: &Path) -> Result<Option<()>, PostgresError> {
        let runs = match &mut self.postmaster {
            Some(postmaster) => postmaster.try_wait()?.is_none(),
            None => false,
        };
        if !runs {
            let file = File::options().create(true).append(true).open(log)?;
            let mut server = self.program("postgres")?;
            server.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
            server.args([
                "-p",
                &self.port.to_string(),
                "-c",
                &format!("listen_addresses={}", self.listens_at()),
                "-c",
                "max_connections=200",
            ]);
            for setting in self.settings {
                server.args(["-c", setting]);
            }
            server.stdout(file.try_clone()?).stderr(file);
            let namespace = self.host.as_ref().map(|host| &host.namespace);
            self.postmaster = Some(namespace::within(namespace, || server.spawn())??);
        }
        let answers = self.query("SELECT 1").is_ok();
        if !answers {
            clock::pause(Duration::from_millis(50));
        }
        Ok(answers.then_some(()))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program of PostgreSQL: of the latest version where Debian has them, which is in no folder of `PATH`, or the one in `PATH`.
pub fn program(name: &str) -> Result<PathBuf, PostgresError> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse().ok());
    let mut of_debian: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((version(&entry)?, entry.path().join("bin").join(name))))
        .filter(|(_, program)| program.exists())
        .collect();
    of_debian.sort();
    if let Some((_, program)) = of_debian.pop() {
        return Ok(program);
    }
    match process::answers(Command::new(name).arg("--version")) {
        true => Ok(name.into()),
        false => Err(PostgresError::Missing),
    }
}

/// A process and its children.
fn processes(pid: u32) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let pids = std::iter::once(pid.cast_signed()).chain(children);
    pids.filter_map(Pid::from_raw).collect()
}

fn output_of(program: &'static str, command: &mut Command) -> Result<String, PostgresError> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(PostgresError::Failed {
            program,
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
