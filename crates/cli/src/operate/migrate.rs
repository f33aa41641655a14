//! `longhaul migrate`: the tasks of a data directory go to a database that several servers share.

use crate::{
    args,
    config::{self, DEFAULT_SCHEMA, is_address},
    exit::failure::{report_config, report_local},
    output::{self, amounts::count},
};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_runtime::Ports;
use longhaul_store::{Relocation, RelocationError, SqliteOpenError};
use longhaul_store_postgres::{
    MoveError, MoveProgress, Moved, PostgresOptions, PostgresStore, abandon_move, move_tasks,
};
use serde_json::json;
use std::{path::Path, process::ExitCode, time::Duration};

/// How often the progress is drawn.
const REDRAW: Duration = Duration::from_millis(100);
/// So many ids of running commands are printed.
const MOST_SHOWN: usize = 5;

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
enum MigrateError {
    #[error("--to must be the URL of a PostgreSQL database, such as postgres://user@host/database")]
    Target,
    #[error(transparent)]
    Source(#[from] RelocationError),
    #[error("{source}. Stop that server first: `longhaul admin drain {file}`")]
    InUse { file: String, source: RelocationError },
    #[error(transparent)]
    Move(#[from] MoveError),
}

/// Runs the command.
pub(crate) async fn run(asked: &args::Migrate) -> ExitCode {
    // `store` may name the target already. What counts is the data directory.
    let config = match config::load_for_data_dir(&asked.file, asked.data_dir.as_deref()) {
        Ok(config) => config,
        Err(error) => return report_config(&error, asked.json),
    };
    config.warn_of_problems(&asked.file);
    match migrate(asked, &config.data_dir).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_local(&error, matches!(error, MigrateError::Target), asked.json),
    }
}

async fn migrate(asked: &args::Migrate, data_dir: &Path) -> Result<(), MigrateError> {
    if !is_address(&asked.to) {
        return Err(MigrateError::Target);
    }
    let schema = asked.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
    let address = PostgresStore::shown_address(&asked.to).ok_or(MigrateError::Target)?;
    let target = match schema {
        DEFAULT_SCHEMA => address.clone(),
        schema => format!("{address}, schema {schema}"),
    };
    let shown_dir = data_dir.display().to_string();
    let source = match Relocation::open(data_dir, &target) {
        Ok(source) => source,
        // An earlier call has finished it, and its caller may not know.
        Err(RelocationError::Moved(to)) if to == target && !asked.abandon => {
            if asked.json {
                output::json_line(&json!({"dataDir": shown_dir, "to": address, "schema": schema, "movedBefore": true}));
            }
            output::note(&format!(
                "the tasks of {shown_dir} were moved to {target} before; there is nothing to do"
            ));
            return Ok(());
        }
        Err(source @ RelocationError::Open(SqliteOpenError::InUse { .. })) => {
            let file = asked.file.display().to_string();
            return Err(MigrateError::InUse { file, source });
        }
        Err(error) => return Err(error.into()),
    };
    let options = PostgresOptions {
        schema: schema.to_owned(),
        ..PostgresOptions::default()
    };
    if asked.abandon {
        abandon_move(source, &asked.to, &options).await?;
        if asked.json {
            output::json_line(&json!({"dataDir": shown_dir, "abandoned": true}));
        }
        output::note(&format!(
            "the tasks stay in {shown_dir}, which a server can use as before"
        ));
        return Ok(());
    }
    let all = source.count().map_err(RelocationError::Open)?;
    output::note(&format!("moving {} of {shown_dir} to {target}", count(all, "task")));
    let bar = bar();
    let show = |progress: MoveProgress| bar.set_message(format!("{}: {}", progress.table, count(progress.rows, "row")));
    let moved = move_tasks(source, &asked.to, &options, Ports::system().clock.wall(), show).await;
    bar.finish_and_clear();
    report(asked, &shown_dir, &address, schema, &moved?);
    Ok(())
}

/// Not drawn where standard error is no terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::default_spinner());
    bar.enable_steady_tick(REDRAW);
    bar
}

fn report(asked: &args::Migrate, data_dir: &str, address: &str, schema: &str, moved: &Moved) {
    let running: Vec<&str> = moved.running_commands.iter().map(|id| id.as_str()).collect();
    if asked.json {
        output::json_line(&json!({
            "dataDir": data_dir,
            "store": address,
            "schema": schema,
            "tasks": moved.tasks,
            "runningCommands": running,
        }));
    }
    output::note(&format!("moved {}", count(moved.tasks, "task")));
    if !running.is_empty() {
        let more = if running.len() > MOST_SHOWN { ", …" } else { "" };
        output::note(&format!(
            "{} may still run: a server with `store` on this data directory takes them back if it starts within `lost_after`: {}{more}",
            count(running.len() as u64, "command"),
            running[..running.len().min(MOST_SHOWN)].join(", "),
        ));
    }
    output::note(&format!(
        "now set in [server] of {}, and start the server on the same data directory, which keeps logs and keys:",
        asked.file.display()
    ));
    let (store, has_password) = without_password(&asked.to);
    let password = if has_password {
        " # and its password, which is not shown"
    } else {
        ""
    };
    output::note(&format!("  store = \"{store}\"{password}"));
    if schema != DEFAULT_SCHEMA {
        output::note(&format!("  store_schema = \"{schema}\""));
    }
}

/// The URL of a database with all of its parameters but the password, and whether it has one.
fn without_password(url: &str) -> (String, bool) {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (user, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    let name = user.split_once(':').map_or(user, |(name, _)| name);
    let at = if user.is_empty() { "" } else { "@" };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|parameter| !parameter.starts_with("password="))
        .collect();
    let kept = kept.join("&");
    let mark = if kept.is_empty() { "" } else { "?" };
    (
        format!("{scheme}://{name}{at}{hosts}{mark}{kept}"),
        name != user || kept != query,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_be_set_has_all_but_the_password() {
        for (url, shown) in [
            ("postgres://jobs@db/jobs", None),
            ("postgres:///jobs?host=/run/pg", None),
            (
                "postgres://jobs@db1,db2/jobs?sslmode=verify-full&sslrootcert=/etc/root.crt",
                None,
            ),
            ("postgres://jobs:p@ss@db/jobs", Some("postgres://jobs@db/jobs")),
            (
                "postgres://db/jobs?password=x&sslmode=require",
                Some("postgres://db/jobs?sslmode=require"),
            ),
            ("postgres://db/jobs?password=x", Some("postgres://db/jobs")),
        ] {
            let expected = (shown.unwrap_or(url).to_owned(), shown.is_some());
            assert_eq!(without_password(url), expected);
        }
    }
}
