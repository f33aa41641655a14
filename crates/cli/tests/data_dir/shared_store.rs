//! `store` in `[server]`: the tasks are in PostgreSQL, and the data directory has what belongs to the host.

use crate::{
    assertions::*,
    database::{Schema, Server as Database},
    support::{JOBS, Place, done, ends, longhaul, run, until},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

/// A database, and a schema of its own in it.
pub(crate) struct Shared {
    pub(crate) schema: Schema,
    pub(crate) database: Arc<Database>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self::on(Database::find())
    }

    /// On a database that this test may stop.
    pub(crate) fn private() -> Self {
        Self::on(Database::private())
    }

    fn on(database: impl Future<Output = Database>) -> Self {
        let database = tokio::runtime::Runtime::new().unwrap().block_on(database);
        Self {
            schema: Schema::new(&database),
            database: Arc::new(database),
        }
    }

    /// Another schema of the same database.
    fn another(&self) -> Self {
        Self {
            schema: Schema::new(&self.database),
            database: Arc::clone(&self.database),
        }
    }

    /// Runs SQL as somebody else would.
    fn run_sql(&self, sql: &str) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let address = &self.schema.address;
            let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
            tokio::select! {
                ended = connection => panic!("the connection has ended: {ended:?}"),
                done = client.batch_execute(sql) => done.unwrap(),
            }
        });
    }

    /// A folder with a server that keeps its tasks there.
    pub(crate) fn place(&self) -> Place {
        Place::with(&self.jobs())
    }

    pub(crate) fn jobs(&self) -> String {
        let keys = format!(
            "store = {:?}\nstore_schema = {:?}\nnode_lease = \"2s\"\nlost_after = \"1h\"\n",
            url(&self.schema.address),
            self.schema.name
        );
        JOBS.replace("[[tool]]", &format!("{keys}\n[[tool]]"))
    }
}

impl Place {
    /// The servers, as this one has them.
    pub(crate) fn nodes(&self) -> Vec<Value> {
        let listed = done(self, &["nodes", "jobs.toml", "--json"]);
        listed["nodes"].as_array().unwrap().clone()
    }

    /// What a command prints.
    pub(crate) fn printed(&self, words: &[&str]) -> String {
        String::from_utf8(longhaul(self, words).output().unwrap().stdout).unwrap()
    }
}

/// The address as a URL.
pub(crate) fn url(address: &str) -> String {
    if address.contains("://") {
        return address.to_owned();
    }
    let value = |name: &str| {
        let found = address
            .split(' ')
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_default().trim_matches('\'').replace('/', "%2F")
    };
    let port = Some(value("port")).filter(|port| !port.is_empty());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let [user, host, name] = ["user", "host", "dbname"].map(value);
    format!("postgres://{user}@{host}{port}/{name}")
}

/// One answers for the tasks of the other. The command of a server that is killed runs on, and its next process takes it back.
#[test]
fn two_servers_have_the_same_tasks() {
    let shared = Shared::new();
    let (first, second) = (shared.place(), shared.place());
    let (server, other) = (first.serve(&[]), second.serve(&[]));
    let id = server.begin();
    until("it runs", || first.runs() == 1 || second.runs() == 1);
    assert_eq!(other.look(&id), "working");
    let (holder, nodes) = (1 - first.runs(), second.nodes());
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for (node, server) in nodes.iter().zip([&server, &other]) {
        let is_asked = server.url == other.url;
        node.has_members(json!({"state": "alive", "name": "test", "address": server.url, "answers": is_asked}));
    }
    assert_eq!(nodes[holder]["boundAttempts"], 1, "{nodes:?}");
    let task = second.printed(&["admin", "task", "jobs.toml", &id]);
    let host = nodes[holder]["host"].as_str().unwrap();
    assert!(task.contains("runs at") && task.contains(host), "{task}");
    server.kill();
    assert_eq!(other.look(&id), "working");
    let server = first.serve(&[]);
    for place in [&first, &second] {
        fs::write(place.file("gate"), "").unwrap();
    }
    until("the other knows its end", || other.look(&id) == "completed");
    assert_eq!(server.look(&id), "completed");
    assert_eq!(first.runs() + second.runs(), 1, "it ran once");
    let said = server.kill();
    assert!(!said.contains("waiting"), "it knows its own dead process: {said}");
    let said = other.kill();
    assert!(!said.contains("postgres://"), "{said}");
}

