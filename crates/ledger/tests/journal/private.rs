//! Who may read the files, and files of others.

use crate::support::{new_call, open, path_in, try_open};
use longhaul_client::JournalError;
use longhaul_ledger::ClientJournal;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

async fn refused(directory: &Path, words: &str) {
    let error = try_open(directory).await.unwrap_err();
    assert!(matches!(error, JournalError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test]
async fn the_files_are_the_users_alone() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path()).await;
    journal.begin(new_call("tool")).await.unwrap();
    let client = directory.path().join("client");
    assert_eq!(mode(&client), 0o700);
    assert_eq!(mode(&client.join("processes")), 0o700);
    let mut files = 0;
    for file in ["handles.db", "handles.db-wal", "handles.db-shm"] {
        assert_eq!(mode(&client.join(file)), 0o600, "{file}");
    }
    for file in fs::read_dir(client.join("processes")).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
        files += 1;
    }
    assert_eq!(files, 1);
}

#[tokio::test]
async fn what_others_could_read_they_cannot_any_more() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    let path = path_in(directory.path());
    set_mode(&path, 0o644);
    set_mode(path.parent().unwrap(), 0o755);
    open(directory.path()).await;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

#[tokio::test]
async fn a_file_that_others_can_write_is_refused() {
    for (suffix, bits) in [
        ("", 0o620),
        ("", 0o602),
        ("-wal", 0o660),
        ("-shm", 0o666),
        ("-journal", 0o622),
    ] {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).await);
        let mut path = path_in(directory.path()).into_os_string();
        path.push(suffix);
        let path = Path::new(&path);
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        set_mode(path, bits);
        refused(directory.path(), "other users may write to it").await;
        assert_eq!(mode(path), bits);
        set_mode(path, 0o600);
        open(directory.path()).await;
    }
}

#[tokio::test]
async fn links_and_other_kinds_of_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = path_in(directory.path());
    fs::create_dir(path.parent().unwrap()).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::write(&elsewhere, "text").unwrap();
    symlink(&elsewhere, &path).unwrap();
    refused(directory.path(), "a symbolic link").await;
    fs::remove_file(&path).unwrap();
    fs::hard_link(&elsewhere, &path).unwrap();
    refused(directory.path(), "hard links").await;
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(directory.path(), "a directory").await;
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "text");
}

#[tokio::test]
async fn what_belongs_to_another_user_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    let path = path_in(directory.path());
    if chown(&path, Some(12_345), None).is_err() {
        return eprintln!("not tested: only root can give files away");
    }
    refused(directory.path(), "it belongs to user 12345").await;
    chown(&path, Some(0), None).unwrap();
    let folder = path.parent().unwrap();
    chown(folder, Some(12_345), None).unwrap();
    refused(directory.path(), "it belongs to user 12345").await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    let path = path_in(directory.path());
    set_mode(&path, 0o000);
    if fs::read(&path).is_ok() {
        return eprintln!("not tested: root can read everything");
    }
    refused(directory.path(), "unable to open").await;
    assert_eq!(mode(&path), 0o000);
}

#[tokio::test]
async fn a_file_that_was_removed_or_moved_is_noticed() {
    for suffix in ["", "-wal"] {
        let directory = tempfile::tempdir().unwrap();
        let journal = open(directory.path()).await;
        journal.begin(new_call("tool")).await.unwrap();
        let mut path = journal.path().as_os_str().to_owned();
        path.push(suffix);
        fs::rename(&path, directory.path().join("moved")).unwrap();
        let error = journal.begin(new_call("tool")).await.unwrap_err();
        assert_eq!(error, JournalError::Replaced { path: path.into() });
    }
}

#[tokio::test]
async fn a_relative_path_is_one_from_the_current_folder() {
    let directory = tempfile::tempdir().unwrap();
    let current = std::env::current_dir().unwrap();
    let up: std::path::PathBuf = current.ancestors().skip(1).map(|_| "..").collect();
    let below = directory
        .path()
        .strip_prefix("/")
        .unwrap()
        .join("new/client/handles.db");
    let path = up.join(below);
    assert!(path.is_relative());
    let journal = ClientJournal::open(&path).await.unwrap();
    journal.begin(new_call("tool")).await.unwrap();
    assert!(directory.path().join("new/client/handles.db").exists());
    // The current folder would become private.
    let mode_before = mode(&current);
    for name in ["agent.db", "./agent.db"] {
        let error = ClientJournal::open(Path::new(name)).await.unwrap_err();
        assert!(error.to_string().contains("in a folder of its own"), "{error}");
    }
    assert_eq!(mode(&current), mode_before);
}
