//! `cargo xtask cluster --figures`: what an operation costs nodes and database, with one, two and three nodes; how soon a change is known at another node; how
//! soon the work of a dead node is taken over.

use super::Programs;
use harness::{
    clock,
    mcp::{Client, ClientEra, RequestError},
    postgres::Postgres,
    process,
    rounds::RunError,
    server::{self, Server},
    site::Site,
};
use serde_json::{Value, json};
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 16;
const CREATES: usize = 6_000;
const POLLS: usize = 20_000;
const CYCLES: usize = 600;
const CHAINS: usize = 16;
const STEPS: usize = 200;
const PUSHES: usize = 400;
/// How long a push may take until it is awaited, so that its request is there.
const SETTLE: Duration = Duration::from_millis(15);
/// Between two looks at the database, which cost it something, too.
const LOOK: Duration = Duration::from_millis(100);
const TAKEN_OVER: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(180);
const SETTINGS: [&str; 3] = [
    "shared_preload_libraries=pg_stat_statements",
    "pg_stat_statements.track_utility=on",
    "shared_buffers=512MB",
];
/// Statements, commits, bytes of the log, syncs of the log.
const COUNTERS: &str = "SELECT (SELECT sum(calls) FROM pg_stat_statements)::bigint, (SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'), \
     (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT wal_sync FROM pg_stat_wal)";

/// What was used up to a moment.
#[derive(Clone, Copy)]
struct ResourceUsage {
    at: Instant,
    nodes: Duration,
    database: Duration,
    counters: [u64; 4],
}

/// Some nodes and their database.
struct Nodes {
    root: PathBuf,
    programs: Programs,
    postgres: Postgres,
    nodes: Vec<(Server, SocketAddr)>,
    report: Vec<Value>,
}

/// Measures everything, and prints it.
pub(super) fn run(programs: &Programs, as_json: bool) -> Result<(), RunError> {
    let folder = Site::create("cluster", "figures")?;
    let root = folder.root();
    let report = |line: Value| match as_json {
        true => println!("{line}"),
        false => println!("{}", shown(&line)),
    };
    report(takeover(root, programs)?);
    report(steps(root, programs)?);
    for count in 1..=3 {
        let mut site = Nodes::start(root, programs, count)?;
        site.operations(count)?;
        if count == 3 {
            site.pushes()?;
            site.ceiling()?;
        }
        site.report.drain(..).for_each(report);
    }
    Ok(folder.discard()?)
}

fn shown(line: &Value) -> String {
    let members = line.as_object().into_iter().flatten();
    let members = members.map(|(name, value)| match value.as_f64() {
        Some(number) => format!("{name} {number:.1}"),
        None => format!("{name} {value}"),
    });
    members.collect::<Vec<_>>().join("  ")
}

fn measured_postgres() -> Result<Postgres, RunError> {
    let postgres = Postgres::create(&SETTINGS)?;
    postgres.query("CREATE EXTENSION pg_stat_statements")?;
    Ok(postgres)
}

impl Nodes {
    fn start(root: &Path, programs: &Programs, count: usize) -> Result<Self, RunError> {
        let mut site = Self {
            root: root.join(format!("nodes-{count}")),
            programs: programs.clone(),
            postgres: measured_postgres()?,
            nodes: Vec::new(),
            report: Vec::new(),
        };
        fs::create_dir_all(&site.root)?;
        for nth in 0..count {
            let configuration = site.configuration(nth);
            let tool = |name: &str| {
                format!(
                    "[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ncommand = [\"true\"]\ntask = \"always\"\n"
                )
            };
            let server = format!(
                "[server]\nname = \"figures\"\nlisten = \"127.0.0.1:0\"\ndata_dir = '{}'\n",
                site.root.join(format!("data-{nth}")).display()
            );
            fs::write(&configuration, server + &tool("held") + &tool("quick"))?;
            let mut command = server::serve(&site.programs.longhaul, &configuration);
            let database = Postgres::url_at(site.postgres.address());
            command.env("LONGHAUL_STORE", &database);
            let mut server = Server::start(&mut command, &site.root.join(format!("node-{nth}.log")))?;
            let address = server.ready()?;
            site.nodes.push((server, address));
            if nth == 0 {
                let mut pause = Command::new(&site.programs.longhaul);
                pause.args(["admin", "pause"]).arg(&configuration).arg("held");
                process::run(pause.env("LONGHAUL_STORE", &database))?;
            }
        }
        Ok(site)
    }

    fn configuration(&self, nth: usize) -> PathBuf {
        self.root.join(format!("node-{nth}.toml"))
    }

