//! Who holds a lock that others wait for: named with the error, in the log and by `doctor`.

use super::{Connections, quoted};
use crate::statement::{Connection, Execute, Fault, row};
use longhaul_core::{approximate_duration, store::StoreError};

/// The oldest transaction of another session that has locked a table of the schema; `$2`: a lock that only keeps tables from being altered counts, too.
const HOLDER: &str = "SELECT activity.pid::bigint, coalesce(activity.application_name, ''), coalesce(activity.usename::text, ''), coalesce(activity.state, ''), \
         coalesce((extract(epoch FROM clock_timestamp() - activity.xact_start) * 1000)::bigint, 0) \
     FROM pg_locks AS locks JOIN pg_class AS tables ON tables.oid = locks.relation JOIN pg_namespace AS spaces ON spaces.oid = tables.relnamespace \
     JOIN pg_stat_activity AS activity ON activity.pid = locks.pid \
     WHERE locks.granted AND ($2 OR locks.mode <> 'AccessShareLock') AND spaces.nspname = $1 AND activity.pid <> pg_backend_pid() \
     AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY activity.xact_start LIMIT 1";

/// A fault that names who held the lock, if it was one and that can be found out.
pub(crate) async fn named(connections: &Connections, fault: Fault) -> Fault {
    if !matches!(fault, Fault::Refused(StoreError::Locked)) {
        return fault;
    }
    let found = async {
        let connection = connections.get().await?;
        let found = holder(&connection, &connections.schema, false).await;
        connection.settle(found)
    };
    let who = match found.await {
        Ok(Some(who)) => {
            connections.met_lock.note(who.clone());
            Some(who)
        }
        // It is over already, or cannot be seen by this role.
        Ok(None) => None,
        // All connections wait for the lock.
        Err(_) => connections.met_lock.lately(),
    };
    who.map_or(fault, |who| Fault::Refused(StoreError::LockedBy(who)))
}

/// The session whose transaction has locked tables for the longest time, in words.
pub(crate) async fn holder(on: &Connection, schema: &str, any: bool) -> Result<Option<String>, Fault> {
    let Some(found) = on.row(HOLDER, &[&schema, &any]).await? else {
        return Ok(None);
    };
    let text = |at| found.try_get::<_, &str>(at);
    let (pid, millis) = (row::number(&found, 0)?, row::number(&found, 4)?);
    let program = match text(1)? {
        "" => "a program without a name".to_owned(),
        name => format!("`{name}`"),
    };
    let state = match text(3)? {
        "" => String::new(),
        state => format!(", {state}"),
    };
    let age = approximate_duration(u64::try_from(millis).unwrap_or_default() / 1_000 * 1_000);
    Ok(Some(format!(
        "process {pid}, {program} of the role {}, whose transaction is {age} old{state}. End that, or the process: SELECT pg_terminate_backend({pid})",
        quoted(text(2)?)
    )))
}
