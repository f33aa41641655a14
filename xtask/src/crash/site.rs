//! The folder of a crash run.
//!
//! | path | what |
//! | --- | --- |
//! | `data/` | the server's data directory |
//! | `side/` | the files of the commands: the journal, and a lock for each task |
//! | `crash.toml` | the configuration |
//! | `worker` | a copy of this program, so that a build during the run does not replace it |
//! | `server.log` | the output of the servers |

use super::{
    InjectedFault,
    kind::{Kind, Load},
    supervisors,
    violation::Violation,
};
use crate::{clock, server::Server, server::ServerError, workspace};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// How long the processes of a site may take to end after they are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Site {
    root: PathBuf,
    plant: Option<InjectedFault>,
    load: Load,
}

impl Site {
    /// Creates the folder of this run.
    pub(super) fn prepare(seed: u64, plant: Option<InjectedFault>, load: Load) -> io::Result<Self> {
        let name = format!("seed-{seed}-{}", std::process::id());
        let root = workspace::target().join("crash").join(name);
        fs::create_dir_all(&root)?;
        // Canonical, as in the command lines of supervisors.
        let site = Self {
            root: root.canonicalize()?,
            plant,
            load,
        };
        fs::create_dir_all(site.side().join("locks"))?;
        fs::copy("/proc/self/exe", site.worker())?;
        fs::write(site.configuration(), configuration(&site, load))?;
        fs::write(site.journal(), "")?;
        Ok(site)
    }

    /// Starts a server with the site's data directory.
    pub(super) fn serve(&self, program: &Path) -> Result<Server, ServerError> {
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(self.configuration())
            .arg("--json")
            .env_remove("LONGHAUL_PLANT");
        if let Some(plant) = self.plant {
            command.env("LONGHAUL_PLANT", plant.name());
        }
        Server::start(&mut command, &self.root.join("server.log"))
    }

    /// Whether a violation counts: with a plant, only those that show it do.
    pub(super) fn counts(&self, violation: &Violation) -> bool {
        self.plant.is_none_or(|plant| plant.shows_in(violation))
    }

    pub(super) fn load(&self) -> Load {
        self.load
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn attempts(&self) -> PathBuf {
        self.data().join("attempts")
    }

    pub(super) fn side(&self) -> PathBuf {
        self.root.join("side")
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.side().join("journal")
    }

    pub(super) fn worker(&self) -> PathBuf {
        self.root.join("worker")
    }

    fn configuration(&self) -> PathBuf {
        self.root.join("crash.toml")
    }
}

/// Removes the folder of a run with these data directories. Commands outlive the server, and their supervisors create files while they run,
/// so they are killed first.
pub(super) fn remove(root: &Path, data_dirs: &[PathBuf]) -> io::Result<()> {
    let gone = clock::wait_for(KILL_TIMEOUT, || {
        for data in data_dirs {
            for supervisor in supervisors::running(&data.join("attempts")) {
                supervisor.kill();
            }
        }
        (!supervisors::is_in_use(root)).then_some(())
    });
    match gone {
        Some(()) => fs::remove_dir_all(root),
        None => Err(io::Error::other(format!("processes still run in {}", root.display()))),
    }
}

/// The configuration that the server serves.
fn configuration(site: &Site, load: Load) -> String {
    let mut text = format!(
        "[server]\nname = \"crash\"\nlisten = \"127.0.0.1:0\"\ndata_dir = '{}'\nmax_running = {}\n",
        site.data().display(),
        load.max_running()
    );
    text.push_str(&tools(&site.worker(), &site.side()));
    text
}

/// The tools of a server: `worker` is a copy of this program, and `side` the folder of its journal and locks.
pub(crate) fn tools(worker: &Path, side: &Path) -> String {
    Kind::ALL.iter().map(|kind| tool(*kind, worker, side)).collect()
}

fn tool(kind: Kind, worker: &Path, side: &Path) -> String {
    let name = kind.name();
    let worker = worker.display().to_string();
    let side = side.display().to_string();
    let mut command = vec![
        worker.as_str(),
        "worker",
        "--side",
        &side,
        name,
        "{token}",
        "{millis}",
        "{bytes}",
    ];
    if kind == Kind::Stubborn {
        // An ignored signal stays ignored after exec, and the process stays a child of the supervisor.
        command.splice(0..0, ["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""]);
    }
    let extra = match kind {
        Kind::Retried => "retry = { attempts = 20, backoff = \"10ms\", on = [\"crash\"] }\n",
        Kind::Printing => "max_output = \"8KiB\"\nmax_log = \"64MiB\"\n",
        Kind::Chatty => "max_output = \"8KiB\"\nmax_log = \"256KiB\"\n",
        _ => "",
    };
    format!(
        "\n[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ntask = \"optional\"\ncommand = {}\n\
         input = {{ token = {{ type = \"string\" }}, millis = {{ type = \"integer\" }}, bytes = {{ type = \"integer\" }} }}\n{extra}",
        json!(command)
    )
}
