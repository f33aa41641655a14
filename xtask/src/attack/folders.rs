//! Changes to the data directory by other programs.

use super::{
    attempts::Attempts,
    site::{AttackSite, Programs, end_of},
};
use harness::{
    clock,
    mcp::{Client, ClientEra},
    rounds::RunError,
};
use serde_json::json;
use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

const DATABASE: [&str; 3] = ["longhaul.db", "longhaul.db-wal", "longhaul.db-shm"];
const PRECIOUS: &str = "precious\n";

pub(super) fn run(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    locks(programs, report)?;
    replaced_files(programs, report)?;
    attempts(programs, report)?;
    restored(programs, report)?;
    removed(programs, report)
}

/// A second owner is refused, even if the lock file is removed.
fn locks(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "locks", "")?;
    let refused = site.refused(&[])?;
    report.check("a second owner", refused.is_some(), || "it serves".to_owned());
    fs::remove_file(site.data().join("lock"))?;
    let refused = site.refused(&[])?;
    report.check(
        "a second owner after the lock file is removed",
        refused.is_some(),
        || "it serves".to_owned(),
    );
    report.attempt("after the lock file is removed", site.serves_clients());
    Ok(())
}

/// Links, pipes, folders and foreign files in place of the files of the data directory: their targets are not changed, and nothing hangs.
fn replaced_files(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let files = ["lock", "attempts", "owner.log", "owner.sock"]
        .into_iter()
        .chain(DATABASE);
    for name in files {
        for kind in ["symlink", "symlink to nothing", "pipe", "folder", "file"] {
            let mut site = AttackSite::prepare(programs, &format!("replace-{name}-{}", kind.replace(' ', "-")), "")?;
            fs::create_dir_all(site.data())?;
            fs::set_permissions(site.data(), fs::Permissions::from_mode(0o700))?;
            let target = site.file("target");
            let path = site.data().join(name);
            replace(kind, &target, &path)?;
            let what = format!("{kind} as {name}");
            let served = match site.refused_or_serve() {
                Ok(served) => served,
                Err(why) => {
                    report.attempt(&what, Err(why));
                    continue;
                }
            };
            if served {
                report.attempt(&what, site.serves_clients());
                site.kill()?;
            }
            let untouched = match kind {
                "symlink" if name == "attempts" => fs::read_dir(&target)?.count() == 1,
                "symlink" => fs::read_to_string(&target)? == PRECIOUS,
                _ => !target.exists(),
            };
            report.check(&format!("the target of a {what}"), untouched, || {
                "it was changed".to_owned()
            });
        }
    }
    if rustix::process::geteuid().is_root() {
        let site = AttackSite::prepare(programs, "foreign", "")?;
        fs::create_dir_all(site.data())?;
        std::os::unix::fs::chown(site.data(), Some(65_534), Some(65_534))?;
        let refused = site.refused(&[])?;
        report.check("a data directory of another user", refused.is_some(), || {
            "it serves".to_owned()
        });
    }
    Ok(())
}

fn replace(kind: &str, target: &Path, place: &Path) -> Result<(), RunError> {
    match kind {
        "symlink" if place.ends_with("attempts") => {
            fs::create_dir(target)?;
            fs::write(target.join("precious"), PRECIOUS)?;
            symlink(target, place)?;
        }
        "symlink" => {
            fs::write(target, PRECIOUS)?;
            symlink(target, place)?;
        }
        "symlink to nothing" => symlink(target, place)?,
        "pipe" => {
            let made = Command::new("mkfifo").arg(place).status()?;
            if !made.success() {
                return Err(io::Error::other("mkfifo failed").into());
            }
        }
        "folder" => {
            fs::create_dir(place)?;
            fs::write(place.join("x"), PRECIOUS)?;
        }
        _ => fs::write(place, PRECIOUS)?,
    }
    Ok(())
}

