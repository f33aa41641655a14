//! `longhaul keys`: the API keys of a server.

use crate::{
    args::{Keys, KeysCommand, KeysOf},
    check,
    config::{self, Environment, KeysConfig, SharedStore},
    exit::failure::{report_config, report_local},
    machine::{
        audit::AuditLog,
        secret_keys::{self, SecretKeyError},
        served_file,
    },
    output::{self, timestamp::timestamp},
    servers,
};
use longhaul::audit::{AuditAction, AuditEvent, AuditOutcome};
use longhaul::auth::keys::{ApiKey, KeyFile, KeyFileError, KeyName, KeySummary, NewKey, Rotation};
use longhaul_core::{Millis, Principal, ToolPattern, UnixMillis};
use longhaul_runtime::Ports;
use longhaul_store::SqliteStore;
use longhaul_store_postgres::PostgresStore;
use serde_json::json;
use std::{
    path::{Path, PathBuf, absolute},
    process::ExitCode,
    time::Duration,
};

/// Runs the command. It needs no server: one that runs reads the keys again by itself.
pub(crate) async fn run(keys: &Keys) -> ExitCode {
    let (of, json) = match &keys.command {
        KeysCommand::Add { of, json, .. }
        | KeysCommand::List { of, json, .. }
        | KeysCommand::Rotate { of, json, .. }
        | KeysCommand::Revoke { of, json, .. } => (of, *json),
    };
    let config = match config::load_for_keys(&of.file, &Environment::without_variables()) {
        Ok(config) => config,
        // A key can be revoked although the file is lost.
        Err(error) if of.data_dir.is_some() => {
            output::note(&format!(
                "warning: {error}; so the tools are not known, and no line is written to an audit log"
            ));
            KeysConfig::default()
        }
        Err(error) => return report_config(&error, json),
    };
    let given = of.data_dir.as_ref();
    let given = given.map(|data_dir| absolute(data_dir).unwrap_or_else(|_| data_dir.clone()));
    let file = of.file.display().to_string();
    let Some(data_dir) = given.or_else(|| config.data_dir.clone()) else {
        for problem in &config.problems {
            output::note(&problem.at(&file));
        }
        let error = format!("{file} does not say where the keys are; say it with --data-dir");
        return report_local(&error, true, json);
    };
    for problem in &config.problems {
        output::note(&format!("warning: {}", problem.at(&file)));
    }
    if of.data_dir.is_none()
        && let Err(error) = served_file::check(&of.file, &data_dir)
    {
        return report_local(&error, true, json);
    }
    match change(&keys.command, of, &config, &data_dir).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_local(&error, false, json),
    }
}

