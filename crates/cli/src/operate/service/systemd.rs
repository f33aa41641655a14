//! The programs of systemd that are asked.

use std::{
    fmt, io,
    process::{Command, Output, Stdio},
};

/// Whose units they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Of this user.
    User,
    /// Of the machine.
    System,
}

/// A program of systemd has failed.
#[derive(Debug, thiserror::Error)]
#[error("`{command}` has failed: {why}")]
pub(crate) struct SystemdError {
    command: String,
    why: String,
}

/// How a unit stands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnitState {
    /// `active`, `inactive`, `failed`, `activating`, …
    pub(super) active: String,
    /// Such as `running` or `auto-restart`.
    pub(super) sub: String,
    /// `enabled`, `disabled`, …
    pub(super) file: String,
    /// Since when it is active, RFC 3339.
    pub(super) since: Option<String>,
    pub(super) pid: Option<u32>,
    /// How often it was started again by itself.
    pub(super) restarts: u32,
}

impl UnitState {
    pub(super) fn runs(&self) -> bool {
        ["active", "reloading"].contains(&self.active.as_str())
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.file.starts_with("enabled")
    }

    /// Whether its program has ended, and is not just being started for the first time.
    pub(super) fn has_failed(&self) -> bool {
        self.active == "failed" || self.sub == "auto-restart" || (!self.runs() && self.restarts > 0)
    }

    fn read(shown: &str) -> Self {
        let value = |key: &str| {
            let lines = shown.lines().filter_map(|line| line.split_once('='));
            let mut found = lines.filter(|(known, _)| *known == key);
            found.next().map_or_else(String::new, |(_, value)| value.to_owned())
        };
        Self {
            active: value("ActiveState"),
            sub: value("SubState"),
            file: value("UnitFileState"),
            since: rfc_3339(&value("ActiveEnterTimestamp")),
            pid: value("MainPID").parse().ok().filter(|pid| *pid != 0),
            restarts: value("NRestarts").parse().unwrap_or_default(),
        }
    }
}

/// `Sun 2026-11-29 17:16:21 UTC` as other commands write times.
fn rfc_3339(shown: &str) -> Option<String> {
    let mut words = shown.split(' ');
    match (words.next()?, words.next()?, words.next()?, words.next()?) {
        (_, date, time, "UTC") => Some(format!("{date}T{time}.000Z")),
        _ => None,
    }
}

impl Scope {
    /// As systemd's programs take it.
    fn option(self) -> &'static str {
        match self {
            Self::User => "--user",
            Self::System => "--system",
        }
    }

    /// As people type it: that of the machine is meant without a word.
    pub(super) fn typed(self) -> &'static str {
        match self {
            Self::User => " --user",
            Self::System => "",
        }
    }

    /// How people read the log of a unit.
    pub(super) fn log_command(self, unit: &str) -> String {
        format!("journalctl{} -u {unit}", self.typed())
    }

    /// Why there is no service manager to be asked.
    pub(super) fn absence(self) -> Option<String> {
        let output = match command("systemctl", &[self.option(), "is-system-running"]).output() {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some("there is no `systemctl`".to_owned()),
            Err(error) => return Some(format!("`systemctl` cannot be run: {error}")),
        };
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match said.as_str() {
            "initializing" | "starting" | "running" | "degraded" | "maintenance" | "stopping" => None,
            "" | "offline" | "unknown" if self == Self::System => Some("systemd does not run this machine".to_owned()),
            _ => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                let why = [said, why]
                    .into_iter()
                    .rfind(|text| !text.is_empty())
                    .unwrap_or_default();
                Some(format!("the systemd of this user does not answer ({why})"))
            }
        }
    }

    /// Has `systemctl` do something.
    pub(super) fn control(self, words: &[&str]) -> Result<String, SystemdError> {
        run("systemctl", &[&[self.option()], words].concat())
    }

    pub(super) fn state(self, unit: &str) -> Result<UnitState, SystemdError> {
        const PROPERTIES: &str = "--property=ActiveState,SubState,UnitFileState,ActiveEnterTimestamp,MainPID,NRestarts";
        Ok(UnitState::read(&self.control(&["show", PROPERTIES, unit])?))
    }

    /// The last lines of the log of a unit.
    pub(super) fn log(self, unit: &str, lines: u32) -> String {
        let lines = format!("--lines={lines}");
        let words = [self.option(), "--unit", unit, &lines, "--no-pager", "--output=cat"];
        run("journalctl", &words).unwrap_or_else(|error| error.to_string())
    }
}

/// Whether services of this user run while nobody is logged in; `None` if that is not known.
pub(super) fn lingers() -> Option<bool> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let shown = run("loginctl", &["show-user", &user, "--property=Linger"]).ok()?;
    match shown.trim() {
        "Linger=yes" => Some(true),
        "Linger=no" => Some(false),
        _ => None,
    }
}

/// An entry of the system's users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) home: std::path::PathBuf,
}

/// The user with this id.
pub(super) fn account(user: u32) -> Result<Account, SystemdError> {
    let entry = run("getent", &["passwd", &user.to_string()])?;
    let fields: Vec<&str> = entry.trim_end().split(':').collect();
    match fields[..] {
        [name, _, _, _, _, home, _] => Ok(Account {
            name: name.to_owned(),
            home: home.into(),
        }),
        _ => Err(SystemdError {
            command: format!("getent passwd {user}"),
            why: format!("it says {entry:?}"),
        }),
    }
}

/// Times are read, and messages are shown.
fn command(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command.stdin(Stdio::null());
    command
}

fn run(program: &str, words: &[&str]) -> Result<String, SystemdError> {
    let failed = |why: &dyn fmt::Display| SystemdError {
        command: [&[program], words].concat().join(" "),
        why: why.to_string(),
    };
    let Output { status, stdout, stderr } = command(program, words).output().map_err(|error| failed(&error))?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            Err(match said.is_empty() {
                true => failed(&status),
                false => failed(&said),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_unit_is_read_from_what_systemctl_shows() {
        let shown = "MainPID=42\nNRestarts=0\nActiveState=active\nSubState=running\nUnitFileState=enabled\nActiveEnterTimestamp=Sun 2026-11-29 17:16:21 UTC\n";
        let state = UnitState::read(shown);
        assert!(state.runs() && state.is_enabled() && !state.has_failed());
        assert_eq!(state.since.as_deref(), Some("2026-11-29T17:16:21.000Z"));
        assert_eq!(state.pid, Some(42));
        let state = UnitState::read(
            "ActiveState=activating\nSubState=auto-restart\nNRestarts=1\nActiveEnterTimestamp=\nMainPID=0\n",
        );
        assert!(!state.runs() && !state.is_enabled() && state.has_failed());
        assert_eq!((state.since, state.pid), (None, None));
        assert!(!UnitState::read("ActiveState=activating\nSubState=start\nNRestarts=0").has_failed());
    }
}
