//! What is set for a session with the database, or behind a pooler for each transaction.

use crate::{PostgresOptions, statement::fault::POOLER};
use deadpool_postgres::HookError;
use longhaul_core::Millis;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_postgres::Config;

/// A session of ours has this setting, which a pooler does not pass on to its own sessions.
const MARK: &str = "longhaul.session";

/// How long a session may be silent in a transaction, in milliseconds: about a lease. What a node that is paused or cut off has locked is free then, so that
/// others can go on with its work.
const SHORTEST_IDLE: Millis = 2_000;
const LONGEST_IDLE: Millis = 30_000;

/// The settings of sessions.
pub(crate) struct Session {
    settings: String,
    mark: String,
    /// Whether it was said that the role's setting is not used.
    warned: AtomicBool,
}

impl Session {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        let settings = settings(options, "SET");
        Self {
            settings: format!("{settings}; SET default_transaction_isolation = 'read committed'"),
            mark: format!("{:016x}", fastrand::u64(..)),
            warned: AtomicBool::new(false),
        }
    }

    /// Asks for the mark as the connection is made.
    pub(crate) fn mark(&self, config: &mut Config) {
        let others = config
            .get_options()
            .map(|options| format!("{options} "))
            .unwrap_or_default();
        config.options(format!("{others}-c {MARK}={}", self.mark));
    }

    /// What is acknowledged must be on the disk, whatever is set for the server, the database or the role.
    pub(crate) async fn begin(&self, client: &tokio_postgres::Client) -> Result<(), HookError> {
        self.check(client).await?;
        client.batch_execute(&self.settings).await.map_err(HookError::Backend)?;
        let row = client
            .query_one("SHOW synchronous_commit", &[])
            .await
            .map_err(HookError::Backend)?;
        let found: &str = row.get(0);
        if matches!(found, "on" | "remote_apply") {
            return Ok(());
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("synchronous_commit is `{found}` for this database or role; Longhaul uses `on`");
        }
        client
            .batch_execute("SET synchronous_commit = on")
            .await
            .map_err(HookError::Backend)
    }

    /// Whether it is a session of the database's own.
    async fn check(&self, client: &tokio_postgres::Client) -> Result<(), HookError> {
        let mark = format!("SELECT current_setting('{MARK}', true)");
        let found = client.simple_query(&mark).await.map_err(HookError::Backend)?;
        let found = found.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        match found == Some(&*self.mark) {
            true => Ok(()),
            false => Err(HookError::message(POOLER)),
        }
    }
}

/// What begins a transaction behind a pooler: nothing that was set before it holds.
pub(crate) fn begin_pooled(options: &PostgresOptions) -> Arc<str> {
    let settings = settings(options, "SET LOCAL");
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {settings}; \
         SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
    )
    .into()
}

fn settings(options: &PostgresOptions, set: &str) -> String {
    format!(
        "{set} search_path = {}; {set} lock_timeout = {}; {set} statement_timeout = {}; \
         {set} idle_in_transaction_session_timeout = {}; {set} client_min_messages = warning",
        quoted(&options.schema),
        options.lock_timeout,
        options.statement_timeout,
        options.node_lease.clamp(SHORTEST_IDLE, LONGEST_IDLE),
    )
}

/// A name as SQL has it, whatever it contains.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
