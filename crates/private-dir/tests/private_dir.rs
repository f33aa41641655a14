//! What is opened, and what is refused, by its type, owner and names.
#![allow(clippy::unwrap_used)]

use longhaul_private_dir::{PrivateDir, Unfit, make_file_private, open_file};
use std::{
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        net::UnixListener,
    },
    path::Path,
};

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

fn unfit<T>(result: io::Result<T>) -> Option<Unfit> {
    result.err().as_ref().and_then(Unfit::of)
}

fn kind(found: &'static str, wanted: &'static str) -> Option<Unfit> {
    Some(Unfit::Kind { found, wanted })
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
}

/// Such as `/tmp`, or `/` for root.
#[test]
fn a_folder_of_others_is_refused_and_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let mode = || folder.path().metadata().unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    fs::write(folder.path().join("of somebody"), "").unwrap();
    let refused = unfit(PrivateDir::create(folder.path()));
    assert_eq!(refused, Some(Unfit::Shared { mode: 0o1777 }));
    assert_eq!(mode(), 0o1777);
    // One with data of Longhaul is its own.
    fs::write(folder.path().join("lock"), "").unwrap();
    PrivateDir::create(folder.path()).unwrap();
    assert_eq!(mode() & 0o777, 0o700);
}

/// Such as the root of a web server. Nobody is locked out of it.
#[test]
fn a_folder_with_other_files_that_others_read_gets_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let set = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    let checked = || PrivateDir::check_foreign(folder.path());
    set(0o755);
    for of_disk in ["lost+found", ".snapshot"] {
        fs::create_dir(folder.path().join(of_disk)).unwrap();
    }
    checked().unwrap();
    PrivateDir::check_foreign(&folder.path().join("new")).unwrap();
    for (name, is_ours) in [
        ("keys.json", true),
        ("hosts.txt", false),
        ("node_modules", false),
        ("index.html", false),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        let refused = if is_ours {
            Ok(())
        } else {
            Err(Unfit::Foreign { mode: 0o755 })
        };
        assert_eq!(checked(), refused, "{name}");
        let made = PrivateDir::create_data(folder.path());
        assert_eq!(made.is_ok(), is_ours, "{name}");
        assert_eq!(
            folder.path().metadata().unwrap().permissions().mode() & 0o777,
            if is_ours { 0o700 } else { 0o755 }
        );
        set(0o755);
        fs::remove_file(&path).unwrap();
    }
    fs::write(folder.path().join("index.html"), "").unwrap();
    set(0o700);
    checked().unwrap();
    set(0o755);
    fs::write(folder.path().join("longhaul.db"), "").unwrap();
    checked().unwrap();
}

#[test]
fn a_link_above_the_directory_is_followed_and_none_in_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real", folder.path().join("home")).unwrap();
    let dir = PrivateDir::create(&folder.path().join("home/some/data")).unwrap();
    assert_eq!(dir.path(), folder.path().canonicalize().unwrap().join("real/some/data"));
    assert!(dir.is_in_place().unwrap());

    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, dir.path().join("attempts")).unwrap();
    assert_eq!(
        unfit(dir.subdirectory("attempts")),
        kind("a symbolic link", "a directory")
    );
    dir.subdirectory("others").unwrap();
    assert_eq!(dir.subdirectory("others").unwrap().path(), dir.path().join("others"));
}

#[test]
fn only_a_regular_file_with_one_name_is_opened_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = PrivateDir::open(folder.path()).unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink(&victim, at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    fs::hard_link(&victim, at("second")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    fifo(&at("pipe"));
    let _listener = UnixListener::bind(at("socket")).unwrap();
    let mut write_only = OpenOptions::new();
    write_only.write(true);
    let mut read_only = OpenOptions::new();
    read_only.read(true);
    for options in [read_write(), write_only, read_only] {
        let found = |name| unfit(dir.file(name, &options));
        assert_eq!(found("link"), kind("a symbolic link", "a regular file"));
        assert_eq!(found("dangling"), kind("a symbolic link", "a regular file"));
        assert_eq!(found("second"), Some(Unfit::Names { names: 2 }));
        assert_eq!(found("directory"), kind("a directory", "a regular file"));
        assert_eq!(found("pipe"), kind("a named pipe", "a regular file"));
        assert_eq!(found("socket"), kind("a socket", "a regular file"));
        assert_eq!(
            unfit(open_file(Path::new("/dev/null"), &options)),
            kind("a device", "a regular file")
        );
    }
    assert!(!at("nowhere").exists());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(
        unfit(PrivateDir::open(&at("pipe"))),
        kind("a named pipe", "a directory")
    );
    dir.file("fresh", &read_write()).unwrap();
}

#[test]
fn other_users_have_no_access() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let dir = PrivateDir::open(folder.path()).unwrap();
    let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let moved = folder.path().with_extension("moved");
    fs::rename(folder.path(), &moved).unwrap();
    assert!(!dir.is_in_place().unwrap());
    fs::create_dir(folder.path()).unwrap();
    assert!(!dir.is_in_place().unwrap());
    fs::remove_dir(&moved).unwrap();
}

/// Only root can change an owner, so only root runs this to its end.
#[test]
fn what_belongs_to_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let ours = folder.path().join("ours");
    fs::create_dir(&ours).unwrap();
    let link = folder.path().join("link");
    symlink(&ours, &link).unwrap();
    PrivateDir::open(&link).unwrap();
    let given = [&theirs, &file]
        .iter()
        .all(|path| chown(path, Some(4711), None).is_ok());
    if !given || std::os::unix::fs::lchown(&link, Some(4711), None).is_err() {
        return;
    }
    let owner = Some(Unfit::Owner { owner: 4711, user: 0 });
    assert_eq!(unfit(PrivateDir::create(&theirs)), owner);
    assert_eq!(unfit(open_file(&file, &read_write())), owner);
    assert_eq!(
        unfit(PrivateDir::open(&link)),
        owner,
        "somebody else's link to our directory"
    );
}

#[test]
fn a_file_that_others_could_read_is_made_private_and_one_that_they_could_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(make_file_private(&path).unwrap(), None);
    fs::write(&path, "secret").unwrap();
    for (before, told, after) in [
        (0o644, Some(0o644), 0o600),
        (0o440, Some(0o440), 0o600),
        (0o600, None, 0o600),
        (0o400, None, 0o400),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
        assert_eq!((make_file_private(&path).unwrap(), mode()), (told, after), "{before:o}");
    }
    for writable in [0o666, 0o620, 0o602] {
        fs::set_permissions(&path, Permissions::from_mode(writable)).unwrap();
        assert_eq!(
            unfit(make_file_private(&path)),
            Some(Unfit::Writable { mode: writable })
        );
        assert_eq!(mode(), writable);
    }
    symlink(&path, folder.path().join("link")).unwrap();
    assert_eq!(
        unfit(make_file_private(&folder.path().join("link"))),
        kind("a symbolic link", "a regular file")
    );
}
