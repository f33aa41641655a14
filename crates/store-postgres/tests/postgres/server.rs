//! Servers for tests: one that is there, or a private one in a folder of its own.

use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use std::{
    env, fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A server, and how to reach it.
pub(crate) struct Server {
    pub(crate) address: String,
    /// Ends with it.
    private: Option<Cluster>,
}

impl Server {
    /// The server that a test may use, and must not harm.
    pub(crate) async fn find() -> Self {
        if let Ok(address) = env::var("LONGHAUL_TEST_POSTGRES") {
            return Self { address, private: None };
        }
        for user in ["postgres".to_owned(), env::var("USER").unwrap_or_default()] {
            let address = format!("host=127.0.0.1 port=5432 user='{user}' dbname=postgres connect_timeout=2");
            if admits(&address).await {
                return Self { address, private: None };
            }
        }
        Self::private().await
    }

    /// A server that a test may kill.
    pub(crate) async fn private() -> Self {
        Self::private_with(&[], "").await
    }

    /// The same, with settings of its own and further lines of `pg_hba.conf`. It listens on a port of 127.0.0.1, too.
    pub(crate) async fn private_with(settings: &[(&str, &str)], access: &str) -> Self {
        let cluster = Cluster::create(settings, access).await;
        Self {
            address: cluster.address(),
            private: Some(cluster),
        }
    }

    /// Its port, on 127.0.0.1 and of its socket.
    pub(crate) fn port(&self) -> u16 {
        self.private.as_ref().unwrap().port
    }

    /// Sends a signal to all of its processes.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self.private.as_ref().unwrap().signal(signal);
    }

    /// Ends it, and starts it as a standby of nobody.
    pub(crate) async fn demote(&mut self) {
        let cluster = self.private.as_mut().unwrap();
        cluster.kill();
        fs::write(cluster.data().join("standby.signal"), "").unwrap();
        cluster.start_as(|address| async move { answers(&address).await }).await;
    }

    /// Makes a standby of it, and promotes that: its write-ahead log goes on on a new timeline.
    pub(crate) async fn promote(&mut self) {
        self.demote().await;
        let cluster = self.private.as_ref().unwrap();
        let (client, connection) = tokio_postgres::connect(&cluster.address(), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        assert!(
            client
                .query_one("SELECT pg_promote()", &[])
                .await
                .unwrap()
                .get::<_, bool>(0)
        );
        connection.abort();
    }

    /// Kills all of its processes at once, and starts it again.
    pub(crate) async fn kill_and_restart(&mut self) {
        let cluster = self.private.as_mut().unwrap();
        cluster.kill();
        cluster.start().await;
    }
}

/// Whether it can be connected to.
async fn answers(address: &str) -> bool {
    match tokio_postgres::connect(address, NoTls).await {
        Ok((client, connection)) => {
            let connection = tokio::spawn(connection);
            let answer = client.batch_execute("SELECT 1").await;
            connection.abort();
            answer.is_ok()
        }
        Err(_) => false,
    }
}

/// Whether we may create a schema there.
async fn admits(address: &str) -> bool {
    let Ok((client, connection)) = tokio_postgres::connect(address, NoTls).await else {
        return false;
    };
    let connection = tokio::spawn(connection);
    let may = client
        .query_one(
            "SELECT has_database_privilege(current_database(), 'CREATE') AND current_setting('server_version_num')::int >= 140000",
            &[],
        )
        .await;
    connection.abort();
    may.is_ok_and(|row| row.get(0))
}

/// A schema of its own, which is dropped at the end.
pub(crate) struct Schema {
    pub(crate) address: String,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new(server: &Server) -> Self {
        let name = format!("longhaul_test_{:016x}", fastrand::u64(..));
        Self {
            address: server.address.clone(),
            name,
        }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.name.clone(),
            connections: 5,
            // Longer than any test: time passes by the offset of the clock.
            node_lease: 600_000,
            ..PostgresOptions::default()
        }
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.address, self.options()).await.unwrap()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (address, name) = (self.address.clone(), self.name.clone());
        let dropping = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                // The server may be gone.
                let Ok((client, connection)) = tokio_postgres::connect(&address, NoTls).await else {
                    return;
                };
                let connection = tokio::spawn(connection);
                let sql = format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE");
                let _ = client.batch_execute(&sql).await;
                connection.abort();
            });
        });
        let _ = dropping.unwrap().join();
    }
}

/// A private server, with its data and its socket in one folder.
struct Cluster {
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
    postmaster: Option<Child>,
}

/// PostgreSQL refuses to run as root: this is `nobody`.
const NOBODY: u32 = 65_534;

impl Cluster {
    async fn create(settings: &[(&str, &str)], access: &str) -> Self {
        // Short: the name of a socket has 107 characters at most.
        let folder = tempfile::Builder::new().prefix("lh-pg").tempdir_in("/tmp").unwrap();
        let mut cluster = Self {
            folder,
            port: free_port(),
            settings: settings.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            postmaster: None,
        };
        if is_root() {
            chown(cluster.folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let made = cluster
            .program("initdb")
            .args([
                "--username=longhaul",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .arg("--pgdata")
            .arg(cluster.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // The first line that fits counts.
        let rules = cluster.data().join("pg_hba.conf");
        let others = fs::read_to_string(&rules).unwrap();
        fs::write(rules, format!("{access}\n{others}")).unwrap();
        cluster.start().await;
        cluster
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn address(&self) -> String {
        format!(
            "host={} port={} user=longhaul dbname=postgres",
            self.folder.path().display(),
            self.port
        )
    }

    /// A program of PostgreSQL, as a user that it accepts.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(find_program(name));
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts the server, and returns once it admits us. After a crash it may have to wait for what is left of the processes before.
    async fn start(&mut self) {
        self.start_as(|address| async move { admits(&address).await }).await;
    }

    async fn start_as<F: Future<Output = bool>>(&mut self, is_ready: impl Fn(String) -> F) {
        loop {
            let log = fs::File::create(self.folder.path().join("log")).unwrap();
            let mut postmaster = self
                .program("postgres")
                .arg("-D")
                .arg(self.data())
                .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=50"])
                .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
                .args(["-p", &self.port.to_string()])
                .arg("-k")
                .arg(self.folder.path())
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            loop {
                if is_ready(self.address()).await {
                    self.postmaster = Some(postmaster);
                    return;
                }
                if postmaster.try_wait().unwrap().is_some() {
                    let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
                    assert!(log.contains("still in use") || log.contains("already exists"), "{log}");
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// The processes of the server, its first one before the others.
    fn processes(&self) -> Vec<rustix::process::Pid> {
        let Some(postmaster) = &self.postmaster else {
            return Vec::new();
        };
        let pid = postmaster.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        let pids = [pid.cast_signed()].into_iter().chain(children);
        pids.filter_map(rustix::process::Pid::from_raw).collect()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        for process in self.processes() {
            let _ = rustix::process::kill_process(process, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.wait().unwrap();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// In `PATH`, or where Debian has it: the latest version.
fn find_program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|folder| folder.join(name));
    let mut of_debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .collect();
    of_debian.sort_by_key(|path| version_of(path));
    let found = of_debian
        .into_iter()
        .rev()
        .chain(in_path)
        .find(|program| program.exists());
    found.expect("PostgreSQL is needed for this test and is not installed; install it, for example with `apt-get install postgresql`, or set LONGHAUL_TEST_POSTGRES to the address of a server")
}

fn version_of(program: &Path) -> u32 {
    let version = program.components().rev().nth(2);
    version
        .and_then(|version| version.as_os_str().to_str()?.parse().ok())
        .unwrap_or_default()
}
