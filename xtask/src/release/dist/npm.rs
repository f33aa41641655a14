//! The packages for npm: the launcher, and the program for this platform.

use super::{
    DistError, HOMEPAGE, VERSION, at, check,
    installed::{Home, InstalledProgram, STOP},
    program::PackagedProgram,
    registry, share, source, write, write_program,
};
use crate::requirement;
use harness::{process, server::Server, workspace};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const NAME: &str = "npm";
/// All platforms with a package. Each is made on its own machine.
pub(super) const PLATFORMS: [&str; 2] = ["linux-x64-gnu", "linux-arm64-gnu"];

/// What both packages say.
fn manifest(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "version": VERSION,
        "description": description,
        "license": "MIT OR Apache-2.0",
        "homepage": HOMEPAGE,
    })
}

/// The machine's name in Node.
fn cpu() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn platform() -> String {
    format!("linux-{}-gnu", cpu())
}

/// The file of the launcher.
pub(super) fn launcher(out: &Path) -> PathBuf {
    out.join(format!("longhaul-{VERSION}.tgz"))
}

/// The file of the package with the program.
pub(super) fn with_program(out: &Path, platform: &str) -> PathBuf {
    out.join(format!("longhaul-{platform}-{VERSION}.tgz"))
}

/// Makes both packages.
pub(super) fn make(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    requirement::npm()?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"];

    let launcher = stage.join("npm/longhaul");
    let mut package = manifest("longhaul", "Durable tasks for long-running MCP tool calls");
    package["keywords"] = json!(["mcp", "mcp-server", "tasks", "durable-execution"]);
    package["mcpName"] = registry::NAME.into();
    package["bin"] = json!({"longhaul": "bin/longhaul.js"});
    package["files"] = json!(["bin"]);
    package["engines"] = json!({"node": ">=18"});
    package["optionalDependencies"] = PLATFORMS
        .iter()
        .map(|platform| (format!("@longhaul/{platform}"), Value::from(VERSION)))
        .collect();
    write_program(
        &launcher.join("bin/longhaul.js"),
        source("packaging/npm/longhaul.js")?.as_bytes(),
    )?;
    share::copy_sources(&["README.md"], &launcher)?;
    share::copy_sources(&licences, &launcher)?;
    pack(&launcher, &package, out)?;

    let with_program = stage.join("npm/platform");
    let platform = platform();
    let name = format!("@longhaul/{platform}");
    let mut package = manifest(&name, &format!("The program of the package longhaul, for {platform}"));
    package["os"] = json!(["linux"]);
    package["cpu"] = json!([cpu()]);
    package["libc"] = json!(["glibc"]);
    package["files"] = json!(["bin"]);
    // Yarn would leave it in an archive.
    package["preferUnplugged"] = true.into();
    write_program(
        &with_program.join("bin/longhaul"),
        &fs::read(&packaged.path).map_err(at(&packaged.path))?,
    )?;
    share::copy_sources(&licences, &with_program)?;
    let readme = format!("The program of [longhaul]({HOMEPAGE}), for {platform}. Install the package `longhaul`.\n");
    write(&with_program.join("README.md"), readme.as_bytes())?;
    pack(&with_program, &package, out)
}

fn pack(folder: &Path, manifest: &Value, out: &Path) -> Result<(), DistError> {
    write(&folder.join("package.json"), format!("{manifest:#}\n").as_bytes())?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
        .arg(out);
    Ok(process::run(npm.arg(folder))?)
}

/// Installs the packages into an empty folder, without a registry and without scripts.
fn install(home: &Home, folder: &str, packages: &[PathBuf], more: &[&str]) -> Result<PathBuf, DistError> {
    let folder = home.path.join(folder);
    write(&folder.join("package.json"), b"{\"private\": true}\n")?;
    let mut npm = home.command("npm");
    npm.current_dir(&folder);
    npm.args([
        "install",
        "--ignore-scripts",
        "--offline",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    npm.args(more).args(packages);
    home.output(&mut npm)?.expect(NAME)?;
    Ok(folder)
}

/// Uses the packages as a host does.
pub(super) fn test(out: &Path) -> Result<(), DistError> {
    let home = Home::create(NAME)?;
    let packages = [launcher(out), with_program(out, &platform())];
    let folder = install(&home, "app", &packages, &[])?;
    let mut npx = home.command("npx");
    npx.current_dir(&folder).args(["--no-install", "longhaul", "--version"]);
    let said = home.output(&mut npx)?.expect(NAME)?.out;
    check(NAME, said.starts_with(&format!("longhaul {VERSION}")), said)?;

    let launcher = folder.join("node_modules/.bin/longhaul");
    let installed = InstalledProgram {
        artefact: NAME,
        home: &home,
        words: vec![launcher.clone().into()],
    };
    installed.answers_version()?;
    let wrong = home.output(&mut installed.command(&["check", "no-such-file"]))?;
    check(
        NAME,
        wrong.code == Some(2) && wrong.err.contains("no-such-file"),
        format!("{:?} {}", wrong.code, wrong.err),
    )?;
    let example = home.path.join("examples/quickstart.toml");
    write(&example, source("examples/quickstart.toml")?.as_bytes())?;
    installed.serves(&example)?;
    installed.wraps()?;

    // Of a program that dies of a signal, the launcher dies too.
    let mut serve = installed.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = Server::start(serve.arg(&example), &home.path.join("killed.log"))?;
    server.ready()?;
    let children =
        process::read(Command::new("ps").args(["-o", "pid=", "--ppid", &server.pid().as_raw_nonzero().to_string()]))?;
    let child = String::from_utf8_lossy(&children)
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let child = child.ok_or_else(|| DistError::Broken {
        artefact: NAME,
        what: "the launcher has no child".to_owned(),
    })?;
    kill_process(child, Signal::KILL).map_err(|error| at(&launcher)(error.into()))?;
    let status = server.wait(STOP)?;
    check(
        NAME,
        status.signal() == Some(Signal::KILL.as_raw()),
        format!("the launcher ended with {status}"),
    )?;

    // A terminal sends Ctrl-C to all processes of its group: the program gets it once.
    let program = folder.join(format!("node_modules/@longhaul/{}/bin/longhaul", platform()));
    // The owner that `wrap` has left runs it still.
    fs::remove_file(&program).map_err(at(&program))?;
    write_program(&program, include_bytes!("counts_interrupts.sh"))?;
    let mut terminal = home.command("python3");
    terminal
        .arg(workspace::root().join("xtask/src/release/dist/terminal.py"))
        .arg(&launcher);
    let said = home.output(&mut terminal)?.expect(NAME)?.out;
    check(NAME, said.contains("interrupts: 1\r\nexit code 7"), said)?;

    let folder = install(&home, "without", &packages[..1], &["--omit=optional"])?;
    let mut alone = home.command(folder.join("node_modules/.bin/longhaul"));
    let alone = home.output(alone.arg("--version").stdout(Stdio::piped()))?;
    let wanted = format!("@longhaul/{} with the program", platform());
    check(
        NAME,
        alone.code == Some(1) && alone.err.contains(&wanted) && alone.err.contains("--no-optional"),
        alone.err,
    )?;
    home.remove()
}
