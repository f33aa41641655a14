//! `longhaul service`, with programs in the place of systemd's that record how they are called and start what the unit says.

use super::support::*;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// It has one unit.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/calls"
shift
runs() { [ -e "$FAKE/pid" ] && grep -q '^State:.[^ZX]' "/proc/$(cat "$FAKE/pid")/status" 2>/dev/null; }
stop() { runs && kill "$(cat "$FAKE/pid")" && while runs; do sleep 0.02; done; rm -f "$FAKE/pid"; }
start() {
    if [ -e "$FAKE/broken" ]; then touch "$FAKE/failed"; return; fi
    command=$(sed -n 's/^ExecStart=//p' "$FAKE_UNITS/$1")
    (eval "exec $command") </dev/null >> "$FAKE/log" 2>&1 &
    echo $! > "$FAKE/pid"
}
case $1 in
is-system-running)
    cat "$FAKE/running" 2>/dev/null || echo running
    [ ! -e "$FAKE/running" ] ;;
show)
    if runs; then echo "ActiveState=active"; echo "SubState=running"; echo "MainPID=$(cat "$FAKE/pid")"
    elif [ -e "$FAKE/failed" ]; then echo "ActiveState=failed"
    else echo "ActiveState=inactive"; echo "SubState=dead"; fi
    [ -e "$FAKE/enabled" ] && echo "UnitFileState=enabled"
    echo "ActiveEnterTimestamp=Sun 2026-11-29 17:16:21 UTC"
    echo "NRestarts=0" ;;
enable) touch "$FAKE/enabled"; runs || start "$3" ;;
restart) stop; start "$2" ;;
disable) rm -f "$FAKE/enabled"; stop ;;
esac
exit 0
"#;
const JOURNALCTL: &str = "#!/bin/sh\necho \"$*\" >> \"$FAKE/journal\"\necho the disk is on fire\n";
const LOGINCTL: &str = "#!/bin/sh\necho Linger=no\n";

/// A machine with systemd, as far as `longhaul service` can tell.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let programs = [
            ("systemctl", SYSTEMCTL),
            ("journalctl", JOURNALCTL),
            ("loginctl", LOGINCTL),
        ];
        for (name, text) in programs {
            let program = machine.path("bin").join(name);
            fs::create_dir_all(machine.path("bin")).unwrap();
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine.configure("jobs");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        // Without links, as units name it.
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn configure(&self, name: &str) {
        let socket = self.path("data/mcp.sock");
        let server = format!(
            "[server]\nname = \"{name}\"\ndata_dir = \"data\"\nlisten = \"unix:{}\"\n",
            socket.display()
        );
        let tool = "[[tool]]\nname = \"say\"\ndescription = \"says it\"\ncommand = [\"echo\", \"hi\"]\n";
        fs::write(self.path("jobs.toml"), server + tool).unwrap();
    }

    /// The folder of units, and one in it.
    fn unit(&self, name: &str) -> PathBuf {
        self.path("config/systemd/user").join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let words = [&["service"], words].concat();
        let mut command = longhaul(&words);
        command
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("FAKE", self.path(""))
            .env("FAKE_UNITS", self.unit(""))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("SYSTEMD_UNIT_PATH", self.path("system"))
            .env_remove("SUDO_UID");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// How systemctl was called since the last time, without what only asks.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        let asks = |call: &str| call.contains("is-system-running") || call.contains(" show ");
        calls.lines().filter(|call| !asks(call)).map(str::to_owned).collect()
    }

    fn set(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut stop = Command::new(self.path("bin/systemctl"));
        let _ = stop
            .args(["--user", "disable", "--now"])
            .env("FAKE", self.path(""))
            .output();
    }
}

const INSTALL: [&str; 4] = ["install", "--user", "--yes", "jobs.toml"];
const UNINSTALL: [&str; 4] = ["uninstall", "--user", "--yes", "jobs.toml"];
const STATUS: [&str; 4] = ["status", "--user", "--json", "jobs.toml"];

