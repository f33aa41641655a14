//! The systemd unit in `contrib`, and the configuration of docs/service.md.

use super::support::*;
use std::{fs, path::Path, process::Command};

const UNIT: &str = "../../contrib/longhaul.service";

/// The program of `systemd` that reads units. It must be installed; `cargo xtask test` does that.
#[test]
fn the_unit_is_one_that_systemd_reads_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(UNIT).unwrap();
    let installed = unit.replace("/usr/local/bin/longhaul", env!("CARGO_BIN_EXE_longhaul"));
    assert_ne!(unit, installed);
    let path = folder.path().join("longhaul.service");
    fs::write(&path, installed).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg("--man=no")
        .arg(&path)
        .output();
    let verified = verified.expect("systemd-analyze is needed: install the package systemd");
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    verified.ends(0);
    said.lacks("longhaul.service");
    for line in [
        "KillMode=process",
        "User=longhaul",
        "StateDirectory=longhaul",
        "ExecReload=",
    ] {
        assert!(unit.lines().any(|written| written.starts_with(line)), "{line}");
    }
    // Commands that outlive a restart would lose what they have in /tmp.
    assert!(!unit.lines().any(|line| line.starts_with("PrivateTmp=")));
}

/// The server runs as the unit starts it: with its `ExecStart`, in an environment without more than systemd gives, and reloads and stops as the unit says.
#[test]
fn what_the_unit_starts_serves_the_configuration_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = fs::read_to_string("../../docs/service.md").unwrap();
    let toml = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let certified = rcgen::generate_simple_self_signed(["mcp.example.com".to_owned()]).unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("fullchain.pem"), certified.cert.pem()).unwrap();
    fs::write(place("privkey.pem"), certified.signing_key.serialize_pem()).unwrap();
    let toml = toml
        .replace("/etc/longhaul", folder.path().to_str().unwrap())
        .replace("/var/lib/longhaul", folder.path().to_str().unwrap());
    fs::write(place("jobs.toml"), toml).unwrap();
    let jobs = place("jobs.toml");
    let checked = run(&["check", "--offline", jobs.to_str().unwrap()]);
    let said = stderr(&checked).to_owned() + stdout(&checked);
    checked.ends(0);
    said.lacks("is not a").lacks("warning: jobs.toml");

    let unit = fs::read_to_string(UNIT).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words, ["/usr/local/bin/longhaul", "serve", "/etc/longhaul/jobs.toml"]);
    let mut command = longhaul(&["serve", jobs.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(folder.path());
    let text = fs::read_to_string(&jobs)
        .unwrap()
        .replace("127.0.0.1:7412", "127.0.0.1:0");
    fs::write(&jobs, text).unwrap();
    let mut server = command.spawn().unwrap();
    let doctor = || run(&["admin", "stats", jobs.to_str().unwrap()]);
    while exit(&doctor()) != 0 {
        assert!(server.try_wait().unwrap().is_none(), "{:?}", server.wait_with_output());
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert_eq!(exit(&doctor()), 0);
    assert!(Path::new(&place("data")).exists());
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}
