//! `kill -9` at each step of `longhaul migrate`, which locks in the database make wait there.
//!
//! Never do both the data directory and the database serve the tasks, and never is there a state from which the same command does not go on.

use super::{
    assertions::*,
    shared_store::{Shared, url},
    support::{Place, Served, done, ends, longhaul, run, until},
};
use std::{
    fs,
    process::{Child, Stdio},
};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// What is copied, in this order.
const TABLES: &str = "specs tasks arguments outcomes inputs journal task_hosts nodes usage usage_in_all tool_limits \
    paused_tools signing_keys ended_sessions";

/// Somebody else's session with the database.
struct Session {
    client: Client,
    runtime: Runtime,
}

impl Session {
    fn new(shared: &Shared) -> Self {
        let runtime = Runtime::new().unwrap();
        let address = &shared.schema.address;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls)).unwrap();
        runtime.spawn(connection);
        Self { client, runtime }
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// What a query returns, a number.
    fn number(&self, sql: &str) -> Option<i64> {
        let rows = self.runtime.block_on(self.client.query(sql, &[])).unwrap();
        rows.first().map(|row| row.get(0))
    }

    /// The process of the database that waits for a lock which this session holds.
    fn waiting(&self) -> i64 {
        // Unlike `pg_stat_activity`, this is not remembered by a transaction.
        let sql =
            "SELECT pid::bigint FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
        let mut found = None;
        until("somebody waits for this session", || {
            found = self.number(sql);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until a process of the database has ended its transaction.
    fn ended(&self, pid: i64) {
        let sql = format!("SELECT 1::bigint FROM pg_stat_activity WHERE pid = {pid} AND state <> 'idle'");
        until("the database has noticed", || self.number(&sql).is_none());
    }
}

/// A data directory with an ended task, a running and a queued one, and an empty schema.
struct Case {
    shared: Shared,
    place: Place,
    tasks: [String; 3],
}

impl Case {
    fn new() -> Self {
        let (shared, place) = (Shared::new(), Place::new());
        let server = place.serve(&[]);
        fs::write(place.file("gate"), "").unwrap();
        let ended = server.begin();
        until("it has ended", || server.look(&ended) == "completed");
        fs::remove_file(place.file("gate")).unwrap();
        let running = server.begin();
        until("it runs", || place.runs() == 2);
        let queued = server.begin();
        server.kill();
        Self {
            shared,
            place,
            tasks: [ended, running, queued],
        }
    }

    /// The same with tables, so that they can be locked.
    fn with_tables() -> Self {
        let case = Self::new();
        Runtime::new()
            .unwrap()
            .block_on(async { drop(case.shared.schema.open().await) });
        case
    }

    fn words<'a>(&'a self, to: &'a str) -> Vec<&'a str> {
        let schema = &self.shared.schema.name;
        ["migrate", "jobs.toml", "--to", to, "--schema", schema, "--json"].to_vec()
    }

    fn start(&self) -> Child {
        let to = url(&self.shared.schema.address);
        let mut command = longhaul(&self.place, &self.words(&to));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the command to its end, with further words.
    fn migrate(&self, more: &[&str]) -> (Option<i32>, serde_json::Value, String) {
        let to = url(&self.shared.schema.address);
        let mut words = self.words(&to);
        words.extend(more);
        run(&self.place, &words)
    }

    /// Kills the command while it waits for a lock of this session.
    fn kill_while_it_waits(&self, session: &Session) -> i64 {
        let mut command = self.start();
        let waiting = session.waiting();
        command.kill().unwrap();
        command.wait().unwrap();
        waiting
    }

    /// The server has all tasks as they were.
    fn has_all(&self, server: &Served) {
        let seen = self.tasks.each_ref().map(|task| server.look(task));
        assert_eq!(seen, ["completed", "working", "working"]);
    }

    fn moved(&self) -> i64 {
        let sql = format!("SELECT count(*) FROM {}.tasks", self.shared.schema.name);
        Session::new(&self.shared).number(&sql).unwrap()
    }

    /// The data directory serves all tasks, and the database has none.
    fn is_not_moved(&self) {
        assert_eq!(self.moved(), 0);
        let server = self.place.serve(&[]);
        self.has_all(&server);
        server.kill();
    }

    /// Neither the data directory nor the database serves tasks until the command is run again, and both say so.
    fn is_unfinished(&self) {
        for jobs in [super::support::JOBS, &self.shared.jobs()] {
            fs::write(self.place.file("jobs.toml"), jobs).unwrap();
            ends(&self.place, &["serve", "jobs.toml"], 1).has("longhaul migrate");
        }
        fs::write(self.place.file("jobs.toml"), super::support::JOBS).unwrap();
    }

    /// The database serves all tasks, and the data directory does not. Each task runs once.
    fn is_moved(&self) {
        assert_eq!(self.moved(), 3);
        ends(&self.place, &["serve", "jobs.toml"], 1).has("set `store` to it");
        let (code, told, said) = self.migrate(&[]);
        assert!(code == Some(0) && told["movedBefore"] == true, "{said}");
        fs::write(self.place.file("jobs.toml"), self.shared.jobs()).unwrap();
        let server = self.place.serve(&[]);
        self.has_all(&server);
        fs::write(self.place.file("gate"), "").unwrap();
        for task in &self.tasks {
            until("it has ended", || server.look(task) == "completed");
        }
        assert_eq!(self.place.runs(), 3);
    }
}

#[test]
fn a_move_that_is_killed_before_it_is_recorded_has_changed_nothing() {
    let case = Case::new();
    let session = Session::new(&case.shared);
    let schema = &case.shared.schema.name;
    // While the schema is made.
    session.run(&format!("BEGIN; CREATE SCHEMA {schema}"));
    let waited = case.kill_while_it_waits(&session);
    session.run("ROLLBACK");
    session.ended(waited);
    let server = case.place.serve(&[]);
    case.has_all(&server);
    server.kill();
    // While it looks whether the schema is empty.
    Runtime::new()
        .unwrap()
        .block_on(async { drop(case.shared.schema.open().await) });
    session.run(&format!("BEGIN; LOCK TABLE {schema}.nodes"));
    let waited = case.kill_while_it_waits(&session);
    session.run("ROLLBACK");
    session.ended(waited);
    case.is_not_moved();
    let (code, _, said) = case.migrate(&[]);
    assert_eq!(code, Some(0), "{said}");
    case.is_moved();
}

#[test]
fn a_move_that_is_killed_while_it_copies_is_made_again_or_abandoned() {
    let case = Case::with_tables();
    let session = Session::new(&case.shared);
    // The last one is where the database notes the move.
    let schema = &case.shared.schema.name;
    for table in TABLES.split(' ').chain(["relocations"]) {
        session.run(&format!("BEGIN; LOCK TABLE {schema}.{table} IN EXCLUSIVE MODE"));
        let waited = case.kill_while_it_waits(&session);
        session.run("ROLLBACK");
        session.ended(waited);
        assert_eq!(case.moved(), 0, "{table}");
        case.is_unfinished();
    }
    let (code, _, said) = case.migrate(&["--abandon"]);
    assert_eq!(code, Some(0), "{said}");
    case.is_not_moved();
    let moved = done(&case.place, &case.words(&url(&case.shared.schema.address)));
    assert_eq!(moved["tasks"], 3, "{moved}");
    case.is_moved();
}

/// The copy is being committed when the command is killed, and nobody learns what became of it.
#[test]
fn a_move_that_is_killed_while_it_commits_is_found_out_about() {
    let case = Case::with_tables();
    let (session, schema) = (Session::new(&case.shared), &case.shared.schema.name);
    session.run(&format!(
        "CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM set_config('lock_timeout', '0', true); \
             PERFORM pg_advisory_xact_lock(7411, hashtext('{schema}')); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON {schema}.relocations \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.wait()"
    ));
    let hold = format!("SELECT pg_advisory_lock(7411, hashtext('{schema}'))");
    let release = format!("SELECT pg_advisory_unlock(7411, hashtext('{schema}'))");

    // It fails.
    session.run(&hold);
    let committing = case.kill_while_it_waits(&session);
    session.run(&format!("SELECT pg_terminate_backend({committing})"));
    session.ended(committing);
    session.run(&release);
    assert_eq!(case.moved(), 0);
    case.is_unfinished();

    // It succeeds, after the command was run again, which has to wait longer than others wait for a lock.
    session.run(&hold);
    let committing = case.kill_while_it_waits(&session);
    let again = case.start();
    let patience = format!(
        "SELECT 1::bigint FROM pg_stat_activity WHERE {committing} = ANY(pg_blocking_pids(pid)) \
         AND query_start < clock_timestamp() - interval '4 seconds'"
    );
    until("the second one has waited for the first", || {
        session.number(&patience).is_some()
    });
    session.run(&release);
    let ended = again.wait_with_output().unwrap();
    ended.ends(0).says("moved 3 tasks");
    case.is_moved();
}

/// The database has the tasks, and the data directory does not know it.
#[test]
fn a_move_that_is_killed_before_its_end_is_recorded_can_only_be_finished() {
    let case = Case::with_tables();
    let (session, schema) = (Session::new(&case.shared), &case.shared.schema.name);
    session.run(&format!("BEGIN; LOCK TABLE {schema}.ended_sessions IN EXCLUSIVE MODE"));
    let mut command = case.start();
    session.waiting();
    // Now that the move is recorded, its end cannot be.
    let data = rusqlite::Connection::open(case.place.file("data/longhaul.db")).unwrap();
    data.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.run("ROLLBACK");
    until("it is committed", || case.moved() == 3);
    command.kill().unwrap();
    command.wait().unwrap();
    drop(data);
    case.is_unfinished();
    let (code, _, said) = case.migrate(&["--abandon"]);
    assert_eq!(code, Some(1), "{said}");
    said.has("are in the database already");
    case.is_unfinished();
    let (code, moved, said) = case.migrate(&[]);
    assert!(code == Some(0) && moved["tasks"] == 3, "{said}");
    case.is_moved();
}
