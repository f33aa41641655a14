//! The text of a unit, made of the one for the whole machine in `contrib`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// `contrib/longhaul.service`, by a link, so that it is in the package of this crate, too.
const TEMPLATE: &str = include_str!("longhaul.service");
/// The line by which a unit is known to be of this command begins so, and ends with its configuration file.
pub(super) const MARKER: &str = "# longhaul-service: ";

/// A path that a unit cannot name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnitError {
    #[error(
        "a systemd unit cannot name {path:?}: it has a line break or another control character, a space at its end or a backslash there; rename it"
    )]
    Path { path: PathBuf },
    #[error(
        "systemd starts no program whose path has quotes or a backslash, such as this one, {path:?}: copy it to another place, such as /usr/local/bin"
    )]
    Program { path: PathBuf },
}

/// Whose service manager runs a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manager {
    /// That of this user.
    User {
        /// Variables of this shell that the server needs to find what it finds now.
        variables: Vec<(&'static str, String)>,
    },
    /// That of the machine.
    System {
        /// As whom the server and its commands run.
        user: String,
        /// What they may write to, beside the folders for temporary files.
        writable: Vec<PathBuf>,
    },
}

/// What a unit runs.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    /// Of the server.
    pub(super) name: &'a str,
    /// This program.
    pub(super) program: &'a Path,
    /// The configuration file, as an absolute path.
    pub(super) file: &'a Path,
    pub(super) manager: &'a Manager,
}

impl Unit<'_> {
    /// The text of the unit.
    ///
    /// # Errors
    /// [`UnitError`].
    pub(super) fn text(&self) -> Result<String, UnitError> {
        let file = value(self.file)?;
        let program = value(self.program)?;
        if program.contains(['"', '\'', '\\']) {
            let path = self.program.to_owned();
            return Err(UnitError::Program { path });
        }
        let mut text = format!(
            "# Written by `longhaul service install`. `longhaul service uninstall` removes it; `systemctl edit` changes it.\n{MARKER}{file}\n\n"
        );
        let start = TEMPLATE.find("[Unit]").unwrap_or_default();
        // Comments stand before what they are about.
        let mut comments = String::new();
        for line in TEMPLATE[start..].lines() {
            if line.starts_with('#') {
                let _ = writeln!(comments, "{line}");
                continue;
            }
            if let Some(line) = self.line(line)? {
                let _ = writeln!(text, "{comments}{line}");
            }
            comments.clear();
        }
        while text.contains("\n\n\n") {
            text = text.replace("\n\n\n", "\n\n");
        }
        Ok(text)
    }

    /// What stands in the place of a line; `None` to leave it out.
    fn line(&self, line: &str) -> Result<Option<String>, UnitError> {
        let Some((key, given)) = line.split_once('=') else {
            return Ok(Some(line.to_owned()));
        };
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let written = match (key, self.manager) {
            ("Description", _) => format!("{given} ({})", self.name),
            ("WorkingDirectory", Manager::User { variables }) => {
                let lines = variables.iter().map(|(name, text)| {
                    let assigned = quoted(&format!("{name}={text}"));
                    format!("\nEnvironment={assigned}")
                });
                let folder = escaped_percent(&value(folder)?);
                return Ok(Some(format!("{key}={folder}{}", lines.collect::<String>())));
            }
            ("WorkingDirectory", Manager::System { .. }) => escaped_percent(&value(folder)?),
            ("ExecStart", _) => {
                let program = escaped_percent(&value(self.program)?);
                // A variable is replaced in arguments only.
                let file = quoted(&value(self.file)?).replace('$', "$$");
                format!("\"{program}\" serve {file}")
            }
            ("ExecReload" | "KillMode" | "Restart" | "RestartSec" | "TimeoutStopSec" | "LimitNOFILE", _) => {
                given.to_owned()
            }
            ("WantedBy", Manager::User { .. }) => "default.target".to_owned(),
            // The manager of a user can take nothing away from what the user may do without breaking what the commands are used to.
            (_, Manager::User { .. }) => return Ok(None),
            ("Group" | "StateDirectory" | "StateDirectoryMode", _) => return Ok(None),
            ("User", Manager::System { user, .. }) => user.clone(),
            ("ReadWritePaths", Manager::System { writable, .. }) => {
                let mut paths = given.to_owned();
                for path in writable {
                    let _ = write!(paths, " {}", quoted(&value(path)?));
                }
                paths
            }
            (_, Manager::System { .. }) => given.to_owned(),
        };
        Ok(Some(format!("{key}={written}")))
    }
}

/// The configuration file of a unit of this command; `None` if the unit is another's.
pub(super) fn configured(text: &str) -> Option<&Path> {
    text.lines().find_map(|line| line.strip_prefix(MARKER)).map(Path::new)
}