/// A removed attempt folder: its command does not run again.
fn attempts(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    for (what, while_down, killed) in [
        ("while it runs", false, false),
        ("while the server is down", true, false),
        ("with its supervisor, while the server is down", true, true),
    ] {
        let mut site = AttackSite::start(programs, &format!("attempts-{while_down}-{killed}"), "max_running = 2")?;
        let mut client = site.client(ClientEra::Modern);
        let task = client.create("once", json!({"file": site.file("run"), "seconds": 3}))?;
        let began = clock::wait_for(Duration::from_secs(20), || (site.lines("run") == 1).then_some(()));
        report.check(&format!("a command begins, {what}"), began.is_some(), || {
            "it did not".to_owned()
        });
        if while_down {
            site.kill()?;
        }
        if killed {
            harness::server::supervisors::kill_all(&site.data().join("attempts"));
        }
        for folder in site.attempts() {
            fs::remove_dir_all(folder)?;
        }
        if while_down {
            site.serve(&[])?;
            client = site.client(ClientEra::Modern);
        }
        let end = end_of(&mut client, &task);
        report.check(&format!("its folder is removed {what}: it ends"), end.is_ok(), || {
            format!("{end:?}")
        });
        // A second run would start before the tasks of these clients.
        report.attempt(&format!("after a folder was removed {what}"), site.serves_clients());
        report.check(
            &format!("its folder is removed {what}: it ran once"),
            site.lines("run") == 1,
            || format!("it ran {} times", site.lines("run")),
        );
    }
    Ok(())
}

/// A database that is older than the attempt folders.
fn restored(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let mut site = AttackSite::start(programs, "restored", "max_running = 1")?;
    let mut client = site.client(ClientEra::Modern);
    let first = client.create("once", json!({"file": site.file("first"), "seconds": 0}))?;
    end_of(&mut client, &first)?;
    let queued = client.create("once", json!({"file": site.file("queued"), "seconds": 4}))?;
    let behind = client.create("once", json!({"file": site.file("behind"), "seconds": 0}))?;
    site.kill()?;
    let backup = site.file("backup");
    fs::create_dir(&backup)?;
    for name in DATABASE {
        if site.data().join(name).exists() {
            fs::copy(site.data().join(name), backup.join(name))?;
        }
    }
    site.serve(&[])?;
    let mut client = site.client(ClientEra::Modern);
    for task in [&queued, &behind] {
        end_of(&mut client, task)?;
    }
    site.kill()?;
    let runs = |site: &AttackSite| ["first", "queued", "behind"].map(|name| site.lines(name));
    let before = runs(&site);
    for name in DATABASE {
        let _ = fs::remove_file(site.data().join(name));
        if backup.join(name).exists() {
            fs::copy(backup.join(name), site.data().join(name))?;
        }
    }
    // The server may refuse to start or be read-only, but must not run anything.
    let served = site.refused_or_serve().map_err(io::Error::other)?;
    clock::pause(Duration::from_secs(3));
    report.check("a restored database runs nothing", runs(&site) == before, || {
        format!("{before:?} runs before, {:?} after", runs(&site))
    });
    let log = site.log();
    report.check(
        "a restored database is reported",
        log.contains("restored") || log.contains("older"),
        || "the server's log does not mention it".to_owned(),
    );
    if served {
        site.kill()?;
    }
    Ok(())
}

/// A removed data directory, or a removed database.
fn removed(programs: &Programs, report: &mut Attempts) -> Result<(), RunError> {
    let site = AttackSite::start(programs, "removed", "")?;
    fs::remove_dir_all(site.data())?;
    let mut acknowledged = 0;
    for _ in 0..3 {
        let created = Client::new(ClientEra::Modern, site.address()).create("say", json!({"text": "x"}));
        acknowledged += usize::from(created.is_ok());
    }
    report.check("creates after rm -rf of the data directory", acknowledged == 0, || {
        format!("{acknowledged} of 3 were acknowledged")
    });
    drop(site);
    let mut site = AttackSite::start(programs, "lost", "")?;
    report.attempt("before the database is removed", site.serves_clients());
    site.kill()?;
    for name in DATABASE {
        let _ = fs::remove_file(site.data().join(name));
    }
    let folders = site.attempts().len();
    let served = site.refused_or_serve().map_err(io::Error::other)?;
    let log = site.log();
    report.check(
        "a missing database is reported while folders are left",
        log.contains("attempts"),
        || "the server's log does not mention it".to_owned(),
    );
    report.check("the folders are kept", site.attempts().len() >= folders, || {
        "they were cleaned".to_owned()
    });
    if served {
        site.kill()?;
    }
    Ok(())
}