/// What is bound to a host that is away is told: where it is, and what becomes of it.
#[test]
fn what_is_bound_to_a_host_that_is_away_is_told() {
    let shared = Shared::new();
    let (first, second) = (shared.place(), shared.place());
    let server = first.serve(&[]);
    let id = server.begin();
    until("it runs", || first.runs() == 1);
    let other = second.serve(&[]);
    let host = fs::read_to_string(first.file("data/host")).unwrap();
    let said = second.printed(&["admin", "doctor", "jobs.toml"]);
    assert_eq!(said, "nothing is wrong\n");
    server.kill();
    until("it is known to be dead", || second.nodes()[0]["state"] == "dead");
    let dead = &second.nodes()[0];
    dead.has_members(json!({"attempts": 1, "boundAttempts": 1}));
    assert!(dead["givenUpInMs"].as_u64().unwrap() <= 3_600_000, "{dead}");
    for words in [
        &["nodes", "jobs.toml"][..],
        &["admin", "task", "jobs.toml", &id],
        &["admin", "doctor", "jobs.toml"],
    ] {
        println!("{words:?}");
        let said = second.printed(words);
        said.has(host.trim()).has("start its server within");
    }
    fs::write(first.file("gate"), "").unwrap();
    let server = first.serve(&[]);
    until("it is taken back", || other.look(&id) == "completed");
    until("the dead one is forgotten", || second.nodes().len() == 2);
    drop(server);
}

/// A server whose database is silent says so, and goes on with it.
#[test]
fn a_database_that_does_not_answer_is_named_and_not_the_server() {
    let shared = Shared::private();
    let place = shared.place();
    let said = place.printed(&["check", "jobs.toml"]);
    assert!(said.contains("which the first start makes"), "{said}");
    let server = place.serve(&[]);
    assert!(server.report["store"].as_str().unwrap().contains(&shared.schema.name));
    let id = server.begin();
    until("it runs", || place.runs() == 1);
    shared.database.signal(Signal::STOP);
    let (code, found, _) = run(&place, &["check", "jobs.toml", "--json"]);
    assert_eq!((code, &found["ok"]), (Some(2), &false.into()), "{found}");
    found["problems"][0]["message"].as_str().unwrap().has("does not answer");
    server.run(&["task", &id]).fails().says("does not answer");
    let said = place.printed(&["admin", "doctor", "jobs.toml"]);
    said.has("its database does not").lacks("SIGKILL");
    shared.database.signal(Signal::CONT);
    fs::write(place.file("gate"), "").unwrap();
    until("it goes on", || {
        let shown = server.run(&["task", &id, "--json"]);
        String::from_utf8_lossy(&shown.stdout).contains("\"completed\"")
    });
    let said = place.printed(&["admin", "doctor", "jobs.toml"]);
    assert_eq!(said, "nothing is wrong\n");
}