/// A path that can stand at the end of a line.
fn value(path: &Path) -> Result<String, UnitError> {
    let text = path.to_str().filter(|text| {
        let is_kept = text.trim() == *text && !text.ends_with('\\');
        is_kept && !text.chars().any(char::is_control)
    });
    let text = text.ok_or_else(|| UnitError::Path { path: path.to_owned() })?;
    Ok(text.to_owned())
}

/// `%` begins a specifier.
fn escaped_percent(text: &str) -> String {
    text.replace('%', "%%")
}

/// One word of a list, or of a command line.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped_percent(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &str, manager: &Manager) -> String {
        let unit = Unit {
            name: "jobs",
            program: Path::new("/opt/a b/$x/100%/longhaul"),
            file: Path::new(file),
            manager,
        };
        unit.text().unwrap()
    }

    fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .filter(|(known, _)| *known == key)
            .map(|(_, value)| value)
            .collect()
    }

    fn user() -> Manager {
        Manager::User { variables: Vec::new() }
    }

    fn system() -> Manager {
        Manager::System {
            user: "ada".to_owned(),
            writable: vec!["/srv/a \"b\"".into(), "/srv/100%".into()],
        }
    }

    #[test]
    fn odd_paths_are_written_as_systemd_reads_them() {
        let file = "/srv/a \"b\" 'c'/100% $HOME ${x}\\d/jobs é.toml";
        let text = text(file, &user());
        let expected = [r#""/opt/a b/$x/100%%/longhaul" serve "/srv/a \"b\" 'c'/100%% $$HOME $${x}\\d/jobs é.toml""#];
        assert_eq!(values(&text, "ExecStart"), expected);
        let folder = r#"/srv/a "b" 'c'/100%% $HOME ${x}\d"#;
        assert_eq!(values(&text, "WorkingDirectory"), [folder]);
        assert_eq!(configured(&text), Some(Path::new(file)));
        for odd in [
            "/srv/a\nb/jobs.toml",
            "/srv/b /jobs.toml",
            "/srv/b\\/jobs.toml",
            "/srv/a\u{7f}/jobs.toml",
        ] {
            let (program, file, manager) = (Path::new("/bin/longhaul"), Path::new(odd), &user());
            let unit = Unit {
                name: "jobs",
                program,
                file,
                manager,
            };
            assert!(matches!(unit.text(), Err(UnitError::Path { .. })), "{odd:?}");
            let unit = Unit {
                program: Path::new("/opt/it's/longhaul"),
                file: program,
                ..unit
            };
            assert!(matches!(unit.text(), Err(UnitError::Program { .. })));
        }
    }

    /// What is changed in `contrib` must be found here.
    #[test]
    fn a_service_of_the_system_is_the_unit_of_the_repository_for_another_user_and_file() {
        let text = text("/srv/jobs.toml", &system());
        assert_eq!(values(&text, "User"), ["ada"]);
        let writable = r#"/tmp /var/tmp "/srv/a \"b\"" "/srv/100%%""#;
        assert_eq!(values(&text, "ReadWritePaths"), [writable]);
        let description = "Longhaul: durable tasks for long MCP tool calls (jobs)";
        assert_eq!(values(&text, "Description"), [description]);
        let changed = ["Description", "User", "WorkingDirectory", "ExecStart", "ReadWritePaths"];
        let left_out = ["Group", "StateDirectory", "StateDirectoryMode"];
        for line in TEMPLATE.lines().filter(|line| !line.starts_with('#')) {
            let key = line.split('=').next().unwrap();
            let is_kept = text.lines().any(|written| written == line);
            assert_eq!(is_kept, !changed.contains(&key) && !left_out.contains(&key), "{line}");
        }
        for key in changed.iter().chain(&left_out) {
            assert_eq!(values(TEMPLATE, key).len(), 1, "{key}");
        }
    }

    #[test]
    fn a_service_of_a_user_restricts_nothing_and_spares_commands() {
        let variables = vec![("PATH", "/a b:/c%d".to_owned())];
        let text = text("/srv/jobs.toml", &Manager::User { variables });
        for key in "User ProtectSystem CapabilityBoundingSet UMask After Group".split(' ') {
            assert!(values(&text, key).is_empty(), "{key}");
        }
        assert_eq!(values(&text, "KillMode"), ["process"]);
        assert_eq!(values(&text, "WantedBy"), ["default.target"]);
        assert_eq!(values(&text, "Environment"), [r#""PATH=/a b:/c%%d""#]);
        assert_eq!(values(&text, "ExecReload"), values(TEMPLATE, "ExecReload"));
        assert!(!text.contains("\n\n\n") && !text.contains("DynamicUser"), "{text}");
    }

    #[test]
    fn a_unit_of_somebody_else_is_known_as_such() {
        assert_eq!(configured(TEMPLATE), None);
        let marked = format!("x\n{MARKER}/a b.toml\n");
        assert_eq!(configured(&marked), Some(Path::new("/a b.toml")));
    }
}
