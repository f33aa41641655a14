//! The processes of a run: on each of three hosts a node that runs commands and a node with durable tools, and one database.

use super::{
    InjectedFault, Programs,
    faults::{Fault, HOSTS, LEASE, LinkState, Partition},
    network::{Network, NetworkKind},
};
use harness::{
    clock,
    commands::{self, CommandLoad},
    network::balancer::Balancer,
    network::namespace,
    postgres::Postgres,
    rounds::RunError,
    rounds::violation::{Invariant, Violation},
    server::{self, Server, ServerError},
    shim::Shim,
    site::Site,
};
use rustix::process::{Signal, kill_process};
use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// How long a node may take to end after SIGTERM.
const STOP: Duration = Duration::from_secs(20);
/// How long it may take until a node that has ended serves again, started as often as that takes.
const REVIVAL: Duration = Duration::from_secs(60);
/// Between two starts, as what supervises a service has it.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// Who waits for whose lock.
const LOGGED: [&str; 3] = [
    "log_lock_waits=on",
    "deadlock_timeout=300ms",
    "log_line_prefix=%m [%p] %a ",
];
/// How long it may take a node to find out that it has lost its lease.
const DISCOVERY: Duration = Duration::from_secs(10);
/// What a node logs when it ends because it has lost its lease.
const LOST: &str = "lease";
/// What the steps of durable tools write.
pub(super) const EFFECTS: &str = "effects";

/// What a node serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// `longhaul serve`, whose tools are commands.
    Commands,
    /// `under_fire`, whose tools are durable.
    Durable,
}

impl Service {
    pub(super) const ALL: [Self; 2] = [Self::Commands, Self::Durable];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Durable => "durable",
        }
    }
}

/// A node, whichever process it is at the moment.
struct Node {
    service: Service,
    host: usize,
    server: Server,
}

/// All of them.
pub(super) struct Cluster {
    root: PathBuf,
    programs: Programs,
    plant: Option<InjectedFault>,
    /// Whether a host still runs the older server.
    is_older: [bool; HOSTS],
    /// What sets the wall clock of each host.
    clocks: Vec<Shim>,
    network: Network,
    postgres: Postgres,
    /// Those of a host are beside each other.
    nodes: Vec<Node>,
    balancers: [Balancer; 2],
    /// Processes that may have lost their lease without knowing it.
    cut_off: HashSet<u32>,
    /// How often what was done.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl Cluster {
    /// Makes the database of a run, and starts all nodes.
    pub(super) fn start(
        site: &Site,
        programs: Programs,
        plant: Option<InjectedFault>,
        network: Option<NetworkKind>,
    ) -> Result<Self, RunError> {
        commands::prepare(site)?;
        site.write(EFFECTS, "")?;
        let clocks = (0..HOSTS).map(|host| Shim::create(&site.file(&format!("clock-{host}"))));
        let clocks = clocks.collect::<io::Result<_>>()?;
        let (network, postgres) = Network::start(network, HOSTS, &LOGGED)?;
        let balancer = || Balancer::start((0..HOSTS).map(|host| network.namespace(host).cloned()).collect());
        let mut cluster = Self {
            balancers: [balancer()?, balancer()?],
            nodes: Vec::new(),
            root: site.root().to_owned(),
            is_older: [programs.older.is_some(); HOSTS],
            programs,
            clocks,
            plant,
            network,
            postgres,
            cut_off: HashSet::new(),
            counts: BTreeMap::new(),
        };
        let settings = format!(
            "store_schema = \"commands\"\nnode_lease = \"{}s\"\nlost_after = \"1h\"\n",
            LEASE.as_secs()
        );
        for host in 0..HOSTS {
            // The same on each host, but for the data directory.
            let data = site.file(&format!("data-{host}"));
            let configuration = commands::configuration(site, &data, CommandLoad::Mixed, &settings);
            site.write(&configuration_of(host), configuration)?;
            for service in Service::ALL {
                let mut server = cluster.spawn(service, host)?;
                cluster.balancers[service as usize].set(host, Some(server.ready()?));
                cluster.nodes.push(Node { service, host, server });
            }
        }
        Ok(cluster)
    }

    /// Where clients find a service.
    pub(super) fn address(&self, service: Service) -> std::net::SocketAddr {
        self.balancers[service as usize].address()
    }

