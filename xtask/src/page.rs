//! `cargo xtask page`: the pages of an operator in a real browser.

use crate::{
    peers::{
        interop::{
            InteropError,
            peer::{node_scripts, source},
        },
        node::Node,
    },
    requirement::{self, RequirementError},
};
use harness::{
    process::{self, ProcessError},
    server::{self, Server, ServerError},
    shim::Shim,
    workspace::{self, Program},
};
use serde_json::Value;
use std::{
    fs::{self, DirBuilder},
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Debian's package, and where it puts the program.
const BROWSER: &str = "chromium";
const BROWSER_PATH: &str = "/usr/bin/chromium";
const SCRIPT: &str = "page.mjs";
const FIGURES: &str = "figures.mjs";
const CONFIGURATION: &str = "browser.toml";
const PROMETHEUS: &str = "prometheus";
/// Upstreams: one that answers no call, and one that asks.
const UPSTREAMS: [&str; 2] = ["silent.mjs", "asker.mjs"];

/// `cargo xtask page`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The `longhaul` to test; it is built if absent
    #[arg(long)]
    pub(crate) program: Option<PathBuf>,
    /// Measure what the page costs with 100,000 tasks and with 200 who watch it, instead; for that the server should be an optimized one
    #[arg(long)]
    pub(crate) figures: bool,
    /// With --figures: use this server with durable tools instead of building one
    #[arg(long, value_name = "FILE", requires = "figures")]
    pub(crate) operated: Option<PathBuf>,
    /// Where screenshots of all views go, in both themes; below the target folder if absent
    #[arg(long)]
    pub(crate) screenshots: Option<PathBuf>,
}

/// The pages were not tested, or do not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    #[error(transparent)]
    Packages(#[from] InteropError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("a file of the run cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// A server with durable tools, whose code depends on a file.
struct Durable {
    server: Server,
    admin: String,
    url: String,
    word: PathBuf,
}

impl Durable {
    fn start(program: &Path, data: &Path) -> Result<Self, PageError> {
        // A port that is free now.
        let admin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string();
        let word = data.join("word");
        fs::write(&word, "old")?;
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(data.join("durable"));
        command.arg("--word").arg(&word);
        command.arg("--audit").arg(data.join("durable.jsonl"));
        command.arg("--admin").arg(&admin);
        let mut server = Server::start(&mut command, &data.join("durable.log"))?;
        let address = server.ready()?;
        Ok(Self {
            server,
            admin: format!("http://{admin}"),
            url: format!("http://{address}/mcp"),
            word,
        })
    }
}

/// Whether there is a browser, or could be installed.
pub(crate) fn browser() -> Result<(), RequirementError> {
    requirement::program(BROWSER)
}

/// Measures with a server of its own.
fn figures(args: &Args, node: &Node, scripts: &Path) -> Result<(), PageError> {
    let program = workspace::operated().or_build(args.operated.as_ref())?;
    let data = workspace::target().join(format!("page/figures-{}", std::process::id()));
    fs::create_dir_all(&data)?;
    let durable = Durable::start(&program, &data)?;
    let mut script = node.command();
    script
        .arg(scripts.join(FIGURES))
        .args([&durable.admin, &durable.url, &durable.server.id().to_string()])
        .arg(BROWSER_PATH);
    let measured = process::run(&mut script);
    drop(durable);
    // A folder that is left does no harm.
    let _ = fs::remove_dir_all(&data);
    Ok(measured?)
}

/// Starts a server of its own and runs the script against it.
pub(crate) fn run(args: &Args) -> Result<(), PageError> {
    browser()?;
    requirement::program(PROMETHEUS)?;
    let node = Node::install()?;
    let scripts = node_scripts("page")?;
    if args.figures {
        return figures(args, &node, &scripts);
    }
    let program = workspace::longhaul().or_build(args.program.as_ref())?;
    let work = workspace::target().join("page");
    let screenshots = args.screenshots.clone().unwrap_or_else(|| work.join("screenshots"));
    let data = work.join(format!("data-{}", std::process::id()));
    // A data directory with other files must be closed to other users.
    DirBuilder::new().recursive(true).mode(0o700).create(&data)?;
    // Beside its audit log.
    let configuration = data.join(CONFIGURATION);
    fs::copy(source("page").join(CONFIGURATION), &configuration)?;
    for upstream in UPSTREAMS {
        fs::copy(source("page").join(upstream), data.join(upstream))?;
    }
    let faults = Shim::create(&data.join("faults"))?;
    // What comes with a given program was built with it.
    let beside = |target: Program| match &args.program {
        Some(_) => Ok(target.path()),
        None => target.or_build(None),
    };
    let library = beside(workspace::shim())?;
    let mut serve = server::serve(&program, &configuration);
    serve.env("LD_PRELOAD", library).env("LONGHAUL_SHIM", faults.path());
    serve
        .args(["--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data);
    let mut served = Server::start(&mut serve, &data.join("server.log"))?;
    served.ready()?;
    let output = served.output()?;
    let mut lines = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let report = lines.find(|line| line["admin"].is_string()).unwrap_or_default();
    let address = |member: &str| {
        let address = report[member].as_str().unwrap_or_default();
        address.trim_end_matches('/').to_owned()
    };
    let durable = Durable::start(&beside(workspace::operated())?, &data)?;
    let mut script = node.command();
    script
        .arg(scripts.join(SCRIPT))
        .args([address("admin"), address("url")]);
    script
        .env("DURABLE_ADMIN", &durable.admin)
        .env("DURABLE_URL", &durable.url);
    script
        .env("DURABLE_WORD", &durable.word)
        .env("FAULTS", faults.path())
        .env("METRICS_KEY", data.join("metrics.key"));
    script
        .arg(&program)
        .arg(BROWSER_PATH)
        .arg(&screenshots)
        .env("XDG_STATE_HOME", &data);
    let passed = process::run(&mut script);
    drop((served, durable));
    // What a failed run has left can be looked at.
    if passed.is_ok() {
        let _ = fs::remove_dir_all(&data);
    }
    Ok(passed?)
}
