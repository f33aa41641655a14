//! The package for Debian and Ubuntu, made by `dpkg-deb` from a staged tree.

use super::{
    DistError, HOMEPAGE, VERSION, at, check,
    installed::{Home, Output},
    make_folder,
    program::PackagedProgram,
    share::{self, Layout},
    source, write, write_program,
};
use crate::requirement;
use harness::{clock, process, server::Server};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const NAME: &str = "deb";
const LAYOUT: Layout = Layout {
    man: "man/man1",
    bash: "bash-completion/completions/longhaul",
    zsh: "zsh/vendor-completions/_longhaul",
    fish: "fish/vendor_completions.d/longhaul.fish",
};
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
pub(super) const MAINTAINER: &str = "The Longhaul authors <longhaul@longhaul.example>";

/// The machine's name in Debian.
fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(super) fn file(out: &Path, version: &str) -> PathBuf {
    out.join(format!("longhaul_{version}-1_{}.deb", architecture()))
}

/// Makes the package.
pub(super) fn make(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    let root = stage.join("deb");
    let share = root.join("usr/share");
    write_program(
        &root.join("usr/bin/longhaul"),
        &fs::read(&packaged.path).map_err(at(&packaged.path))?,
    )?;
    share::write_pages(packaged, &LAYOUT, &share)?;
    let unit = source("contrib/longhaul.service")?;
    // Without the comment that says how to install it.
    let unit = unit.split_once("\n\n").map_or(unit.as_str(), |(_, rest)| rest);
    let unit = unit.replace("/usr/local/bin/", "/usr/bin/");
    write(&root.join("usr/lib/systemd/system/longhaul.service"), unit.as_bytes())?;
    write(
        &root.join("etc/longhaul/jobs.toml"),
        source("packaging/deb/jobs.toml")?.as_bytes(),
    )?;
    write_documents(packaged, &share.join("doc/longhaul"))?;
    process::run(
        Command::new("find")
            .arg(share.join("man"))
            .args(["-name", "*.1", "-exec", "gzip", "-9n", "{}", "+"]),
    )?;
    write(&root.join("DEBIAN/conffiles"), b"/etc/longhaul/jobs.toml\n")?;
    for script in SCRIPTS {
        write_program(
            &root.join("DEBIAN").join(script),
            source(&format!("packaging/deb/{script}"))?.as_bytes(),
        )?;
    }
    process::run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    process::run(Command::new("sh").current_dir(&root).args([
        "-c",
        "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums && chmod 644 DEBIAN/md5sums",
    ]))?;
    build(packaged, &root, VERSION, out)
}

