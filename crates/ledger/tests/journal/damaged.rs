//! Files that are no journal, or not a whole one. Nothing in them is changed.

use crate::support::{begin_task, new_call, open, path_in, try_open};
use longhaul_client::JournalError;
use rusqlite::Connection;
use std::{fs, path::Path};

/// A journal of some pages, all of them in the database file.
async fn prepare(directory: &Path) {
    let journal = open(directory).await;
    for number in 0..60 {
        begin_task(&journal, &format!("task-{number}-{}", "x".repeat(200))).await;
    }
    drop(journal);
    let file = Connection::open(path_in(directory)).unwrap();
    let checkpoint = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    assert_eq!(file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], checkpoint), Ok(0));
}

/// The error, and whether the file is as it was.
async fn open_unchanged(directory: &Path) -> JournalError {
    let path = path_in(directory);
    let before = fs::read(&path).unwrap();
    let opened = try_open(directory).await;
    let error = opened.expect_err(&format!("opened {} bytes", before.len()));
    assert_eq!(fs::read(&path).unwrap(), before, "{error}");
    error
}

#[tokio::test]
async fn a_truncated_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path()).await;
    let whole = fs::read(path_in(directory.path())).unwrap();
    assert!(whole.len() > 5 * 4096);
    for length in [50, 512, 4096, 5000, whole.len() / 2, whole.len() - 4096] {
        fs::write(path_in(directory.path()), &whole[..length]).unwrap();
        let error = open_unchanged(directory.path()).await;
        assert!(matches!(error, JournalError::Corrupt { .. }), "{length}: {error}");
    }
    fs::write(path_in(directory.path()), &whole).unwrap();
    assert_eq!(open(directory.path()).await.live().await.unwrap().len(), 60);
}

#[tokio::test]
async fn a_damaged_page_is_an_error_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path()).await;
    let path = path_in(directory.path());
    let file = Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'calls'";
    let page: usize = file.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    drop(file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xab);
    fs::write(&path, &bytes).unwrap();
    let journal = open(directory.path()).await;
    for error in [
        journal.live().await.unwrap_err(),
        journal.begin(new_call("tool")).await.unwrap_err(),
    ] {
        assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[tokio::test]
async fn an_empty_file_beside_a_log_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = path_in(directory.path());
    let journal = open(directory.path()).await;
    begin_task(&journal, "task").await;
    drop(journal);
    let log = path.with_extension("db-wal");
    let (whole, logged) = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    assert!(!logged.is_empty());
    fs::write(&path, "").unwrap();
    let error = open_unchanged(directory.path()).await;
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&log).unwrap(), logged);
    fs::write(&path, whole).unwrap();
    assert_eq!(open(directory.path()).await.live().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_of_another_kind_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = path_in(directory.path());
    fs::create_dir(path.parent().unwrap()).unwrap();
    for text in ["some text", &"some text ".repeat(1000)] {
        fs::write(&path, text).unwrap();
        let error = open_unchanged(directory.path()).await;
        assert!(
            matches!(error, JournalError::Corrupt { .. } | JournalError::Unusable { .. }),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
    }
    for sql in [
        "CREATE TABLE t (c)",
        "CREATE TABLE t (c); PRAGMA user_version = 1",
        "PRAGMA application_id = 77; PRAGMA user_version = 1",
    ] {
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = open_unchanged(directory.path()).await;
        assert!(
            error.to_string().contains("a database of another program"),
            "{sql}: {error}"
        );
        fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn a_file_of_a_later_release_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path()).await;
    let file = Connection::open(path_in(directory.path())).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    drop(file);
    let error = open_unchanged(directory.path()).await;
    let path = path_in(directory.path()).canonicalize().unwrap();
    let newer = JournalError::NewerVersion {
        path,
        found: 99,
        known: 6,
    };
    assert_eq!(error, newer);
}

/// Journals of the releases before questions of calls were kept, and before logins were.
#[tokio::test]
async fn a_file_of_an_earlier_release_keeps_its_calls() {
    const NO_BATCHES: &str = "DROP INDEX calls_by_batch; ALTER TABLE calls DROP COLUMN batch; ALTER TABLE calls DROP COLUMN batch_line; DROP TABLE batches;
         PRAGMA user_version = 5;";
    const NO_LOGINS: &str = "ALTER TABLE calls DROP COLUMN login; PRAGMA user_version = 4;";
    const NO_QUESTIONS: &str = "ALTER TABLE calls DROP COLUMN cancel_requested; ALTER TABLE questions DROP COLUMN input_key; ALTER TABLE questions DROP COLUMN method;
         ALTER TABLE questions DROP COLUMN params; PRAGMA user_version = 2";
    for earlier in [
        NO_BATCHES.to_owned(),
        [NO_BATCHES, NO_LOGINS].concat(),
        [NO_BATCHES, NO_LOGINS, NO_QUESTIONS].concat(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path()).await;
        let file = Connection::open(path_in(directory.path())).unwrap();
        let calls = |file: &Connection| -> i64 {
            file.query_row("SELECT count(*) FROM calls", [], |row| row.get(0))
                .unwrap()
        };
        let before = calls(&file);
        file.execute_batch(&earlier).unwrap();
        drop(file);
        let journal = open(directory.path()).await;
        let listed = journal.list(longhaul_client::CallFilter::default()).await.unwrap();
        assert!(
            before > 0 && i64::try_from(listed.len()).unwrap() == before,
            "{listed:?}"
        );
        assert!(listed.iter().all(|call| call.login.is_none()));
        assert_eq!(journal.call_questions(listed[0].id).await.unwrap(), []);
        // What is recorded from now on has them.
        let mut new = new_call("tool");
        new.login = Some("user ann at https://login.example".to_owned());
        let call = journal.begin(new.clone()).await.unwrap();
        assert_eq!(journal.get(call).await.unwrap().login, new.login);
    }
}

#[tokio::test]
async fn a_path_that_names_no_file_is_an_error() {
    for path in ["/", ".."] {
        let error = longhaul_ledger::ClientJournal::open(Path::new(path)).await.unwrap_err();
        assert!(matches!(error, JournalError::Unusable { .. }), "{error}");
    }
}
