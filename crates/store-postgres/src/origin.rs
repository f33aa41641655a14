//! Which database this is, and whether it is an earlier state of one.
//!
//! A copy of the tasks as they were does not know what has run since. Two things show that a database is one:
//!
//! - It is not where its tables were made: a restored dump has other oids, and a copy of all files of a cluster in another place another identifier of it
//!   (`initdb`), unless it was copied file by file. The table `origin` has the first ones.
//! - It lacks what a host remembers: its latest node, or the latest removal of files. Hosts keep both in their data directories (`HostFile`), after the
//!   database has committed them, so a database that was not restored is never behind.
//!
//! A failover to a standby changes neither, as long as nothing is lost that a host remembers. But the timeline of the write-ahead log is another one, and on it
//! numbers of nodes and attempts may be given again that were lost with the old one. So nodes begin anew on a new timeline, with numbers of their own.

use crate::{
    connection::{Work, take_turn},
    statement::{Execute, Fault, PostgresRow, Tx, encode, row},
};
use longhaul_store::task_row::Row as _;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What tells databases apart. What a role may not ask, as with some hosted databases, is `NULL`.
const IDENTITY: &str = "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE') THEN (SELECT system_identifier::text FROM pg_control_system()) END, \
         (SELECT oid::bigint FROM pg_database WHERE datname = current_database()), 'tasks'::regclass::oid::bigint, \
         CASE WHEN has_function_privilege('pg_current_wal_lsn()', 'EXECUTE') AND has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE') \
             THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END, \
         (SELECT id FROM origin), (SELECT system FROM origin), (SELECT database FROM origin), (SELECT tables FROM origin), (SELECT first_node FROM origin)";
const BEGIN: &str = "INSERT INTO origin (id, system, database, tables, first_node) VALUES ($1, $2, $3, $4, 1)";
const ACCEPT: &str = "UPDATE origin SET id = $1, system = $2, database = $3, tables = $4, \
     first_node = (SELECT coalesce(max(nodes.id), 0) + 1000000 FROM nodes)";
/// So many numbers of nodes belong to each timeline.
const NODES_OF_TIMELINE: i64 = 1_000_000;
const FILE: &str = "database";

/// Why a database may be a copy of an earlier state, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Copied {
    /// It was restored from a dump, or copied.
    #[error(
        "the database is a copy: its tables were not made here, as after `pg_restore`, or the copy of a database. What it calls queued or running may have run \
         since, and may still run with the original"
    )]
    Elsewhere,
    /// It was restored to an earlier time.
    #[error(
        "the database is older than this data directory: it does not know node {node}, which was the latest server here. It was restored to an earlier time, or has \
         lost changes in a failover. What it calls queued or running may have run since"
    )]
    LacksNode {
        /// The node.
        node: i64,
    },
    /// The same.
    #[error(
        "the database is older than this data directory: it knows that attempt folders were removed here {database} times, and the file `database` {file} times. It was \
         restored to an earlier time, or has lost changes in a failover. What it calls queued or running may have run since"
    )]
    LacksRemovals {
        /// By the database.
        database: i64,
        /// By the file.
        file: i64,
    },
    /// Nothing is known of it.
    #[error("the file {0} cannot be read, so it is not known whether the database is the latest one: {1}")]
    FileDamaged(PathBuf, String),
}

/// The database, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// [`Origin::id`].
    pub(crate) origin: Option<Arc<str>>,
    system: Option<Arc<str>>,
    database: i64,
    tables: i64,
    timeline: Option<i64>,
    first_node: i64,
    /// Whether its tables were made here.
    is_original: bool,
}

impl Identity {
    pub(crate) async fn read(on: &impl Execute) -> Result<Self, Fault> {
        let found = on.row(IDENTITY, &[]).await?;
        let found = found.ok_or_else(|| Fault::Outage("the database says nothing of itself".to_owned()))?;
        let text = |at| PostgresRow(&found).text(at, |text| Arc::<str>::from(text));
        let (system, database, tables) = (text(0)?, row::number(&found, 1)?, row::number(&found, 2)?);
        let known = (PostgresRow(&found).integer(6)?, PostgresRow(&found).integer(7)?);
        let is_other = |before: &Option<Arc<str>>| before.is_some() && system.is_some() && *before != system;
        Ok(Self {
            origin: text(4)?,
            is_original: known == (Some(database), Some(tables)) && !is_other(&text(5)?),
            system,
            database,
            tables,
            timeline: PostgresRow(&found).integer(3)?,
            first_node: PostgresRow(&found).integer(8)?.unwrap_or(1),
        })
    }

    /// The least number that a node may have.
    pub(crate) fn first_node(&self) -> i64 {
        let earlier_timelines = self.timeline.unwrap_or(1).saturating_sub(1);
        self.first_node.max(earlier_timelines.saturating_mul(NODES_OF_TIMELINE))
    }

    /// Whether it is not the database that `self` was any more: another one, or the same after a failover.
    pub(crate) fn has_changed(&self, now: &Self) -> bool {
        let others = |one: &Self| (one.origin.clone(), one.database, one.tables, one.timeline);
        others(self) != others(now)
    }

    /// Whether the tables were copied here; whoever opens new ones says that they were made here.
    pub(crate) async fn settle(&mut self, on: &impl Execute, accept: bool) -> Result<Option<Copied>, Fault> {
        let id = format!("{:032x}", fastrand::u128(..));
        let sql = match (&self.origin, self.is_original, accept) {
            (None, _, _) => BEGIN,
            (Some(_), false, true) => ACCEPT,
            (Some(_), false, false) => return Ok(Some(Copied::Elsewhere)),
            (Some(_), true, _) => return Ok(None),
        };
        on.execute(sql, &[&id, &self.system.as_deref(), &self.database, &self.tables])
            .await?;
        *self = Self::read(on).await?;
        Ok(None)
    }