#[test]
fn a_service_is_installed_runs_and_leaves_only_its_data() {
    let machine = Machine::new();
    let status = machine.run(&STATUS);
    assert_eq!((exit(&status), &json(&status)["installed"]), (4, &Value::Bool(false)));

    let installed = machine.run(&INSTALL);
    assert_eq!(exit(&installed), 0, "{installed:?}");
    installed.prints("longhaul-jobs.service is installed, and runs: `jobs` serves unix:");
    assert!(stderr(&installed).contains("loginctl enable-linger"), "{installed:?}");
    let unit = "longhaul-jobs.service";
    let enable = format!("--user enable --now {unit}");
    assert_eq!(machine.calls(), ["--user daemon-reload", &enable]);
    let text = fs::read_to_string(machine.unit(unit)).unwrap();
    let (folder, file) = (machine.path(""), machine.path("jobs.toml"));
    let (program, folder) = (env!("CARGO_BIN_EXE_longhaul"), folder.display().to_string());
    for line in [
        "KillMode=process".to_owned(),
        "WantedBy=default.target".to_owned(),
        format!("ExecStart=\"{program}\" serve \"{}\"", file.display()),
        format!("WorkingDirectory={}", folder.trim_end_matches('/')),
    ] {
        assert!(text.lines().any(|written| written == line), "{line}\n{text}");
    }
    assert!(!text.lines().any(|line| line.starts_with("User=")), "{text}");

    let status = machine.run(&STATUS);
    let shown = json(&status);
    assert_eq!(exit(&status), 0, "{shown}");
    shown.has_members(json!({"running": true, "enabled": true, "since": "2026-11-29T17:16:21.000Z"}));
    assert_eq!(shown["log"], format!("journalctl --user -u {unit}"));
    let called = run(&["call", machine.path("jobs.toml").to_str().unwrap(), "say"]);
    assert_eq!(stdout(&called), "hi\n", "{called:?}");

    // Once more changes nothing.
    machine.run(&INSTALL).ends(0).prints("was installed already");
    assert!(!machine.calls().iter().any(|call| call.contains("restart")));

    let removed = machine.run(&UNINSTALL);
    assert_eq!(exit(&removed), 0, "{removed:?}");
    let data = machine.path("data");
    removed.prints(&format!("data stay in {}", data.display()));
    assert!(!machine.unit(unit).exists() && data.join("longhaul.db").exists());
    assert_eq!(machine.calls()[0], format!("--user disable --now {unit}"));
    assert_eq!(exit(&machine.run(&STATUS)), 4);
    assert_eq!(exit(&machine.run(&UNINSTALL)), 4);
    assert_eq!(fs::read_dir(machine.unit("")).unwrap().count(), 0);
}

/// A terminal on which one line is typed; what is shown on it, and the exit status.
fn typed(command: Command, line: &str) -> (String, i32) {
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    let mut child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
    pty.write_all(line.as_bytes()).unwrap();
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // It is an error when the last program has closed its end.
    while let Ok(count @ 1..) = pty.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..count]);
    }
    let status = child.wait().unwrap();
    (String::from_utf8(shown).unwrap(), status.code().unwrap())
}

