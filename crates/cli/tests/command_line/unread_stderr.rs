//! Nobody reads the server's standard error for a while: a pager, a log collector that hangs, Ctrl-S.

use super::{auth::post, support::*};
use rustix::{
    pipe::fcntl_setpipe_size,
    process::{Pid, Signal, kill_process},
};
use serde_json::json;
use std::{
    fs,
    io::{PipeReader, Read as _, pipe},
    net::SocketAddr,
    process::{Child, Stdio},
};

/// More calls than the smallest pipe takes lines of.
const CALLS: usize = 60;

struct Unread {
    _folder: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
    stderr: PipeReader,
}

impl Unread {
    fn start(audit: &str, format: &str, level: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.toml");
        let jobs = JOBS.replacen("name = \"test\"\n", &format!("name = \"test\"\n{audit}"), 1);
        fs::write(&file, jobs).unwrap();
        fs::write(folder.path().join("gate"), "").unwrap();
        let data = folder.path().join("data");
        let (stderr, unread) = pipe().unwrap();
        fcntl_setpipe_size(&unread, 4096).unwrap();
        let mut child = longhaul(&["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0", "--json"])
            .args(["--log", format, "--data-dir", data.to_str().unwrap()])
            .env("LONGHAUL_LOG", level)
            .stderr(Stdio::from(unread))
            .spawn()
            .unwrap();
        let url = report(&mut child)["url"].as_str().unwrap().to_owned();
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
        Self {
            _folder: folder,
            child,
            address: address.parse().unwrap(),
            stderr,
        }
    }

    fn call(&self) {
        // A task: it logs three lines.
        let gate = json!({"name": "gate", "arguments": {"code": 0}});
        assert_eq!(post(self.address, "", "tools/call", gate).0, 200);
    }

    fn stop(&mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "it hears SIGTERM");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        rest
    }
}

#[test]
fn a_server_goes_on_while_nobody_reads_its_log() {
    for (audit, level) in [("", "info"), ("[server.audit]\nstderr = true\n", "off")] {
        let mut server = Unread::start(audit, "text", level);
        (0..CALLS).for_each(|_| server.call());
        server.stop();
    }
}

/// Once somebody reads again, the log says how much is missing, in its own form.
#[test]
fn the_log_counts_what_it_has_dropped() {
    for (format, told) in [
        ("text", " log lines were dropped here: nobody read standard error\n"),
        ("json", " log lines were dropped here: nobody read standard error\","),
    ] {
        let mut server = Unread::start("", format, "info");
        (0..CALLS).for_each(|_| server.call());
        let mut before = vec![0; 4096];
        assert!(server.stderr.read(&mut before).unwrap() > 0);
        server.call();
        let rest = server.stop();
        assert!(rest.contains(told), "{rest}");
    }
}
