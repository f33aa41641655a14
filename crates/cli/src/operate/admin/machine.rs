//! What of this machine would be in the way of a server that does not run yet, and of its users.

use super::finding::Finding;
use crate::{
    config::{self, Environment, Listen},
    machine::port_owner,
    output::shell_word::shell_word,
};
use longhaul_admin::DiskSpace;
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use std::{
    env, fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

/// With `pidfd_open` a process is never taken for another one that has got its number.
#[cfg(target_os = "linux")]
const KERNEL: (u32, u32) = (5, 3);

/// File systems of other machines, by what `statfs` calls them.
#[cfg(target_os = "linux")]
const NETWORK: [(u32, &str); 7] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
];
#[cfg(target_os = "linux")]
const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// The kernel.
pub(super) fn of_kernel() -> Option<Finding> {
    #[cfg(target_os = "linux")]
    {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let (major, minor) = KERNEL;
        is_older(&release, KERNEL).then(|| {
            Finding::new(
                format!("the kernel is {release}, and Longhaul is made for {major}.{minor} or later"),
                "commands that hang, and children of a gateway that was killed, cannot be ended safely: update the kernel",
            )
        })
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn is_older(release: &str, needed: (u32, u32)) -> bool {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < needed,
        _ => false,
    }
}

/// The clock, and the room on the disk of a folder that may not be there yet.
/// `has_tasks`: the database with the tasks is on it.
pub(super) fn of_clock_and_room(folder: &Path, has_tasks: bool) -> Vec<Finding> {
    let clock = longhaul_admin::clock_fault(SystemClock.now());
    let clock = clock.map(|fault| Finding::new(fault, "no server starts before"));
    let space = DiskSpace::of(folder).filter(DiskSpace::is_little);
    let space = space.map(|space| Finding::new(space.to_string(), space.advice(has_tasks)));
    clock.into_iter().chain(space).collect()
}

/// The kind of disk that a folder is on, or will be on.
#[cfg(target_os = "linux")]
pub(super) fn of_disk(folder: &Path) -> Option<Finding> {
    let present = folder.ancestors().find(|path| path.exists())?;
    // Its size differs between machines, and the numbers have 32 bits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let kind = rustix::fs::statfs(present).ok()?.f_type as u32;
    let shown = folder.display();
    if let Some((_, name)) = NETWORK.iter().find(|(number, _)| *number == kind) {
        return Some(Finding::new(
            format!(
                "{shown} is on a disk of another machine ({name}), on which the locks and the syncs of the database cannot be relied on"
            ),
            "name a folder of a local disk in `data_dir`",
        ));
    }
    if MEMORY.contains(&kind) {
        return Some(Finding::new(
            format!("{shown} is in memory, so all tasks are lost when this machine restarts"),
            "name a folder of a disk in `data_dir`",
        ));
    }
    (kind == FUSE).then(|| {
        Finding::new(
            format!("{shown} is on a file system of a program (FUSE), which may be on another machine"),
            "if it is, name a folder of a local disk in `data_dir`",
        )
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_disk(_: &Path) -> Option<Finding> {
    None
}

/// The addresses of a configuration that nobody can listen on now. None of a file with mistakes, which are found by others.
pub(super) fn of_ports(file: &Path) -> Vec<Finding> {
    let Ok(config) = config::load(file, &Environment::without_variables()) else {
        return Vec::new();
    };
    let listen = match &config.server.listen {
        Listen::Address(address) => Some(("listen", *address)),
        Listen::Unix(_) => None,
    };
    let admin = config.admin.listen.map(|address| ("[admin] listen", address));
    listen
        .into_iter()
        .chain(admin)
        .filter_map(|(key, address)| of_port(key, address))
        .collect()
}

fn of_port(key: &str, address: SocketAddr) -> Option<Finding> {
    let error = TcpListener::bind(address).err()?;
    let advice = format!("set `{key}` to another address");
    Some(match error.kind() {
        io::ErrorKind::AddrInUse => Finding::new(
            format!("{address} is in use{}", port_owner::describe(address.port())),
            format!("end what uses it, or {advice}"),
        ),
        io::ErrorKind::AddrNotAvailable => Finding::new(format!("{address} is no address of this machine"), advice),
        io::ErrorKind::PermissionDenied => Finding::new(
            format!("this user may not listen on {address}: {error}"),
            format!("{advice}, with a port above 1023"),
        ),
        _ => Finding::new(format!("nobody can listen on {address}: {error}"), advice),
    })
}

/// What is not wrong, and would be of help.
pub(super) fn hints() -> Vec<Finding> {
    let hints = [program_in_path(), completions(), runtime_dir()];
    hints.into_iter().flatten().collect()
}

/// Whether MCP hosts find this program by its name.
fn program_in_path() -> Option<Finding> {
    let program = env::current_exe().ok()?;
    let shown = shell_word(&program.display().to_string());
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&folders).map(|folder| folder.join("longhaul"));
    match found.find(|path| path.is_file()) {
        None => Some(Finding::new(
            "there is no `longhaul` in PATH, so MCP hosts do not find it by its name",
            format!("mkdir -p ~/.local/bin; ln -s {shown} ~/.local/bin/longhaul; or name {shown} in their files"),
        )),
        Some(first) if fs::canonicalize(&first).is_ok_and(|first| first != program && !launches(&first, &program)) => {
            Some(Finding::new(
                format!("`longhaul` in PATH is another one, {}", first.display()),
                format!("this one is {shown}: name it in the files of MCP hosts, or remove the other one"),
            ))
        }
        Some(_) => None,
    }
}

/// Whether a program is the launcher of the npm package that has ours.
fn launches(launcher: &Path, program: &Path) -> bool {
    let modules = program.ancestors().find(|folder| folder.ends_with("node_modules"));
    modules.is_some_and(|modules| launcher.starts_with(modules.join("longhaul")))
}

/// Whether the shell of this user completes the command line.
fn completions() -> Option<Finding> {
    let shell = PathBuf::from(env::var_os("SHELL")?);
    let shell = shell.file_name()?.to_str()?;
    let home = env::var_os("HOME").map(PathBuf::from)?;
    let own = env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let own = own.unwrap_or_else(|| home.join(".local/share"));
    let (places, started, install) = match shell {
        "bash" => (
            vec!["bash-completion/completions/longhaul"],
            ".bashrc",
            "echo 'source <(longhaul completions bash)' >> ~/.bashrc",
        ),
        "zsh" => (
            vec!["zsh/site-functions/_longhaul", "zsh/vendor-completions/_longhaul"],
            ".zshrc",
            "echo 'source <(longhaul completions zsh)' >> ~/.zshrc",
        ),
        "fish" => (
            vec!["fish/vendor_completions.d/longhaul.fish"],
            ".config/fish/completions/longhaul.fish",
            "longhaul completions fish > ~/.config/fish/completions/longhaul.fish",
        ),
        _ => return None,
    };
    let folders = [own, "/usr/local/share".into(), "/usr/share".into()];
    let is_installed = places
        .iter()
        .any(|place| folders.iter().any(|folder| folder.join(place).exists()));
    let is_started = fs::read_to_string(home.join(started)).is_ok_and(|text| text.contains("longhaul"));
    (!is_installed && !is_started).then(|| Finding::new(format!("{shell} does not complete `longhaul`"), install))
}

/// Whether the service manager of this user can be asked.
fn runtime_dir() -> Option<Finding> {
    let is_there = env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).is_dir());
    let has_systemd = Path::new("/run/systemd/system").is_dir();
    (has_systemd && !is_there && !rustix::process::geteuid().is_root()).then(|| {
        Finding::new(
            "XDG_RUNTIME_DIR names no folder, so `longhaul service --user` and `systemctl --user` do not work in this shell",
            "log in as this user, and not by su or sudo",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn kernels_are_compared_by_their_numbers() {
        for (release, older) in [
            ("4.18.0-553.el8_10.x86_64", true),
            ("5.2.21", true),
            ("5.3.0", false),
            ("5.10.0-28-amd64", false),
            ("6.1", false),
            ("10.0", false),
            ("unknown", false),
        ] {
            assert_eq!(is_older(release, KERNEL), older, "{release}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_who_has_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let found = of_port("listen", address).unwrap();
        assert!(found.what.starts_with(&format!("{address} is in use")), "{found:?}");
        #[cfg(target_os = "linux")]
        assert!(found.what.contains(&format!("pid {}", std::process::id())), "{found:?}");
        drop(taken);
        assert_eq!(of_port("listen", address), None);
        // Reserved for documentation.
        let found = of_port("listen", "192.0.2.1:7411".parse().unwrap()).unwrap();
        assert!(found.what.contains("is no address of this machine"), "{found:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_told_from_a_disk() {
        if let Some(found) = of_disk(Path::new("/dev/shm/longhaul/data")) {
            assert!(found.what.contains("in memory"), "{found:?}");
        }
        let source = of_disk(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(source.is_none_or(|found| !found.what.is_empty()));
    }
}