/// A command of a host that was given up does not run on beside its retry once the host is back.
#[test]
fn a_host_that_comes_back_ends_what_was_given_up() {
    let shared = Shared::new();
    let place = || {
        let place = shared.place();
        let jobs = fs::read_to_string(place.file("jobs.toml")).unwrap();
        let jobs = jobs.replace("\"1h\"", "\"2s\"");
        let noted = "trap 'echo $$ >> ended; exit 1' TERM; echo $$ >> runs";
        let jobs = jobs.replace("echo run >> runs", noted);
        fs::write(place.file("jobs.toml"), jobs).unwrap();
        place
    };
    let (first, second) = (place(), place());
    let server = first.serve(&[]);
    let id = server.begin();
    until("it runs", || first.runs() == 1);
    let other = second.serve(&[]);
    server.kill();
    // A retry is as the task was made: it runs in the folder of the first server, on the host of the second.
    until("its host is given up", || first.runs() == 2);
    let lines = |name: &str| fs::read_to_string(first.file(name)).unwrap_or_default();
    assert_eq!(lines("ended"), "", "both run");
    let server = first.serve(&[]);
    until("one has ended", || !lines("ended").is_empty());
    assert_eq!(other.look(&id), "working");
    fs::write(first.file("gate"), "").unwrap();
    until("the retry has ended", || server.look(&id) == "completed");
    let (runs, ended) = (lines("runs"), lines("ended"));
    assert_eq!((runs.lines().count(), ended.lines().next()), (2, runs.lines().next()));
    server.kill().has("was given up while this host was away");
}