    fn operations(&mut self, count: usize) -> Result<(), RunError> {
        let create = |client: &mut Client, _: usize| client.create("held", json!({})).map(drop);
        self.measure(count, "create", CREATES, create)?;
        let mut client = Client::new(ClientEra::Modern, self.nodes[0].1);
        let tasks: Vec<String> = (0..CLIENTS)
            .map(|_| client.create("held", json!({})))
            .collect::<Result<_, _>>()?;
        let poll = |client: &mut Client, nth: usize| client.get(&tasks[nth % tasks.len()]).map(drop);
        self.measure(count, "poll of a queued task", POLLS, poll)?;
        for task in &tasks {
            client.cancel(task)?;
        }
        self.measure(count, "poll of an ended task", POLLS, poll)?;
        let cycle = |client: &mut Client, _: usize| client.create("quick", json!({})).map(drop);
        self.measure(count, "create, run a command, end", CYCLES, cycle)
    }

    /// Makes an operation so often, and records what one has cost.
    fn measure(
        &mut self,
        count: usize,
        name: &str,
        times: usize,
        operation: impl Fn(&mut Client, usize) -> Result<(), RequestError> + Sync,
    ) -> Result<(), RunError> {
        let before = self.used()?;
        let next = AtomicUsize::new(0);
        let failed = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|nth| {
                    let address = self.nodes[nth % self.nodes.len()].1;
                    let (next, operation) = (&next, &operation);
                    scope.spawn(move || {
                        let mut client = Client::new(ClientEra::Modern, address);
                        let mut failed = 0;
                        loop {
                            let nth = next.fetch_add(1, Ordering::Relaxed);
                            if nth >= times {
                                return failed;
                            }
                            failed += usize::from(operation(&mut client, nth).is_err());
                        }
                    })
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().unwrap_or(1))
                .sum::<usize>()
        });
        let live = "SELECT count(*) FROM longhaul.tasks WHERE tool = 'quick' AND ended_at IS NULL";
        until(&self.postgres, live, "0")?;
        let after = self.used()?;
        self.report
            .push(cost(&format!("{count} nodes, {name}"), times, failed, before, after));
        Ok(())
    }

    fn used(&self) -> Result<ResourceUsage, RunError> {
        let nodes = self.nodes.iter().map(|(server, _)| server.id());
        used(nodes, &self.postgres)
    }

    /// How soon a request that waits at one node knows of the end that another node has written.
    fn pushes(&mut self) -> Result<(), RunError> {
        let (here, there) = (self.nodes[0].1, self.nodes[1].1);
        let (mut waiter, mut other) = (
            Client::new(ClientEra::Legacy, here),
            Client::new(ClientEra::Legacy, there),
        );
        let mut delays = Vec::new();
        for _ in 0..PUSHES {
            let task = other.create("held", json!({}))?;
            let (known, written) = thread::scope(|scope| {
                let waiting = scope.spawn(|| waiter.result(&task).map(|_| clock::now()));
                clock::pause(SETTLE);
                let written = other.cancel(&task).map(|()| clock::now());
                (waiting.join(), written)
            });
            let written = written?;
            if let Ok(Ok(known)) = known {
                delays.push(known.saturating_duration_since(written));
            }
        }
        delays.sort_unstable();
        let millis = |share: usize| {
            let nth = (delays.len() * share / 100).min(delays.len().saturating_sub(1));
            delays.get(nth).copied().unwrap_or_default().as_secs_f64() * 1_000.0
        };
        self.report.push(json!({
            "what": "acknowledged at one node, known at another", "count": delays.len(), "p50 ms": millis(50), "p99 ms": millis(99),
        }));
        Ok(())
    }

    /// What the database does by itself: pgbench's transactions.
    fn ceiling(&mut self) -> Result<(), RunError> {
        let port = self.postgres.port().to_string();
        let arguments = ["-h", "127.0.0.1", "-p", port.as_str(), "-U", "longhaul", "postgres"];
        process::run(
            self.postgres
                .program("pgbench")?
                .args(["-i", "-q", "-s", "10"])
                .args(arguments),
        )?;
        let before = self.used()?;
        let mut bench = self.postgres.program("pgbench")?;
        bench
            .args(["-n", "-c", "16", "-j", "2", "-T", "10", "-M", "prepared"])
            .args(arguments);
        let output = bench.output()?;
        let after = self.used()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |line: &str| line.split(": ").nth(1)?.split('/').next()?.trim().parse().ok();
        let transactions = said
            .lines()
            .find(|line| line.starts_with("number of transactions actually processed"))
            .and_then(number)
            .unwrap_or_default();
        self.report.push(cost(
            "pgbench, 16 clients, its own transaction",
            transactions,
            0,
            before,
            after,
        ));
        Ok(())
    }
}

/// What a step of a durable tool costs.
fn steps(root: &Path, programs: &Programs) -> Result<Value, RunError> {
    let postgres = measured_postgres()?;
    let mut server = under_fire(root, programs, &postgres, "steps")?;
    let mut client = Client::new(ClientEra::Modern, server.ready()?);
    let pid = server.id();
    let before = used([pid], &postgres)?;
    for nth in 0..CHAINS {
        let arguments = json!({"token": format!("s{nth}"), "steps": STEPS, "millis": 0});
        client.create("chain", arguments)?;
    }
    until(
        &postgres,
        "SELECT count(*) FROM longhaul.tasks WHERE ended_at IS NULL",
        "0",
    )?;
    let after = used([pid], &postgres)?;
    Ok(cost("1 node, step", CHAINS * STEPS, 0, before, after))
}

