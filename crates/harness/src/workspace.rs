//! The folders of this workspace, and how to build its programs.

use crate::process::{self, ProcessError};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the workspace.
pub fn root() -> &'static Path {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.ancestors().nth(2).unwrap_or(harness)
}

/// The target folder, found from this program's path: `<target>/<profile>/xtask`.
pub fn target() -> PathBuf {
    let program = env::current_exe().ok();
    let target = program.as_deref().and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(|| root().join("target"), Path::to_owned)
}

/// The server, as a development build.
pub fn longhaul() -> Program {
    Program {
        package: "longhaul-cli",
        target: &["--bin", "longhaul"],
        path: "debug/longhaul",
    }
}

/// The server with the tools of the conformance suite.
pub fn fixtures() -> Program {
    Program {
        package: "longhaul",
        target: &["--example", "everything"],
        path: "debug/examples/everything",
    }
}

/// The client that the conformance suite runs.
pub fn conformance_client() -> Program {
    Program {
        package: "longhaul-client",
        target: &["--example", "conformance_client"],
        path: "debug/examples/conformance_client",
    }
}

/// The server with the durable tools of the crash test.
pub fn under_fire() -> Program {
    Program {
        package: "longhaul",
        target: &["--example", "under_fire"],
        path: "debug/examples/under_fire",
    }
}

/// The server with the durable tools that operators act on.
pub fn operated() -> Program {
    Program {
        package: "longhaul",
        target: &["--example", "operated"],
        path: "debug/examples/operated",
    }
}

/// The client that is run against the servers of others.
pub fn interop_client() -> Program {
    Program {
        package: "longhaul-client",
        target: &["--example", "interop_client"],
        path: "debug/examples/interop_client",
    }
}

/// The server with the official Rust SDK.
pub fn interop_rmcp_server() -> Program {
    Program {
        package: "longhaul-interop-rmcp",
        target: &["--bin", "interop-rmcp-server"],
        path: "debug/interop-rmcp-server",
    }
}

/// The client with the official Rust SDK.
pub fn interop_rmcp() -> Program {
    Program {
        package: "longhaul-interop-rmcp",
        target: &["--bin", "interop-rmcp"],
        path: "debug/interop-rmcp",
    }
}

/// The library that slows and fails system calls of a server.
pub fn shim() -> Program {
    Program {
        package: "longhaul-shim",
        target: &["--lib"],
        path: "debug/liblonghaul_shim.so",
    }
}

/// A program of this workspace.
pub struct Program {
    package: &'static str,
    target: &'static [&'static str],
    path: &'static str,
}

impl Program {
    /// The path of the program after a build.
    pub fn path(&self) -> PathBuf {
        self.path_in(&target())
    }

    /// Returns `chosen`, or builds this program and returns its path.
    pub fn or_build(&self, chosen: Option<&PathBuf>) -> Result<PathBuf, ProcessError> {
        if let Some(chosen) = chosen {
            return Ok(chosen.clone());
        }
        process::run(&mut self.build())?;
        Ok(self.path())
    }

    /// The command that builds this program.
    pub fn build(&self) -> Command {
        build(std::slice::from_ref(self))
    }

    /// The path of the program below another target folder.
    pub fn path_in(&self, target: &Path) -> PathBuf {
        target.join(self.path)
    }

    /// The file name of the program.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

/// The command that builds these programs.
pub fn build(programs: &[Program]) -> Command {
    let mut build = cargo();
    build.args(["build", "--locked"]);
    for program in programs {
        build.args(["--package", program.package]).args(program.target);
    }
    build
}

/// Cargo, in the folder of the workspace.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}