/// Two servers with one host id would take the commands of each other for their own.
#[test]
fn a_copy_of_a_data_directory_is_refused_while_the_original_is_served() {
    let shared = Shared::new();
    let first = shared.place();
    let server = first.serve(&[]);
    let copy = shared.place();
    fs::create_dir(copy.file("data")).unwrap();
    fs::set_permissions(copy.file("data"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(first.file("data/host"), copy.file("data/host")).unwrap();
    let said = ends(&copy, &["serve", "jobs.toml"], 1);
    said.has(&server.url).has("delete the file `host`");
    // What it says helps.
    fs::remove_file(copy.file("data/host")).unwrap();
    copy.serve(&[]);
    assert_eq!(first.nodes().len(), 2);
}

#[test]
fn what_cannot_be_used_is_said_before_anything_is_served() {
    let shared = Shared::new();
    let refused = |jobs: &str| {
        let place = Place::with(jobs);
        let (code, _, said) = run(&place, &["serve", "jobs.toml"]);
        assert!(code != Some(0), "{said}");
        said
    };
    let with = |key: &str| JOBS.replace("[[tool]]", &format!("{key}\n\n[[tool]]"));
    assert!(refused(&with("store = \"mysql://x\"")).contains("must be the URL of a PostgreSQL database"));
    let nobody = "store = \"postgres://nobody@127.0.0.1:9/none?connect_timeout=2\"";
    let said = refused(&with(nobody));
    assert!(said.contains("`store`:") && !said.contains("panicked"), "{said}");

    for variable in ["mysql://secret@x", " postgres://secret@x", "host=x"] {
        println!("{variable}");
        let place = Place::new();
        let mut command = longhaul(&place, &["serve", "jobs.toml"]);
        let ended = command.env("LONGHAUL_STORE", variable).output().unwrap();
        ended.ends(2).says("LONGHAUL_STORE must be the URL").says_no("secret");
    }

    // Tasks in the data directory would be out of sight.
    let place = Place::new();
    let server = place.serve(&[]);
    server.begin();
    server.kill();
    let shared_jobs = fs::read_to_string(shared.place().file("jobs.toml")).unwrap();
    fs::write(place.file("jobs.toml"), shared_jobs).unwrap();
    ends(&place, &["serve", "jobs.toml"], 1).has("has tasks in a database of its own");
    ends(&place, &["backup", "jobs.toml", "out.tar"], 1).has("pg_dump");
}

/// What a data directory has goes to the database. A command that runs meanwhile is not disturbed, and its server takes it back.
#[test]
fn the_tasks_of_a_data_directory_are_moved() {
    let shared = Shared::new();
    let place = Place::new();
    let server = place.serve(&[]);
    let cancelled = server.begin();
    assert!(server.run(&["cancel", &cancelled]).status.success());
    until("it is cancelled", || server.look(&cancelled) == "cancelled");
    let runs_before = place.runs();
    let id = server.begin();
    until("it runs", || place.runs() == runs_before + 1);
    let url = url(&shared.schema.address);
    let migrate = [
        "migrate",
        "jobs.toml",
        "--to",
        &url,
        "--schema",
        &shared.schema.name,
        "--json",
    ];
    ends(&place, &migrate, 1).has("longhaul admin drain jobs.toml");
    server.kill();

    let moved = done(&place, &migrate);
    assert_eq!(moved["tasks"], 2, "{moved}");
    assert_eq!(moved["runningCommands"], serde_json::json!([id]));
    let (code, told, said) = run(&place, &migrate);
    assert!(code == Some(0) && said.contains("were moved to postgres://"), "{said}");
    assert_eq!(told["movedBefore"], true, "{told}");
    ends(&place, &["serve", "jobs.toml"], 1).has("set `store` to it");

    // In another schema they would be out of sight.
    fs::write(place.file("jobs.toml"), shared.another().jobs()).unwrap();
    ends(&place, &["serve", "jobs.toml"], 1).has("does not have them");
    fs::write(place.file("jobs.toml"), shared.jobs()).unwrap();
    let server = place.serve(&[]);
    assert_eq!(server.look(&cancelled), "cancelled");
    assert_eq!(server.look(&id), "working");
    fs::write(place.file("gate"), "").unwrap();
    until("it has ended", || server.look(&id) == "completed");
    assert_eq!(place.runs(), runs_before + 1, "it ran once");
}

/// A key that is added must not get the tasks of one that was lost, or that another server knows.
#[test]
fn a_key_does_not_get_the_tasks_of_a_lost_one() {
    let shared = Shared::new();
    let with_keys = || {
        let place = shared.place();
        let jobs = fs::read_to_string(place.file("jobs.toml")).unwrap();
        let jobs = format!("{jobs}\n[server.auth]\napi_keys = true\n");
        fs::write(place.file("jobs.toml"), jobs).unwrap();
        place
    };
    let (first, second) = (shared.place(), with_keys());
    // Nothing was served yet: the database has no tables.
    done(&second, &["keys", "add", "jobs.toml", "eve", "--json"]);
    let server = first.serve(&[]);
    server.begin();
    let schema = &shared.schema.name;
    shared.run_sql(&format!("UPDATE {schema}.tasks SET principal = 'key:ann'"));
    let said = ends(&second, &["keys", "add", "jobs.toml", "ann"], 1);
    said.has("has tasks of a key ann");
    said.has(&shared.schema.name).lacks("password");
    done(&second, &["keys", "add", "jobs.toml", "bob", "--json"]);
    drop(server);
}

/// A database that is a copy is read-only until an operator says that it is to be used.
#[test]
fn a_restored_database_is_read_only_until_it_is_accepted() {
    let shared = Shared::new();
    let place = shared.place();
    let server = place.serve(&[]);
    assert!(server.report["readsOnly"].is_null(), "{}", server.report);
    let id = server.begin();
    until("it runs", || place.runs() == 1);
    server.kill();
    // As after `pg_restore`: its tables were not made here.
    shared.run_sql(&format!("UPDATE {}.origin SET tables = 1", shared.schema.name));
    fs::write(place.file("gate"), "").unwrap();
    let server = place.serve(&[]);
    let why = server.report["readsOnly"].as_str().unwrap();
    assert!(why.contains("the database is a copy"), "{why}");
    assert_eq!(server.look(&id), "working", "it can be read");
    server.run(&["call", "gate"]).fails().says("was restored or moved");
    server.kill();
    let server = place.serve(&["--accept-restored-database"]);
    assert!(server.report["readsOnly"].is_null(), "{}", server.report);
    until("it has ended", || server.look(&id) == "completed");
    server.kill();
    let server = place.serve(&[]);
    assert!(server.report["readsOnly"].is_null(), "{}", server.report);
}
