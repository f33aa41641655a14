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
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "-p",
            "longhaul-server",
            "--example",
            "bench",
            "--example",
            "bare",
        ])
        .status();
    assert!(status.unwrap().success(), "the examples do not build");
}

fn example(name: &str) -> PathBuf {
    // …/target/release/deps/durable-1234 → …/target/release/examples/NAME
    let bench = std::env::current_exe().unwrap();
    bench
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(name)
}

impl Server {
    /// The bare axum handler.
    pub(crate) fn bare() -> Self {
        Self::spawn("bare", &[])
    }

    /// Longhaul on SQLite in `directory`.
    pub(crate) fn longhaul(directory: &Path) -> Self {
        Self::spawn("bench", &["--data-dir", directory.to_str().unwrap()])
    }

    pub(crate) fn spawn(name: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(example(name))
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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
