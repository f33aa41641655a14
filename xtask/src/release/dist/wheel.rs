//! The wheel: the program as a script, so that `uvx` and `pipx` find it.

use super::{
    DistError, HOMEPAGE, VERSION, at, check,
    installed::{Home, InstalledProgram},
    program::{Glibc, PackagedProgram},
    registry, share, source, write, write_program,
};
use crate::peers::interop::peer;
use harness::{process, workspace};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const NAME: &str = "wheel";

/// The first releases of Linux with libgcc 12 have this, so the tags of PEP 600 take it for both.
const WITH_LIBGCC_12: Glibc = Glibc { major: 2, minor: 35 };

/// The platform: PEP 600.
fn platform(packaged: &PackagedProgram) -> String {
    let has_new_libgcc = packaged.libgcc.is_some_and(|version| version >= 12);
    let glibc = match has_new_libgcc {
        true => packaged.glibc.max(WITH_LIBGCC_12),
        false => packaged.glibc,
    };
    format!("manylinux_{}_{}_{}", glibc.major, glibc.minor, env::consts::ARCH)
}

fn tag(packaged: &PackagedProgram) -> String {
    format!("py3-none-{}", platform(packaged))
}

fn file(packaged: &PackagedProgram, out: &Path) -> PathBuf {
    out.join(format!("longhaul-{VERSION}-{}.whl", tag(packaged)))
}

/// Makes the wheel.
pub(super) fn make(packaged: &PackagedProgram, stage: &Path, out: &Path) -> Result<(), DistError> {
    let folder = stage.join("wheel");
    let scripts = folder.join(format!("longhaul-{VERSION}.data/scripts"));
    let information = folder.join(format!("longhaul-{VERSION}.dist-info"));
    write_program(
        &scripts.join("longhaul"),
        &fs::read(&packaged.path).map_err(at(&packaged.path))?,
    )?;
    share::copy_sources(&["LICENSE-MIT", "LICENSE-APACHE"], &information.join("licenses"))?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: longhaul\nVersion: {VERSION}\nSummary: Durable tasks for long-running MCP tool calls\n\
         Keywords: mcp,mcp-server,tasks,durable-execution\nLicense-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\n\
         License-File: LICENSE-MIT\nProject-URL: Homepage, {HOMEPAGE}\nClassifier: Environment :: Console\n\
         Classifier: Operating System :: POSIX :: Linux\nClassifier: Programming Language :: Rust\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{}\n<!-- mcp-name: {} -->\n",
        source("README.md")?,
        registry::NAME
    );
    write(&information.join("METADATA"), metadata.as_bytes())?;
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: longhaul-xtask\nRoot-Is-Purelib: false\nTag: {}\n",
        tag(packaged)
    );
    write(&information.join("WHEEL"), wheel.as_bytes())?;
    let mut pack = python_module("wheel")?;
    pack.arg("pack").arg(&folder).arg("--dest-dir").arg(out);
    Ok(process::run(pack.env("SOURCE_DATE_EPOCH", &packaged.time))?)
}

/// A program in Python that is installed with its version.
fn python_module(name: &str) -> Result<Command, DistError> {
    let mut python = Command::new("python3");
    python.env(
        "PYTHONPATH",
        peer::python_packages_of(&workspace::root().join("packaging/wheel.txt"))?,
    );
    python.args(["-m", name]);
    Ok(python)
}

/// Installs the wheel into a new environment without an index, uses it, and removes it.
pub(super) fn test(packaged: &PackagedProgram, out: &Path) -> Result<(), DistError> {
    let wheel = file(packaged, out);
    let shown = process::read(python_module("auditwheel")?.arg("show").arg(&wheel))?;
    let shown = String::from_utf8_lossy(&shown)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let consistent = platform(packaged);
    check(
        NAME,
        shown.contains(&format!("consistent with the following platform tag: \"{consistent}\"")),
        shown,
    )?;

    let home = Home::create(NAME)?;
    let environment = home.path.join("venv");
    home.output(home.command("python3").args(["-m", "venv"]).arg(&environment))?
        .expect(NAME)?;
    let pip = |words: &[&str]| {
        let mut pip = home.command(environment.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check"]).args(words);
        home.output(&mut pip)?.expect(NAME)
    };
    pip(&[
        "install",
        "--no-index",
        "--find-links",
        &out.to_string_lossy(),
        "longhaul",
    ])?;
    let installed = InstalledProgram {
        artefact: NAME,
        home: &home,
        words: vec![environment.join("bin/longhaul").into()],
    };
    installed.answers_version()?;
    installed.wraps()?;
    let shown = pip(&["show", "--files", "longhaul"])?.out;
    check(NAME, shown.contains("licenses/LICENSE-MIT"), shown)?;
    pip(&["uninstall", "--yes", "longhaul"])?;
    check(
        NAME,
        !environment.join("bin/longhaul").exists(),
        "the program is not removed",
    )?;
    home.remove()
}
