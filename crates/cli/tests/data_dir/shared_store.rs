//! `store` in `[server]`: the tasks are in PostgreSQL, and the data directory has what belongs to the host.

use crate::{
    database::{Schema, Server as Database},
    support::{JOBS, Place, longhaul, run, until},
};
use std::fs;

/// A database, and a schema of its own in it.
struct Shared {
    schema: Schema,
    _database: Database,
}

impl Shared {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(Database::find());
        Self {
            schema: Schema::new(&database),
            _database: database,
        }
    }

    /// A folder with a server that keeps its tasks there.
    fn place(&self) -> Place {
        let keys = format!(
            "store = {:?}\nstore_schema = {:?}\nnode_lease = \"2s\"\n",
            url(&self.schema.address),
            self.schema.name
        );
        Place::with(&JOBS.replace("[[tool]]", &format!("{keys}\n[[tool]]")))
    }
}

/// The address as a URL.
fn url(address: &str) -> String {
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
    format!(
        "postgres://{}@{}{port}/{}",
        value("user"),
        value("host"),
        value("dbname")
    )
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
    server.kill();
    assert_eq!(other.look(&id), "working");
    let server = first.serve(&[]);
    for place in [&first, &second] {
        fs::write(place.file("gate"), "").unwrap();
    }
    until("the other knows its end", || other.look(&id) == "completed");
    assert_eq!(server.look(&id), "completed");
    assert_eq!(first.runs() + second.runs(), 1, "it ran once");
    let said = other.kill();
    assert!(!said.contains("postgres://"), "{said}");
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
        let ended = longhaul(&Place::new(), &["serve", "jobs.toml"])
            .env("LONGHAUL_STORE", variable)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{variable:?}: {said}");
        assert!(
            said.contains("LONGHAUL_STORE must be the URL") && !said.contains("secret"),
            "{said}"
        );
    }

    // Tasks in the data directory would be out of sight.
    let place = Place::new();
    let server = place.serve(&[]);
    server.begin();
    server.kill();
    let shared_jobs = fs::read_to_string(shared.place().file("jobs.toml")).unwrap();
    fs::write(place.file("jobs.toml"), shared_jobs).unwrap();
    let (code, _, said) = run(&place, &["serve", "jobs.toml"]);
    assert!(
        code == Some(1) && said.contains("has tasks in a database of its own"),
        "{said}"
    );
    let (code, _, said) = run(&place, &["backup", "jobs.toml", "out.tar"]);
    assert!(code == Some(1) && said.contains("pg_dump"), "{said}");
}
