//! Runs one test of this program in its own process, so that it can be killed or limited.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const DIRECTORY: &str = "LONGHAUL_TEST_DIRECTORY";
const PLANT: &str = "LONGHAUL_TEST_PLANT";

/// The command line that runs only the ignored test `name` of this program, on `directory`.
pub(crate) fn command(name: &str, directory: &Path, plant: bool) -> Command {
    under(&[], name, directory, plant)
}

/// The same, started by another program such as `sh -c "…; exec \"$@\"" sh`.
pub(crate) fn under(starter: &[&str], name: &str, directory: &Path, plant: bool) -> Command {
    let program = env::current_exe().unwrap();
    let mut command = match starter {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(PLANT, if plant { "1" } else { "" })
        .stdin(Stdio::null());
    command
}

/// The directory that the parent named; `None` when someone runs ignored tests by hand.
pub(crate) fn directory() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Whether the parent wants the fault planted.
pub(crate) fn planted() -> bool {
    env::var_os(PLANT).is_some_and(|value| value == "1")
}