    /// Accepts a database that lacks what this host remembers: it gets another id, so that no other host compares it with what it remembers.
    pub(crate) async fn accept(&mut self, on: &impl Execute) -> Result<(), Fault> {
        let id = format!("{:032x}", fastrand::u128(..));
        on.execute(ACCEPT, &[&id, &self.system.as_deref(), &self.database, &self.tables])
            .await?;
        *self = Self::read(on).await?;
        Ok(())
    }
}

/// What a host remembers of the database, in a file of its data directory.
#[derive(Debug, Clone)]
pub(crate) struct HostFile {
    path: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostFileContents {
    pub(crate) origin: String,
    /// The host itself: a copy of the directory gets another id.
    pub(crate) host: String,
    /// Its latest node.
    pub(crate) node: i64,
    /// How often it has removed files.
    pub(crate) removals: i64,
}

impl HostFile {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(FILE),
        }
    }

    /// What it says; `None` if it is not there.
    pub(crate) fn read(&self) -> Result<Option<HostFileContents>, Copied> {
        let damaged = |why: String| Copied::FileDamaged(self.path.clone(), why);
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| damaged(error.to_string()))?,
        };
        let read: Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let text = |key: &str| read[key].as_str().map(str::to_owned);
        match (
            text("origin"),
            text("host"),
            read["node"].as_i64(),
            read["removals"].as_i64(),
        ) {
            (Some(origin), Some(host), Some(node), Some(removals)) => Ok(Some(HostFileContents {
                origin,
                host,
                node,
                removals,
            })),
            _ => Err(damaged("it lacks a part".to_owned())),
        }
    }

    /// Replaces it, and returns once it is on the disk.
    pub(crate) fn write(&self, remembered: &HostFileContents) -> io::Result<()> {
        let HostFileContents {
            origin,
            host,
            node,
            removals,
        } = remembered;
        let draft = self.path.with_extension("draft");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        writeln!(
            file,
            "{}",
            json!({"origin": origin, "host": host, "node": node, "removals": removals})
        )?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Whether the database lacks what a host remembers.
pub(crate) async fn lacks(on: &impl Execute, remembered: &HostFileContents) -> Result<Option<Copied>, Fault> {
    const KNOWN: &str = "SELECT (SELECT count(*) FROM nodes WHERE id = $1 AND host = $2) + (SELECT count(*) FROM forgotten_nodes WHERE greatest >= $1), coalesce((SELECT count FROM removals WHERE host = $2), 0)";
    let found = on.row(KNOWN, &[&remembered.node, &encode(&remembered.host)]).await?;
    let Some(found) = found else { return Ok(None) };
    let (nodes, database) = (row::number(&found, 0)?, row::number(&found, 1)?);
    let (node, file) = (remembered.node, remembered.removals);
    Ok(match () {
        () if nodes == 0 => Some(Copied::LacksNode { node }),
        () if database < file => Some(Copied::LacksRemovals { database, file }),
        () => None,
    })
}

/// Finds out which database it is, and whether it may be used, before anything else is done with it.
pub(crate) struct Establish<'a> {
    pub(crate) file: Option<&'a HostFile>,
    /// Whether it is used although it is a copy.
    pub(crate) accept: bool,
}

impl Work for Establish<'_> {
    type Answer = (Identity, Option<Copied>);

    async fn run(&self, tx: &Tx<'_>) -> Result<Self::Answer, Fault> {
        take_turn(tx, "nodes").await?;
        let mut identity = Identity::read(tx).await?;
        let mut copied = identity.settle(tx, self.accept).await?;
        if copied.is_some() {
            return Ok((identity, copied));
        }
        match self.file.map(HostFile::read) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(remembered))) if identity.origin.as_deref() == Some(&*remembered.origin) => {
                copied = lacks(tx, &remembered).await?;
            }
            // It was used with another database, or with this one before it was accepted.
            Some(Ok(Some(_))) => {}
            Some(Err(damaged)) => copied = Some(damaged),
        }
        if copied.is_some() && self.accept {
            identity.accept(tx).await?;
            copied = None;
        }
        Ok((identity, copied))
    }
}

/// Counts a removal of files of a host. Answers how many there were.
pub(crate) struct CountRemoval<'a> {
    pub(crate) host: &'a str,
}

impl Work for CountRemoval<'_> {
    type Answer = i64;

    async fn run(&self, tx: &Tx<'_>) -> Result<i64, Fault> {
        const COUNT: &str = "INSERT INTO removals (host, count) VALUES ($1, 1) ON CONFLICT (host) DO UPDATE SET count = removals.count + 1 RETURNING count";
        let found = tx.row(COUNT, &[&encode(self.host)]).await?;
        found
            .map(|found| row::number(&found, 0))
            .transpose()
            .map(Option::unwrap_or_default)
    }
}

/// How often a host has removed files.
pub(crate) struct Removals<'a> {
    pub(crate) host: &'a str,
}

impl Work for Removals<'_> {
    type Answer = i64;

    async fn run(&self, tx: &Tx<'_>) -> Result<i64, Fault> {
        let found = tx
            .row("SELECT count FROM removals WHERE host = $1", &[&encode(self.host)])
            .await?;
        found
            .map(|found| row::number(&found, 0))
            .transpose()
            .map(Option::unwrap_or_default)
    }
}
