//! The archive, and the script that installs it.

use super::{
    DistError, HOMEPAGE, VERSION, at, check,
    installed::{FileServer, Home, InstalledProgram, Output},
    make_folder,
    program::{self, PackagedProgram},
    share::{self, Layout},
    source, write, write_program,
};
use harness::process;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const NAME: &str = "archive";
const LAYOUT: Layout = Layout {
    man: "man/man1",
    bash: "bash-completion/completions/longhaul",
    zsh: "zsh/site-functions/_longhaul",
    fish: "fish/vendor_completions.d/longhaul.fish",
};
/// The record of what is installed, for `uninstall.sh`.
const FILES: &str = "share/longhaul/files";

/// The archive's name without its ending, which is also that of the folder in it.
pub(super) fn name() -> String {
    format!("longhaul-{VERSION}-{}", program::target())
}

/// Where `install.sh` downloads from.
pub(super) fn download() -> String {
    format!("{HOMEPAGE}/releases/{VERSION}")
}

/// Makes the archive and `install.sh`.
pub(super) fn make(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    let name = name();
    let folder = stage.join(&name);
    let share = folder.join("share");
    write_program(
        &folder.join("bin/longhaul"),
        &fs::read(&packaged.path).map_err(at(&packaged.path))?,
    )?;
    share::write_pages(packaged, &LAYOUT, &share)?;
    let documents = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
    share::copy_sources(&documents, &share.join("doc/longhaul"))?;
    share::copy_sources(&["examples/quickstart.toml"], &share.join("doc/longhaul/examples"))?;
    share::copy_sources(
        &["contrib/longhaul.service", "packaging/uninstall.sh"],
        &share.join("longhaul"),
    )?;
    write(&folder.join(FILES), files(&folder)?.as_bytes())?;
    let archive = out.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u=rwX,go=rX",
    ]);
    tar.arg(format!("--mtime=@{}", packaged.time));
    tar.arg("--use-compress-program")
        .arg(format!("xz {} --threads=0", packaged.xz_level()));
    tar.arg("--file").arg(&archive).arg("--directory").arg(stage).arg(&name);
    process::run(&mut tar)?;
    let script = source("packaging/install.sh")?
        .replace("@VERSION@", VERSION)
        .replace("@DOWNLOAD@", &download());
    write_program(&out.join("install.sh"), script.as_bytes())
}

/// The paths of all files below a folder, and of this list, one a line.
fn files(folder: &Path) -> Result<String, DistError> {
    let mut found = vec![FILES.to_owned()];
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(at(&next))? {
            let path = entry.map_err(at(&next))?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.extend(path.strip_prefix(folder).ok().map(|path| path.display().to_string())),
            }
        }
    }
    found.sort();
    Ok(found.join("\n") + "\n")
}

/// Installs the archive on a machine without curl, where wget does it.
fn install_with_wget(home: &Home, out: &Path) -> Result<Output, DistError> {
    let programs = home.path.join("programs");
    make_folder(&programs)?;
    let from = Path::new("/usr/bin");
    for program in fs::read_dir(from).map_err(at(from))? {
        let program = program.map_err(at(from))?;
        if program.file_name() != "curl" {
            let link = programs.join(program.file_name());
            std::os::unix::fs::symlink(program.path(), &link).map_err(at(&link))?;
        }
    }
    let server = FileServer::start(out)?;
    let mut install = home.command("sh");
    install.arg(out.join("install.sh"));
    install.env("PATH", &programs).env("LONGHAUL_DOWNLOAD", &server.url);
    home.output(&mut install)
}

/// Installs the archive from a server on loopback into an empty home, uses it, and removes it.
pub(super) fn test(out: &Path) -> Result<(), DistError> {
    let scripts = ["install.sh", "uninstall.sh"].map(|name| format!("packaging/{name}"));
    process::run(
        Command::new("shellcheck")
            .args(scripts)
            .current_dir(harness::workspace::root()),
    )?;
    let home = Home::create(NAME)?;
    let install = |folder: &Path, words: &[&str]| {
        let server = FileServer::start(folder)?;
        let mut install = home.command("sh");
        install
            .arg(out.join("install.sh"))
            .args(words)
            .env("LONGHAUL_DOWNLOAD", &server.url);
        home.output(&mut install)
    };

    let wrong = home.path.join("wrong");
    let archive = format!("{}.tar.xz", name());
    write(
        &wrong.join("SHA256SUMS"),
        format!("{}  {archive}\n", "0".repeat(64)).as_bytes(),
    )?;
    fs::copy(out.join(&archive), wrong.join(&archive)).map_err(at(&wrong))?;
    let refused = install(&wrong, &[])?;
    check(
        NAME,
        refused.code == Some(1) && refused.err.contains("nothing is installed"),
        &refused.err,
    )?;
    let local = home.path.join(".local");
    check(NAME, !local.exists(), "a wrong sum left files")?;
    let left = fs::read_dir(&home.temporary).map_err(at(&home.temporary))?.count();
    check(NAME, left == 0, "a wrong sum left temporary files")?;
    let other = FileServer::start(&home.path)?;
    let mut missing = home.command("sh");
    missing.arg(out.join("install.sh")).env("LONGHAUL_DOWNLOAD", &other.url);
    let missing = home.output(&mut missing)?;
    check(
        NAME,
        missing.code == Some(1) && missing.err.contains("SHA256SUMS cannot be downloaded"),
        &missing.err,
    )?;

    // Twice: the second time over the first, with a file that is in no release any more.
    install(out, &[])?.expect(NAME)?;
    let stale = "share/longhaul/stale";
    write(&local.join(stale), b"")?;
    let record = local.join(FILES);
    let older = fs::read_to_string(&record).map_err(at(&record))? + stale + "\n";
    fs::write(&record, older).map_err(at(&record))?;
    let done = install_with_wget(&home, out)?.expect(NAME)?;
    check(
        NAME,
        !local.join(stale).exists(),
        "an upgrade left a file of the older release",
    )?;
    let installed = InstalledProgram {
        artefact: NAME,
        home: &home,
        words: vec![local.join("bin/longhaul").into()],
    };
    installed.answers_version()?;
    installed.completes(&local.join("share"), &LAYOUT)?;
    installed.serves(&local.join("share/doc/longhaul/examples/quickstart.toml"))?;
    installed.wraps()?;

    let uninstall = done
        .out
        .lines()
        .find_map(|line| line.trim().strip_prefix("to uninstall"));
    let uninstall = uninstall.unwrap_or_default().trim();
    let removed = home.output(home.command("sh").args(["-c", uninstall]))?.expect(NAME)?;
    check(NAME, !local.join("bin").exists(), "the program is not removed")?;
    check(NAME, !local.join("share").exists(), "files are left in share")?;
    let data: PathBuf = home.path.join(".local/state/longhaul");
    check(NAME, data.join("quickstart").exists(), "the data is gone")?;
    check(NAME, removed.out.contains(&data.display().to_string()), removed.out)?;
    home.remove()
}