    /// The name of its kind of network.
    pub(super) fn network(&self) -> &'static str {
        self.network.kind().name()
    }

    /// Whether the nodes begin as an older release.
    pub(super) fn is_upgrade(&self) -> bool {
        self.programs.older.is_some()
    }

    pub(super) fn cut_off(&self) -> &HashSet<u32> {
        &self.cut_off
    }

    fn spawn(&self, service: Service, host: usize) -> Result<Server, ServerError> {
        let database = Postgres::url_at(self.network.address(host, &self.postgres));
        let mut command = match service {
            Service::Commands => {
                let older = self.programs.older.as_ref().filter(|_| self.is_older[host]);
                let program = older.unwrap_or(&self.programs.longhaul);
                let mut command = server::serve(program, &self.root.join(configuration_of(host)));
                command.arg("--json").env("LONGHAUL_STORE", database);
                command
            }
            Service::Durable => {
                let mut command = Command::new(&self.programs.under_fire);
                command.args(["--store", &database, "--lease", &LEASE.as_millis().to_string()]);
                command.arg("--effects").arg(self.root.join(EFFECTS));
                if let Some(plant) = self.plant {
                    command.args(["--fault", plant.name()]);
                }
                command
            }
        };
        command
            .env("LD_PRELOAD", &self.programs.shim)
            .env("LONGHAUL_SHIM", self.clocks[host].path());
        let log = self.root.join(format!("{}-{host}.log", service.name()));
        namespace::within(self.network.namespace(host), || Server::start(&mut command, &log))?
    }

    fn of_host(&mut self, host: usize) -> &mut [Node] {
        let services = Service::ALL.len();
        &mut self.nodes[host * services..(host + 1) * services]
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Makes a fault happen, and ends it.
    pub(super) fn suffer(&mut self, fault: &Fault) -> Result<Vec<Violation>, RunError> {
        self.count(fault.name());
        match *fault {
            Fault::None => {}
            Fault::Kill { host, away } => {
                for node in self.of_host(host) {
                    // It may have ended by itself, after an earlier fault; that is looked at with all others.
                    let _ = node.server.kill();
                }
                clock::pause(away);
            }
            Fault::Pause { host, away } => {
                self.are_cut_off(host);
                self.signal(host, Signal::STOP);
                clock::pause(away);
                self.signal(host, Signal::CONT);
            }
            Fault::Partition { host, how, away } => {
                self.are_cut_off(host);
                let state = match how {
                    Partition::Cut => LinkState::Cut,
                    Partition::Stalled | Partition::StalledThenCut => LinkState::Stalled,
                };
                self.network.set(host, state)?;
                clock::pause(away);
                if how == Partition::StalledThenCut {
                    self.network.set(host, LinkState::Cut)?;
                }
                self.network.set(host, LinkState::Open)?;
            }
            Fault::Clock { host, seconds, away } => {
                self.clocks[host].shift_clock(seconds)?;
                clock::pause(away);
                self.clocks[host].shift_clock(0)?;
            }
            Fault::KillDatabase { away } => {
                self.postgres.kill()?;
                clock::pause(away);
                self.postgres.start()?;
            }
            Fault::Drain { host } | Fault::Upgrade { host } => {
                if matches!(fault, Fault::Upgrade { .. }) {
                    self.is_older[host] = false;
                }
                for node in self.of_host(host) {
                    if node.server.lives() {
                        node.server.stop(STOP)?;
                    }
                }
            }
        }
        self.tend(
            matches!(fault, Fault::Kill { .. } | Fault::Drain { .. } | Fault::Upgrade { .. })
                .then(|| fault.host())
                .flatten(),
        )
    }

    /// Whether a process has lost its lease, which it may be about to find out.
    pub(super) fn loses_its_lease(&mut self, pid: u32) -> bool {
        let Some(node) = self.nodes.iter_mut().find(|node| node.server.id() == pid) else {
            return self.cut_off.contains(&pid);
        };
        let ended = clock::wait_for(DISCOVERY, || (!node.server.lives()).then_some(()));
        ended.is_some() && node.server.last_words().is_ok_and(|said| said.contains(LOST))
    }

    /// Starts what has ended. All but the nodes of `expected` may only have ended because they had lost their lease.
    pub(super) fn tend(&mut self, expected: Option<usize>) -> Result<Vec<Violation>, RunError> {
        let mut violations = Vec::new();
        for at in 0..self.nodes.len() {
            if self.nodes[at].server.lives() {
                continue;
            }
            let (service, host) = (self.nodes[at].service, self.nodes[at].host);
            self.balancers[service as usize].set(host, None);
            if expected != Some(host) {
                let pid = self.nodes[at].server.id();
                let said = self.nodes[at].server.last_words()?;
                match (said.contains(LOST), self.cut_off.insert(pid)) {
                    (true, false) => self.count("nodes that ended with their lease"),
                    // On a machine that is so busy that it was not renewed in time.
                    (true, true) => self.count("leases lost without a fault"),
                    (false, _) => {
                        let what = format!("the node {} on host {host} ended by itself: {said}", service.name());
                        violations.push(Invariant::SERVED.violated(what));
                    }
                }
            }
            self.revive(at)?;
        }
        Ok(violations)
    }

    /// Starts a node that has ended, as often as it takes.
    fn revive(&mut self, at: usize) -> Result<(), RunError> {
        let since = clock::now();
        loop {
            let node = &self.nodes[at];
            let (service, host) = (node.service, node.host);
            let mut server = self.spawn(service, host)?;
            match server.ready() {
                Ok(address) => {
                    self.balancers[service as usize].set(host, Some(address));
                    self.nodes[at].server = server;
                    return Ok(());
                }
                Err(ServerError::Ended { .. }) if since.elapsed() < REVIVAL => {
                    self.count("starts that failed");
                    clock::pause(RESTART_AFTER);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn are_cut_off(&mut self, host: usize) {
        let pids: Vec<u32> = self.of_host(host).iter().map(|node| node.server.id()).collect();
        self.cut_off.extend(pids);
    }

    fn signal(&mut self, host: usize, signal: Signal) {
        for node in self.of_host(host) {
            if node.server.lives() {
                // It may have ended since.
                let _ = kill_process(node.server.pid(), signal);
            }
        }
    }

    /// Writes what the database has into the folder of the run, for whoever looks for the cause of a violation.
    pub(super) fn dump(&self, root: &Path) {
        if let Err(error) = self.postgres.dump(&root.join("database.sql")) {
            eprintln!("cluster: {error}");
        }
    }

    /// Ends all nodes; the last thing that is checked of them is that they can be ended.
    pub(super) fn stop(&mut self) -> Result<(), RunError> {
        for node in &mut self.nodes {
            node.server.stop(STOP)?;
        }
        Ok(())
    }
}

fn configuration_of(host: usize) -> String {
    format!("node-{host}.toml")
}