/// How soon the running tasks of a node that dies are taken over.
fn takeover(root: &Path, programs: &Programs) -> Result<Value, RunError> {
    fs::create_dir_all(root)?;
    let postgres = measured_postgres()?;
    let mut dies = under_fire(root, programs, &postgres, "dies")?;
    let address = dies.ready()?;
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::new(ClientEra::Modern, address);
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let arguments = json!({"token": format!("k{nth}"), "steps": 2, "millis": 3_600_000});
                    if nth >= TAKEN_OVER || client.create("chain", arguments).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let running = "SELECT count(*) FROM longhaul.tasks WHERE attempt_state < 3";
    until(&postgres, running, &TAKEN_OVER.to_string())?;
    let mut others = [
        under_fire(root, programs, &postgres, "one")?,
        under_fire(root, programs, &postgres, "two")?,
    ];
    for other in &mut others {
        other.ready()?;
    }
    dies.kill()?;
    until(
        &postgres,
        "SELECT count(*) FROM longhaul.nodes WHERE lost_at IS NOT NULL",
        "1",
    )?;
    let since = clock::now();
    let left = "SELECT count(*) FROM longhaul.tasks WHERE attempt_state < 3 AND attempt_node IN (SELECT id FROM longhaul.nodes WHERE lost_at IS NOT NULL)";
    until(&postgres, left, "0")?;
    let taken = since.elapsed();
    let again = |effects: &str| effects.lines().filter(|line| line.contains(" begin ")).count() == TAKEN_OVER * 2;
    let resumed = clock::wait_for(PATIENCE, || {
        clock::pause(Duration::from_millis(50));
        again(&fs::read_to_string(effects_file(root)).unwrap_or_default()).then(|| since.elapsed())
    });
    Ok(json!({
        "what": "running durable tasks of a dead node, after it was found dead", "count": TAKEN_OVER,
        "taken over s": taken.as_secs_f64(), "running s": resumed.map(|span| span.as_secs_f64()),
    }))
}

fn effects_file(root: &Path) -> PathBuf {
    root.join("effects")
}

fn under_fire(root: &Path, programs: &Programs, postgres: &Postgres, name: &str) -> Result<Server, RunError> {
    let mut command = Command::new(&programs.under_fire);
    command.args([
        "--store",
        &Postgres::url_at(postgres.address()),
        "--max-running",
        "30000",
    ]);
    command.arg("--effects").arg(effects_file(root));
    Ok(Server::start(&mut command, &root.join(format!("{name}.log")))?)
}

/// Waits until a query answers this.
fn until(postgres: &Postgres, query: &str, wanted: &str) -> Result<(), RunError> {
    let found = clock::wait_for(PATIENCE, || match postgres.query(query) {
        Ok(answer) if answer == wanted => Some(Ok(())),
        Ok(_) => {
            clock::pause(LOOK);
            None
        }
        Err(error) => Some(Err(error)),
    });
    match found {
        Some(found) => Ok(found?),
        None => Err(io::Error::other(format!("`{query}` did not become {wanted}")).into()),
    }
}

fn used(nodes: impl IntoIterator<Item = u32>, postgres: &Postgres) -> Result<ResourceUsage, RunError> {
    let answer = postgres.query(COUNTERS)?;
    let mut counters = answer.split('|').map(|number| number.parse().unwrap_or_default());
    Ok(ResourceUsage {
        at: clock::now(),
        nodes: cpu(nodes),
        database: cpu(postgres.processes()),
        counters: std::array::from_fn(|_| counters.next().unwrap_or_default()),
    })
}

/// The processor time of processes and of their children that have ended.
fn cpu(processes: impl IntoIterator<Item = u32>) -> Duration {
    processes
        .into_iter()
        .filter_map(|pid| server::cpu(pid, true).ok())
        .sum()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "they are shown with one digit behind the point"
)]
fn cost(what: &str, times: usize, failed: usize, before: ResourceUsage, after: ResourceUsage) -> Value {
    let each = |total: f64| total / times.max(1) as f64;
    let micros = |from: Duration, to: Duration| each(to.saturating_sub(from).as_secs_f64() * 1e6);
    let counted = |nth: usize| each((after.counters[nth] - before.counters[nth]) as f64);
    json!({
        "what": what, "count": times, "failed": failed,
        "per second": times as f64 / after.at.duration_since(before.at).as_secs_f64(),
        "node CPU µs": micros(before.nodes, after.nodes), "database CPU µs": micros(before.database, after.database),
        "statements": counted(0), "commits": counted(1), "WAL bytes": counted(2), "syncs": counted(3),
    })
}