fn write_documents(packaged: &PackagedProgram, folder: &Path) -> Result<(), DistError> {
    let mit = source("LICENSE-MIT")?;
    let (_, mit) = mit.split_once("\n\n").unwrap_or(("", &mit));
    let paragraph = |line: &str| match line.is_empty() {
        true => " .".to_owned(),
        false => format!(" {line}"),
    };
    let mit: Vec<String> = mit.lines().map(paragraph).collect();
    let copyright = source("packaging/deb/copyright")?.replace("@MIT@", &mit.join("\n"));
    write(&folder.join("copyright"), copyright.as_bytes())?;
    let date =
        process::read(Command::new("date").args(["--utc", "--rfc-email", "--date", &format!("@{}", packaged.time)]))?;
    let date = String::from_utf8_lossy(&date);
    let changelog = format!(
        "longhaul ({VERSION}-1) unstable; urgency=medium\n\n  * Version {VERSION}: see changelog.gz.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    );
    write(&folder.join("changelog.Debian"), changelog.as_bytes())?;
    write(&folder.join("changelog"), source("CHANGELOG.md")?.as_bytes())?;
    process::run(
        Command::new("gzip")
            .arg("-9n")
            .args(["changelog.Debian", "changelog"])
            .current_dir(folder),
    )?;
    share::copy_sources(&["README.md"], folder)?;
    share::copy_documents(&folder.join("docs"))?;
    share::copy_sources(&["examples/quickstart.toml"], &folder.join("examples"))
}

/// Packs the tree as this version.
fn build(packaged: &PackagedProgram, root: &Path, version: &str, out: &Path) -> Result<(), DistError> {
    let glibc = packaged.glibc;
    let gcc = packaged.libgcc.map(|version| format!(", libgcc-s1 (>= {version})"));
    let gcc = gcc.unwrap_or_default();
    let control = format!(
        "Package: longhaul\nVersion: {version}-1\nArchitecture: {}\nMaintainer: {MAINTAINER}\nSection: net\nPriority: optional\n\
         Homepage: {HOMEPAGE}\nDepends: libc6 (>= {glibc}){gcc}, adduser\nRecommends: ca-certificates\n\
         Description: durable tasks for long-running MCP tool calls\n \
         Serves commands and other MCP servers as tools whose calls survive\n disconnects, crashes and restarts. \
         With a service for systemd, which is\n started once /etc/longhaul/jobs.toml says what to serve.\n",
        architecture()
    );
    write(&root.join("DEBIAN/control"), control.as_bytes())?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz"])
        .arg(packaged.xz_level().replace('-', "-z"));
    dpkg.arg("--build").arg(root).arg(file(out, version));
    Ok(process::run(dpkg.env("SOURCE_DATE_EPOCH", &packaged.time))?)
}

/// A Debian root in which the package is installed, apart from this machine.
struct Root(PathBuf);

impl Root {
    /// Copies a minimal root, which is made once.
    fn create(home: &Home) -> Result<Self, DistError> {
        let original = requirement::debian_root()?;
        let root = home.path.join("root");
        process::run(Command::new("cp").arg("-a").arg(original).arg(&root))?;
        Ok(Self(root))
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.0.join(absolute.trim_start_matches('/'))
    }

    /// A command in the root. What it needs mounted is unmounted with it.
    fn command(&self, words: &[&str]) -> Command {
        const MOUNT: &str =
            "mount -t proc proc \"$0/proc\" && mount --bind /dev/null \"$0/dev/null\" && exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.args(["--mount", "sh", "-c", MOUNT]).arg(&self.0).args(words);
        command
    }

    /// A command in the root, as the user of the service.
    fn as_service(&self, words: &[&str]) -> Command {
        let user = ["setpriv", "--reuid=longhaul", "--regid=longhaul", "--clear-groups"];
        let mut command = self.command(&[&user, words].concat());
        command.env("HOME", "/var/lib/longhaul");
        command
    }

    /// The server, as the unit starts it, but for its port.
    fn serve(&self, home: &Home, listen: &str) -> Result<(Server, String), DistError> {
        let unit = self.path("/usr/lib/systemd/system/longhaul.service");
        let unit = fs::read_to_string(&unit).map_err(at(&unit))?;
        check(
            NAME,
            unit.contains("\nKillMode=process\n"),
            "the unit lets commands end",
        )?;
        let start = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .unwrap_or_default();
        let words: Vec<&str> = start.split_whitespace().chain(["--listen", listen]).collect();
        let mut server = Server::start(&mut self.as_service(&words), &home.path.join("serve.log"))?;
        let address = server.ready()?.to_string();
        Ok((server, address))
    }
}

/// A tool that ends when it is told to.
const SLOW_TOOL: &str = r#"
[[tool]]
name = "wait"
description = "Wait for a file"
command = ["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; echo gone"]
task = "always"
"#;

/// Checks the package, and installs, upgrades, removes and purges it in a root of its own.
pub(super) fn test(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    process::run(
        Command::new("lintian")
            .args(["--fail-on", "error", "--allow-root"])
            .arg(file(out, VERSION)),
    )?;
    if !rustix::process::geteuid().is_root() {
        eprintln!("the package is not installed: that needs root");
        return Ok(());
    }
    let home = Home::create(NAME)?;
    let root = Root::create(&home)?;
    let run = |mut command: Command| home.output(&mut command)?.expect(NAME);
    let install = |deb: &Path| -> Result<Output, DistError> {
        let name = deb.file_name().unwrap_or_default();
        fs::copy(deb, root.path("/tmp").join(name)).map_err(at(deb))?;
        run(root.command(&["dpkg", "--install", &format!("/tmp/{}", name.to_string_lossy())]))
    };

    let older = home.path.join("older");
    make_folder(&older)?;
    build(packaged, &stage.join("deb"), "0.0.1", &older)?;
    let said = install(&file(&older, "0.0.1"))?.out;
    check(NAME, said.contains("systemctl enable --now longhaul"), said)?;
    let said = run(root.command(&["longhaul", "--version"]))?.out;
    check(NAME, said.starts_with(&format!("longhaul {VERSION}")), said)?;
    let said = run(root.command(&["stat", "--format=%U %G %a", "/var/lib/longhaul"]))?.out;
    check(NAME, said.trim() == "longhaul longhaul 700", said)?;
    let said = run(root.command(&["longhaul", "check", "/etc/longhaul/jobs.toml"]))?;
    check(
        NAME,
        !said.out.contains("warning") && !said.err.contains("warning"),
        said.out + &said.err,
    )?;

    // A colleague with a key, and a task that lives through an upgrade.
    let configuration = root.path("/etc/longhaul/jobs.toml");
    let edited = fs::read_to_string(&configuration).map_err(at(&configuration))? + SLOW_TOOL;
    fs::write(&configuration, &edited).map_err(at(&configuration))?;
    let (mut server, address) = root.serve(&home, "127.0.0.1:0")?;
    let key = run(root.as_service(&["longhaul", "keys", "add", "/etc/longhaul/jobs.toml", "alice"]))?.out;
    let colleague = |words: &[&str]| {
        let mut command = root.command(words);
        command.env("HOME", "/root");
        command
    };
    let uid = run(root.command(&["id", "--user", "longhaul"]))?.out;
    let entry = format!("[servers.jobs]\nurl = \"http://{address}/mcp\"\nuid = {uid}");
    write(&root.path("/root/.config/longhaul/servers.toml"), entry.as_bytes())?;
    write(&root.path("/tmp/key"), key.as_bytes())?;
    // The server reads new keys on a timer.
    let login = || colleague(&["sh", "-c", "longhaul login --key jobs < /tmp/key"]);
    let known = clock::wait_for(super::installed::STOP, || process::answers(&mut login()).then_some(()));
    check(NAME, known.is_some(), "the server does not know the key")?;
    let said = run(colleague(&[
        "longhaul",
        "call",
        "jobs",
        "hash_tree",
        "path=/etc/longhaul",
    ]))?
    .out;
    check(NAME, said.contains("/etc/longhaul/jobs.toml"), said)?;
    let task = run(colleague(&["longhaul", "call", "--detach", "jobs", "wait"]))?.out;
    install(&file(out, VERSION))?;
    server.stop(super::installed::STOP)?;
    let kept = fs::read_to_string(&configuration).map_err(at(&configuration))?;
    check(NAME, kept == edited, "the upgrade changed an edited configuration")?;
    let (mut server, _) = root.serve(&home, &address)?;
    write(&root.path("/tmp/go"), b"")?;
    let said = run(colleague(&["longhaul", "task", "jobs", task.trim(), "--wait"]))?.out;
    check(NAME, said.contains("gone"), said)?;
    server.stop(super::installed::STOP)?;

    run(root.command(&["dpkg", "--remove", "longhaul"]))?;
    check(NAME, configuration.exists(), "a removal takes the configuration")?;
    let said = run(root.command(&["dpkg", "--purge", "longhaul"]))?.out;
    check(NAME, said.contains("left in /var/lib/longhaul"), said)?;
    check(
        NAME,
        root.path("/var/lib/longhaul/data").exists(),
        "a purge takes the data",
    )?;
    check(
        NAME,
        !root.path("/etc/longhaul").exists(),
        "a purge leaves the configuration",
    )?;
    check(
        NAME,
        !root.path("/usr/bin/longhaul").exists(),
        "the program is not removed",
    )?;
    home.remove()
}
