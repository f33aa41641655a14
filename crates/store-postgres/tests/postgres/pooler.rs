//! A store behind PgBouncer in transaction mode.

use crate::{
    server::{Schema, Server},
    tasks::{new_task, open_node},
};
use longhaul_core::{
    NodeId, Store,
    store::{SearchStore, StoreEvent, TaskStore},
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use parking_lot::Mutex;
use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio_postgres::Config;

/// PgBouncer refuses to run as root: this is `nobody`.
const NOBODY: u32 = 65_534;

/// A pooler with two connections to a server for all its clients.
pub(crate) struct Pooler {
    folder: TempDir,
    port: u16,
    direct: String,
    process: Mutex<Child>,
}

impl Pooler {
    pub(crate) async fn start(server: &Server) -> Self {
        Self::with(server, "").await
    }

    /// With further lines in its configuration.
    async fn with(server: &Server, more: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("lh-pgb").tempdir_in("/tmp").unwrap();
        let port = {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            listener.local_addr().unwrap().port()
        };
        let config: Config = server.address.parse().unwrap();
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        };
        let (user, name) = (config.get_user().unwrap(), config.get_dbname().unwrap());
        let server_port = config.get_ports().first().copied().unwrap_or(5432);
        let text = format!(
            "[databases]\n{name} = host={host} port={server_port} dbname={name} user={user}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 500\n{more}\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, text).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("pgbouncer");
        command
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if rustix::process::geteuid().is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        let process = command.spawn().expect("PgBouncer is needed for this test and is not installed; install it, for example with `apt-get install pgbouncer`");
        let pooler = Self {
            folder,
            port,
            direct: server.address.clone(),
            process: Mutex::new(process),
        };
        loop {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return pooler;
            }
            if let Some(status) = pooler.process.lock().try_wait().unwrap() {
                panic!(
                    "{status}: {}",
                    fs::read_to_string(pooler.folder.path().join("log")).unwrap()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn address(&self) -> String {
        let config: Config = self.direct.parse().unwrap();
        let (user, name) = (config.get_user().unwrap(), config.get_dbname().unwrap());
        format!("postgres://{user}@127.0.0.1:{}/{name}", self.port)
    }

    pub(crate) fn options(&self, schema: &Schema, options: &PostgresOptions) -> PostgresOptions {
        PostgresOptions {
            direct: Some(schema.address.clone()),
            ..options.clone()
        }
    }

    pub(crate) fn stop(&self) {
        let mut process = self.process.lock();
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let mut process = self.process.lock();
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Without the address of the database itself, a pooler is refused in words that say what is missing, whether it refuses our setting or drops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_is_not_expected_is_told() {
    let server = Server::find().await;
    let schema = Schema::new(&server);
    for more in ["", "ignore_startup_parameters = options"] {
        let pooler = Pooler::with(&server, more).await;
        let opened = PostgresStore::open(&pooler.address(), schema.options()).await;
        let said = opened.err().unwrap().to_string();
        assert!(
            said.contains("pooler") && said.contains("`store_direct`"),
            "{more}: {said}"
        );
        let said = PostgresStore::inspect(&pooler.address(), schema.options()).await;
        assert!(said.unwrap_err().to_string().contains("`store_direct`"), "{more}");
        let through = pooler.options(&schema, &schema.options());
        PostgresStore::inspect(&pooler.address(), through).await.unwrap();
    }
}

/// Many more clients than there are connections to the database; and events, which come without the pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_behind_a_pooler_share_its_connections() {
    let server = Server::find().await;
    let pooler = Pooler::start(&server).await;
    let schema = Schema::new(&server);
    let (address, options) = (pooler.address(), pooler.options(&schema, &schema.options()));
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let store = PostgresStore::open(&address, options.clone()).await.unwrap();
        let node = open_node(&store, name).await;
        nodes.push((store, node));
    }
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    nodes[0].0.listen(Arc::new(move |events: &[StoreEvent]| {
        events.iter().for_each(|event| drop(tell.send(event.clone())));
    }));
    let create = async |(store, node): &(PostgresStore, NodeId)| {
        for nth in 0..25 {
            let id = format!("of-{}-{nth:02}", node.0);
            store.create(new_task(&id, *node)).await.unwrap();
            assert!(store.get_unscoped(&crate::tasks::id(&id)).await.unwrap().is_some());
        }
    };
    futures_util::future::join_all(nodes.iter().map(create)).await;
    assert_eq!(nodes[1].0.counts().await.unwrap().queued, 100);
    let is_others = |event: &StoreEvent| matches!(event, StoreEvent::TaskChanged(hint) if hint.task.as_str().starts_with(&format!("of-{}", nodes[3].1.0)));
    loop {
        if is_others(&told.recv().await.unwrap()) {
            break;
        }
    }
}
