//! Server processes, and what they use.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A server in a process of its own; dropping it ends it.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// Examples are not built for a bench by themselves.
pub(crate) fn build_examples() {
    let examples = ["--example", "bench", "--example", "bare", "--example", "rmcp_tasks"];
    build("longhaul-server", &examples);
}

fn build(package: &str, what: &[&str]) {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "-p", package])
        .args(what)
        .status();
    assert!(status.unwrap().success(), "{package} does not build");
}

/// What a release build has written.
fn built(path: &str) -> PathBuf {
    // …/target/release/deps/durable-1234 → …/target/release/PATH
    let bench = std::env::current_exe().unwrap();
    bench.parent().and_then(Path::parent).unwrap().join(path)
}

fn example(name: &str) -> Command {
    let mut command = Command::new(built(&format!("examples/{name}")));
    command.args(["--listen", "127.0.0.1:0"]);
    command
}

impl Server {
    /// The bare axum handlers.
    pub(crate) fn bare() -> Self {
        Self::spawn(&mut example("bare"))
    }

    /// rmcp, with its tasks in memory.
    pub(crate) fn rmcp() -> Self {
        Self::spawn(&mut example("rmcp_tasks"))
    }

    /// Longhaul on SQLite in `directory`.
    pub(crate) fn longhaul(directory: &Path) -> Self {
        Self::spawn(example("bench").arg("--data-dir").arg(directory))
    }

    /// As [`Self::longhaul`], with each fsync slowed by so many milliseconds. Writes the file that controls the shim.
    pub(crate) fn longhaul_with_slow_fsyncs(directory: &Path, control: &Path, millis: u64) -> Self {
        build("longhaul-shim", &[]);
        // The fourth of ten numbers is the delay of fsyncs in microseconds: crates/shim/README.md.
        let mut numbers = [0; 10];
        numbers[3] = millis * 1000;
        fs::write(control, numbers.map(u64::to_ne_bytes).concat()).unwrap();
        let mut command = example("bench");
        command
            .env("LD_PRELOAD", built("liblonghaul_shim.so"))
            .env("LONGHAUL_SHIM", control);
        Self::spawn(command.arg("--data-dir").arg(directory))
    }

    /// How many fsyncs the shim has slowed.
    pub(crate) fn slowed_fsyncs(control: &Path) -> u64 {
        let numbers = fs::read(control).unwrap();
        u64::from_ne_bytes(numbers[5 * 8..6 * 8].try_into().unwrap())
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        let address = url
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.expect("the server says where it listens").parse().unwrap();
        Self { child, address }
    }

    /// Nanoseconds of CPU its threads have used.
    pub(crate) fn cpu_nanos(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
            .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Resident memory in KiB, mapped files included.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