/// Why the keys were not changed.
#[derive(Debug, thiserror::Error)]
enum KeysError {
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error(transparent)]
    Secrets(#[from] SecretKeyError),
    #[error("{0}")]
    DataDir(String),
    #[error(
        "{} would be made for root in a folder of the user {user}, who could not use it: run this as that user, with `runuser -u {user} -- longhaul keys …`",
        data_dir.display()
    )]
    OfRoot { data_dir: PathBuf, user: String },
    #[error("{0}; nothing was changed")]
    NoTool(String),
    #[error(
        "{place} has tasks of a key {name}, which {file} does not know: it may have been lost, or was added at another server. The new key would own these tasks: choose \
         another name, or put the file back"
    )]
    HasTasks { place: String, name: KeyName, file: String },
    #[error(
        "{file} does not know a key {name}, and whether {place} has tasks of an earlier one, which the new key would own, cannot be told: {source}; choose another \
         name, or add the key when the database can be read"
    )]
    Unreadable {
        place: String,
        name: KeyName,
        file: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The tasks of a lost key file must not get a new owner unnoticed, in the data directory or in the database that is configured.
async fn check_name_is_new(
    file: &KeyFile,
    name: &KeyName,
    data_dir: &Path,
    shared: Option<&SharedStore>,
) -> Result<(), KeysError> {
    if file.list()?.iter().any(|key| key.name == *name) {
        return Ok(());
    }
    let principal = Principal::named(format!("key:{name}"));
    let (key, path) = (name.clone(), file.path().display().to_string());
    let refused = |place: String, found: Result<bool, Box<dyn std::error::Error + Send + Sync>>| {
        let (name, file) = (key.clone(), path.clone());
        match found {
            Ok(false) => Ok(()),
            Ok(true) => Err(KeysError::HasTasks { place, name, file }),
            Err(source) => Err(KeysError::Unreadable {
                place,
                name,
                file,
                source,
            }),
        }
    };
    let local = SqliteStore::has_tasks_of(data_dir, &principal);
    refused(data_dir.display().to_string(), local.map_err(Into::into))?;
    let Some(shared) = shared else { return Ok(()) };
    let found = PostgresStore::has_tasks_of(&shared.address, &shared.options(), &principal).await;
    refused(shared.shown(), found.map_err(Into::into))
}

/// Refuses a pattern that fits no tool. The name of a key is not used again, so a key with a mistyped pattern could not be replaced.
fn check_tools(patterns: &[ToolPattern], config: &KeysConfig, of: &KeysOf) -> Result<(), KeysError> {
    let Some(tools) = &config.tools else { return Ok(()) };
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let mut unfit = patterns
        .iter()
        .filter_map(|pattern| check::describe_unfit(pattern, &tools));
    match unfit.next() {
        Some(why) => Err(KeysError::NoTool(format!("{}: {why}", of.file.display()))),
        None => Ok(()),
    }
}

async fn change(command: &KeysCommand, of: &KeysOf, config: &KeysConfig, data_dir: &Path) -> Result<(), KeysError> {
    let ports = Ports::system();
    if let Some(why) = check::machine::foreign_data_dir(data_dir) {
        return Err(KeysError::DataDir(why));
    }
    if let Some(user) = check::machine::owner_of_folder(data_dir) {
        return Err(KeysError::OfRoot {
            data_dir: data_dir.to_owned(),
            user,
        });
    }
    if let KeysCommand::Rotate { name: None, json, .. } = command {
        return rotate_secrets(config, data_dir, &ports, *json);
    }
    let file = KeyFile::open(data_dir)?;
    if let Some(mode) = file.earlier_mode() {
        servers::tell_mode(
            &file.path(),
            mode,
            "It has the names and the hashes of keys, and no key",
        );
    }
    let now = ports.clock.wall();
    let end = |after: Option<Millis>| after.map(|after| now.plus(after));
    match command {
        KeysCommand::Add {
            name,
            tools,
            resources,
            expires,
            json,
            ..
        } => {
            check_name_is_new(&file, name, data_dir, config.shared_store.as_ref()).await?;
            check_tools(tools, config, of)?;
            let mut new = NewKey::named(name.clone());
            if !tools.is_empty() {
                new.tools.clone_from(tools);
            }
            new.resources = *resources;
            new.expires = end(*expires);
            print(name, &file.add(&new, &*ports.entropy, now)?, *json);
            record(config, &ports, name.as_str(), "added");
        }
        KeysCommand::Rotate {
            name: Some(name),
            overlap,
            expires,
            json,
            ..
        } => {
            let rotation = Rotation {
                overlap: Duration::from_millis(overlap.unwrap_or_default()),
                expires: end(*expires),
            };
            print(name, &file.rotate(name, &rotation, &*ports.entropy, now)?, *json);
            record(config, &ports, name.as_str(), "rotated");
        }
        KeysCommand::Revoke { name, json, .. } => {
            file.revoke(name, now)?;
            record(config, &ports, name.as_str(), "revoked");
            if *json {
                output::json_line(&json!({"name": name.as_str(), "revoked": true}));
            }
            output::note(&format!(
                "The key {name} is revoked; a running server ends what it has opened"
            ));
            return Ok(());
        }
        // Done above.
        KeysCommand::Rotate { name: None, .. } => {}
        KeysCommand::List { json, .. } => {
            list(&file.list()?, *json, now);
            return Ok(());
        }
    }
    if !config.api_keys {
        output::note("warning: the configuration does not accept keys: set api_keys = true in [server.auth]");
    }
    Ok(())
}

/// Makes a new key of secret arguments.
fn rotate_secrets(config: &KeysConfig, data_dir: &Path, ports: &Ports, as_json: bool) -> Result<(), KeysError> {
    let (id, count) = secret_keys::rotate(data_dir, &*ports.entropy, ports.clock.wall())?;
    let file = data_dir.join(secret_keys::FILE);
    record_as(config, ports, None, &format!("key {id} of secret arguments made"));
    if as_json {
        output::json_line(&json!({"secretsKey": id, "file": file, "earlierKeys": count - 1}));
    }
    output::note(&format!(
        "{} has the new key {id} for secret arguments; {} there for what is stored already",
        file.display(),
        match count {
            1 => "no earlier one was".to_owned(),
            2 => "the earlier one stays".to_owned(),
            count => format!("{} earlier ones stay", count - 1),
        }
    ));
    output::note(match config.shared_store {
        Some(_) => {
            "Copy the file to the data directories of all servers of the database, and only then restart them or send them SIGHUP, which makes them use it"
        }
        None => "A server that runs uses it after SIGHUP, or when it is started again",
    });
    Ok(())
}

/// Records the change in the audit log, if there is one. It was made, so a log that cannot be written is only warned of.
fn record(config: &KeysConfig, ports: &Ports, name: &str, change: &str) {
    record_as(config, ports, Some(format!("key:{name}")), change);
}

fn record_as(config: &KeysConfig, ports: &Ports, principal: Option<String>, change: &str) {
    let Some(audit) = &config.audit else { return };
    let mut event = AuditEvent::new(ports.clock.wall(), AuditAction::Key, AuditOutcome::Ok);
    event.principal = principal.map(Into::into);
    let event = event.with_detail(format!("{change} by longhaul keys"));
    if let Err(error) = AuditLog::open(audit, &ports.clock).and_then(|log| log.write(&event)) {
        output::note(&format!("warning: the change is not in the audit log: {error}"));
    }
}

/// The key alone, so that it can be piped.
fn print(name: &KeyName, key: &ApiKey, as_json: bool) {
    match as_json {
        true => output::json_line(&json!({"name": name.as_str(), "key": key.expose()})),
        false => output::text(&format!("{}\n", key.expose())),
    }
    output::note("This key is not shown again. Clients send it as `Authorization: Bearer KEY`");
}

fn list(keys: &[KeySummary], as_json: bool, now: UnixMillis) {
    if !as_json && !keys.is_empty() {
        output::text("NAME\tSTATE\tTOOLS\tRESOURCES\tEND\n");
    }
    for key in keys {
        let tools: Vec<&str> = key.tools.iter().map(|pattern| pattern.as_str()).collect();
        let state = match key.revoked {
            Some(_) => "revoked",
            None if key.is_active(now) => "active",
            None => "expired",
        };
        if as_json {
            output::json_line(&json!({
                "name": key.name.as_str(),
                "state": state,
                "tools": tools,
                "resources": key.resources,
                "created": timestamp(key.created),
                "rotated": key.rotated.map(timestamp),
                "expires": key.expires.map(timestamp),
                "overlapUntil": key.overlap_until.map(timestamp),
                "revoked": key.revoked.map(timestamp),
            }));
            continue;
        }
        let end = key
            .expires
            .map_or_else(|| "no end".to_owned(), |at| format!("until {}", timestamp(at)));
        let overlap = key.overlap_until.filter(|until| *until > now && key.revoked.is_none());
        let overlap = overlap.map_or_else(String::new, |until| {
            format!("; the key before it until {}", timestamp(until))
        });
        let resources = if key.resources { "yes" } else { "no" };
        output::text(&format!(
            "{}\t{state}\t{}\t{resources}\t{end}{overlap}\n",
            key.name,
            tools.join(" ")
        ));
    }
    if keys.is_empty() {
        output::note("There are no keys: add one with `longhaul keys add FILE NAME`");
    }
}
