//! What becomes of changes when a transaction fails.

use super::{new_call, open, path_in};
use longhaul_client::{CallFilter, JournalError};
use rusqlite::Connection;

#[tokio::test]
async fn a_change_that_fails_does_not_fail_those_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let broken = journal.0.write(|scope| {
        scope.connection.execute("UPDATE calls SET tool = 'changed'", [])?;
        Ok(scope.connection.execute("INSERT INTO nothing VALUES (1)", [])?)
    });
    let good = (0..20).map(|_| journal.begin(new_call("good")));
    let good = futures_util::future::join_all(good);
    let (first, broken, good) = tokio::join!(journal.begin(new_call("first")), broken, good);
    first.unwrap();
    assert!(matches!(broken, Err(JournalError::Failed { .. })), "{broken:?}");
    assert!(good.into_iter().all(|begun| begun.is_ok()));
    let calls = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(calls.len(), 21);
    assert!(calls.iter().all(|call| call.tool != "changed"));
}

#[tokio::test]
async fn a_panic_fails_its_change_and_the_journal_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let panicked = journal.0.write::<()>(|_| panic!("a test's panic")).await;
    assert!(matches!(panicked, Err(JournalError::Failed { .. })), "{panicked:?}");
    journal.begin(new_call("after")).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_nothing_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let first = journal.begin(new_call("first")).await.unwrap();
    let limit = |pages: i64| {
        let file = journal.0.file();
        let sql = format!("PRAGMA max_page_count = {pages}");
        file.connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap();
    };
    limit(1);
    let large = new_call(&"x".repeat(100_000));
    let path = path_in(directory.path()).canonicalize().unwrap();
    assert_eq!(journal.begin(large.clone()).await, Err(JournalError::Full { path }));
    limit(1 << 30);
    let second = journal.begin(large).await.unwrap();
    let calls = journal.list(CallFilter::default()).await.unwrap();
    assert_eq!(calls.iter().map(|call| call.id).collect::<Vec<_>>(), [second, first]);
}

#[tokio::test]
async fn a_file_that_a_later_release_has_migrated_meanwhile_is_not_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let later = Connection::open(path_in(directory.path())).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    let begun = journal.begin(new_call("late")).await;
    assert!(
        matches!(begun, Err(JournalError::NewerVersion { found: 99, .. })),
        "{begun:?}"
    );
    let count: i64 = later
        .query_row("SELECT count(*) FROM calls", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 0);
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_the_journal_usable() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let other = journal.clone();
    std::thread::scope(|scope| {
        let begin = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let begun = runtime.block_on(async {
                let mut begun = Box::pin(other.begin(new_call("dropped")));
                // Polled once, so that the change waits or runs when the runtime ends.
                futures_util::future::poll_immediate(&mut begun).await
            });
            runtime.shutdown_background();
            begun
        };
        scope.spawn(begin).join().unwrap();
    });
    journal.begin(new_call("after")).await.unwrap();
}

#[tokio::test]
async fn a_change_reads_no_more_calls_than_it_deletes() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    let sql = format!("EXPLAIN QUERY PLAN {}", crate::retention::DUE);
    let file = journal.0.file();
    let plan: Vec<String> = file
        .connection
        .prepare(&sql)
        .unwrap()
        .query_map((0, 16), |row| row.get("detail"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(plan, ["SEARCH calls USING INDEX calls_by_deletion (delete_at<?)"]);
}

/// Prints what changes cost: `cargo nextest run -p longhaul-client --run-ignored only --no-capture cost`.
#[tokio::test]
#[ignore = "measures"]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
async fn cost() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).await;
    for together in [1, 10, 100, 1000] {
        let began = std::time::Instant::now();
        let calls = (0..together).map(|_| journal.begin(new_call("tool")));
        futures_util::future::join_all(calls).await;
        println!("{together} calls begun together: {:?}", began.elapsed());
    }
}
