//! What would end supervisors together with the server: a container whose main process it is, or a systemd unit.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Something that ends running commands when the server ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hazard {
    /// The server is the container's main process.
    MainProcess,
    /// The container's main process started the server, which looks the same as one whose parent has ended.
    ChildOfMainProcess,
    /// systemd stops everything in the unit.
    Unit {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MainProcess => f.write_str(
                "this server is the main process of a container: when that ends the container ends, and running commands with it",
            ),
            Self::ChildOfMainProcess => f.write_str(
                "the parent of this server is the main process of a container: if that ends when this server ends, as a small init does, the container ends, and running commands with it",
            ),
            Self::Unit { name } => write!(
                f,
                "the systemd unit {name} does not say KillMode=process: stopping it, or a crash of this server, ends running commands too"
            ),
        }
    }
}

/// What would end running commands together with this server, as far as it can be seen. Meant for a warning at start. Only Linux
/// leaves the marks that are looked for.
pub fn hazards() -> Vec<Hazard> {
    HostProcess {
        root: Path::new("/"),
        pid: std::process::id(),
        parent: rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get()),
        started_by_systemd: std::env::var_os("INVOCATION_ID").is_some(),
        user_units: user_units(),
    }
    .hazards()
}

/// The folder for units of this user.
fn user_units() -> Option<PathBuf> {
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let configuration = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(configuration.join("systemd/user"))
}

struct HostProcess<'a> {
    root: &'a Path,
    pid: u32,
    parent: i32,
    started_by_systemd: bool,
    /// Where the service manager of this user finds its units, beside those of the machine.
    user_units: Option<PathBuf>,
}

impl HostProcess<'_> {
    fn hazards(&self) -> Vec<Hazard> {
        let container = match (self.pid, self.parent) {
            (1, _) => Some(Hazard::MainProcess),
            (_, 1) if self.in_container() => Some(Hazard::ChildOfMainProcess),
            _ => None,
        };
        let unit = self
            .unit()
            .filter(|unit| !self.spares_children(unit))
            .map(|name| Hazard::Unit { name });
        container.into_iter().chain(unit).collect()
    }

    /// The marks the common container runtimes leave.
    fn in_container(&self) -> bool {
        let marks = [".dockerenv", "run/.containerenv", "run/systemd/container"];
        marks.iter().any(|mark| self.root.join(mark).exists()) || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
    }

    /// The path of our cgroup.
    fn cgroup(&self) -> Option<String> {
        let cgroup = std::fs::read_to_string(self.root.join("proc/self/cgroup")).ok()?;
        let own = cgroup.lines().find_map(|line| {
            line.strip_prefix("0::")
                .or_else(|| line.split_once("name=systemd:").map(|(_, path)| path))
        });
        own.map(str::to_owned)
    }

    /// The service we run in. A terminal inherits the variable too, but runs in a scope.
    fn unit(&self) -> Option<String> {
        let own = self.cgroup()?;
        let name = own.rsplit('/').next()?;
        (self.started_by_systemd && name.ends_with(".service")).then(|| name.to_owned())
    }

    fn spares_children(&self, unit: &str) -> bool {
        let of_machine = [
            "run/systemd/transient",
            "etc/systemd/system",
            "run/systemd/system",
            "usr/lib/systemd/system",
            "lib/systemd/system",
        ];
        let of_users = ["etc/systemd/user", "run/systemd/user", "usr/lib/systemd/user"];
        let is_users = self.cgroup().is_some_and(|own| own.contains("/user@"));
        let folders: Vec<&Path> = match is_users {
            false => of_machine.iter().map(Path::new).collect(),
            true => (self.user_units.as_deref().into_iter())
                .chain(of_users.iter().map(Path::new))
                .collect(),
        };
        // A template's instance is described by the file without its name.
        let template = unit.split_once('@').map(|(name, _)| format!("{name}@.service"));
        let mut mode = None;
        for name in template.into_iter().chain([unit.to_owned()]) {
            let files = folders
                .iter()
                .map(|folder| self.root.join(folder).join(&name))
                .find(|file| file.exists());
            let drop_ins = folders
                .iter()
                .flat_map(|folder| conf_files(&self.root.join(folder).join(format!("{name}.d"))));
            for file in files.into_iter().chain(drop_ins) {
                mode = kill_mode(&file).or(mode);
            }
        }
        mode.is_some_and(|mode| mode == "process" || mode == "none")
    }
}

fn conf_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    files.sort();
    files
}

fn kill_mode(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let value = text
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("KillMode")?.trim_start().strip_prefix('='))?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(files: &[(&str, &str)], pid: u32, parent: i32) -> Vec<Hazard> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        HostProcess {
            root: root.path(),
            pid,
            parent,
            started_by_systemd: true,
            user_units: Some(root.path().join("home/u/.config/systemd/user")),
        }
        .hazards()
    }

    const IN_UNIT: (&str, &str) = ("proc/self/cgroup", "0::/system.slice/longhaul.service\n");

    #[test]
    fn a_unit_must_say_that_only_its_process_is_stopped() {
        let unit = "etc/systemd/system/longhaul.service";
        assert_eq!(seen(&[IN_UNIT, (unit, "[Service]\nKillMode=process\n")], 9, 1), []);
        let hazard = [Hazard::Unit {
            name: "longhaul.service".into(),
        }];
        assert_eq!(seen(&[IN_UNIT, (unit, "[Service]\n#KillMode=process\n")], 9, 1), hazard);
        assert_eq!(
            seen(
                &[
                    IN_UNIT,
                    (unit, ""),
                    ("etc/systemd/system/longhaul.service.d/a.conf", "KillMode = process")
                ],
                9,
                1
            ),
            []
        );
    }

    #[test]
    fn a_unit_of_a_user_is_found_where_the_user_has_it() {
        let own = "0::/user.slice/user-1.slice/user@1.service/app.slice/longhaul-jobs.service\n";
        let cgroup = ("proc/self/cgroup", own);
        let hazard = [Hazard::Unit {
            name: "longhaul-jobs.service".into(),
        }];
        let unit = "home/u/.config/systemd/user/longhaul-jobs.service";
        assert_eq!(seen(&[cgroup, (unit, "[Service]\nKillMode=process\n")], 9, 8), []);
        assert_eq!(seen(&[cgroup, (unit, "[Service]\n")], 9, 8), hazard);
        let of_machine = "etc/systemd/system/longhaul-jobs.service";
        assert_eq!(seen(&[cgroup, (of_machine, "KillMode=process\n")], 9, 8), hazard);
    }

    #[test]
    fn a_terminal_is_no_unit() {
        assert_eq!(
            seen(
                &[("proc/self/cgroup", "0::/user.slice/app.slice/vte-spawn.scope\n")],
                9,
                8
            ),
            []
        );
    }

    #[test]
    fn the_main_process_of_a_container_takes_all_along() {
        assert_eq!(seen(&[], 1, 0), [Hazard::MainProcess]);
        assert_eq!(seen(&[(".dockerenv", "")], 7, 1), [Hazard::ChildOfMainProcess]);
        assert_eq!(seen(&[(".dockerenv", "")], 7, 3), []);
    }
}