#[test]
fn a_change_of_the_unit_is_shown_and_asked() {
    let machine = Machine::new();
    let install = ["install", "--user", "jobs.toml"];
    assert_eq!(exit(&machine.run(&install)), 2, "nobody can be asked");
    let unit = machine.unit("longhaul-jobs.service");
    let (shown, status) = typed(machine.command(&install), "n\n");
    shown.has("KillMode=process");
    assert!(status == 1 && !unit.exists(), "{shown}");
    let (shown, status) = typed(machine.command(&install), "y\n");
    assert!(status == 0 && unit.exists(), "{shown}");

    let path = "/somewhere/else:/usr/bin:/bin";
    let changed = || {
        let mut command = machine.command(&install);
        let bin = machine.path("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        command
    };
    let before = fs::read_to_string(&unit).unwrap();
    machine.calls();
    let (shown, status) = typed(changed(), "n\n");
    assert_eq!((status, fs::read_to_string(&unit).unwrap()), (1, before.clone()));
    assert!(machine.calls().is_empty());
    for (begin, end) in [("- Environment=\"PATH=", ""), ("+ Environment=\"PATH=", path)] {
        let is_of_it = |line: &str| line.starts_with(begin) && line.trim_end().ends_with(&format!("{end}\""));
        assert!(shown.lines().any(is_of_it), "{begin}: {shown}");
    }
    shown.lacks("KillMode");
    let (shown, status) = typed(changed(), "y\n");
    assert_eq!(status, 0, "{shown}");
    assert_ne!(fs::read_to_string(&unit).unwrap(), before);
    let restart = "--user restart longhaul-jobs.service";
    assert!(machine.calls().iter().any(|call| call == restart));
}

#[test]
fn a_unit_of_somebody_else_is_left_alone() {
    let machine = Machine::new();
    let unit = machine.unit("longhaul-jobs.service");
    fs::create_dir_all(machine.unit("")).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    let uninstall = ["uninstall", "--user", "--yes", "--name", "jobs", "jobs.toml"];
    for words in [&INSTALL[..], &uninstall] {
        machine.run(words).ends(2).says("--name");
    }
    // That of another file with a server of the same name, too.
    let other = fs::read_to_string(&unit).unwrap() + "# longhaul-service: /other/jobs.toml\n";
    fs::write(&unit, &other).unwrap();
    machine.run(&INSTALL).ends(2).says("/other/jobs.toml");
    assert_eq!((fs::read_to_string(&unit).unwrap(), machine.calls()), (other, vec![]));
    // Under another name it is found by its file, also when the server is called otherwise since.
    let installed = machine.run(&[&INSTALL[..], &["--name", "mine"]].concat());
    assert_eq!(exit(&installed), 0, "{installed:?}");
    machine.configure("renamed");
    assert_eq!(json(&machine.run(&STATUS))["unit"], "longhaul-mine.service");
    assert_eq!(exit(&machine.run(&UNINSTALL)), 0);
    assert!(unit.exists() && !machine.unit("longhaul-mine.service").exists());
}

#[test]
fn without_systemd_the_unit_can_still_be_seen() {
    let machine = Machine::new();
    machine.set("running", "offline\n");
    machine.run(&INSTALL).ends(2).says("--dry-run");
    let refused = machine.run(&[&INSTALL[..], &["--json"]].concat());
    assert_eq!(json(refused.ends(2))["error"]["kind"], "usage");
    let shown = machine.run(&["install", "--user", "--dry-run", "jobs.toml"]);
    shown.ends(0).prints("KillMode=process");
    assert!(stderr(&shown).contains("no service can be installed here"), "{shown:?}");
    let shown = json(&machine.run(&["install", "--user", "--json", "jobs.toml"]));
    shown.has_members(json!({"written": false, "changed": true}));
    assert_eq!(shown["path"], machine.unit("longhaul-jobs.service").to_str().unwrap());
    assert!(!machine.path("config").exists());
    // Nor is there any without its programs.
    let mut command = machine.command(&INSTALL);
    command.env("PATH", "/nowhere");
    command.output().unwrap().ends(2).says("there is no `systemctl`");
}

#[test]
fn what_check_refuses_is_not_installed() {
    let machine = Machine::new();
    let valid = fs::read_to_string(machine.path("jobs.toml")).unwrap();
    machine.set("jobs.toml", &valid.replace("command", "comand"));
    machine.run(&INSTALL).ends(2).says("comand");
    // What the machine refuses, too: the socket is another file.
    machine.set("jobs.toml", &valid.replace("data/mcp.sock", "jobs.toml"));
    machine.run(&INSTALL).ends(2).says("another file is there");
    for scope in ["--user", "--system"] {
        assert_eq!(exit(&machine.run(&["install", scope, "--yes", "no-such.toml"])), 2);
    }
    assert!(!machine.path("config").exists() && machine.calls().is_empty());
}

#[test]
fn a_server_that_does_not_start_is_told_with_its_log() {
    let machine = Machine::new();
    machine.set("broken", "");
    let failed = machine.run(&INSTALL);
    failed.ends(1).says("longhaul-jobs.service is failed");
    failed.says("the disk is on fire").says("longhaul service uninstall");
    let status = machine.run(&STATUS);
    assert_eq!((exit(&status), json(&status)["state"].as_str()), (3, Some("failed")));
}

#[test]
fn a_server_that_runs_already_is_not_disturbed() {
    let machine = Machine::new();
    let file = machine.path("jobs.toml");
    let mut child = longhaul(&["serve", file.to_str().unwrap(), "--json"]).spawn().unwrap();
    report(&mut child);
    machine.run(&INSTALL).ends(2).says(&format!("pid {}", child.id()));
    assert!(!machine.path("config").exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// systemd's own reader takes what is written, for this user and for the system.
#[test]
fn a_unit_for_odd_paths_is_one_that_systemd_reads() {
    let machine = Machine::new();
    let odd = machine.path("a \"b\" 'c' 100% $HOME ${x} é\\d");
    fs::create_dir(&odd).unwrap();
    let file = odd.join("my jobs.toml");
    fs::copy(machine.path("jobs.toml"), &file).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let mut scopes = vec!["--user"];
    if is_root {
        chown(&odd, Some(1), Some(1)).unwrap();
        chown(&file, Some(1), Some(1)).unwrap();
        fs::set_permissions(machine.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        scopes.push("--system");
    }
    for scope in scopes {
        let mut command = machine.command(&["install", scope, "--dry-run", "--json"]);
        let shown = json(&command.arg(&file).output().unwrap());
        let text = shown["text"].as_str().unwrap();
        let path = machine.path("longhaul-odd.service");
        fs::write(&path, text).unwrap();
        let mut verify = Command::new("systemd-analyze");
        let verified = verify
            .args([OsStr::new("verify"), OsStr::new("--man=no"), path.as_os_str()])
            .output()
            .expect("systemd-analyze is needed: install the package systemd");
        println!("{text}");
        verified.ends(0).says_no("longhaul-odd");
    }
    let mut command = machine.command(&["install", "--user", "--dry-run"]);
    let line_break = machine.path("a\nb");
    fs::create_dir(&line_break).unwrap();
    fs::copy(machine.path("jobs.toml"), line_break.join("jobs.toml")).unwrap();
    let refused = command.arg(line_break.join("jobs.toml")).output().unwrap();
    refused.ends(2).says("line break");
}

/// As the owner of the data directory, else of the file; as root only if root has run it.
#[test]
fn a_service_of_the_system_is_never_roots_by_accident() {
    let machine = Machine::new();
    let file = machine.path("jobs.toml");
    let install = ["install", "--system", "--json", "jobs.toml"];
    if !rustix::process::geteuid().is_root() {
        let refused = machine.run(&["install", "--system", "--yes", "jobs.toml"]);
        refused.ends(2).says("--user");
        return;
    }
    machine.run(&install).ends(2).says("belongs to root");

    let owned = |path: &Path, user: u32| chown(path, Some(user), Some(user)).unwrap();
    owned(&file, 1);
    machine.run(&install).ends(2).says("install -d -o daemon");
    owned(machine.folder.path(), 1);
    let shown = json(&machine.run(&install));
    assert_eq!(shown["user"], "daemon");
    let text = shown["text"].as_str().unwrap();
    let writable = format!("ReadWritePaths=/tmp /var/tmp \"{}\"", machine.path("").display());
    text.has("\nUser=daemon\n").has(writable.trim_end_matches("/\""));
    let path = machine.path("system/longhaul-jobs.service");
    assert_eq!(shown["path"], path.to_str().unwrap());

    // The data are of another one.
    fs::create_dir(machine.path("data")).unwrap();
    owned(&machine.path("data"), 2);
    assert_eq!(json(&machine.run(&install))["user"], "bin");
    owned(&machine.path("data"), 0);
    let shown = machine.run(&install);
    shown.says("will run as root");
    assert_eq!(json(&shown)["user"], "root");
}
