//! `longhaul admin doctor`: what is wrong with a server, and what to do.

use super::{
    api::{Api, HANGS, configured, data_dir},
    finding::Finding,
    machine,
};
use crate::{
    args::{AdminTarget, Doctor},
    check::machine::reserve_doubt,
    config::{DataDirConfig, Environment, Problem},
    exit::{failure::Failure, result::Exit},
    output::{self, shell_word::shell_word},
};
use longhaul::auth::keys::KeyFile;
use longhaul_admin::DiskSpace;
use longhaul_admin_api::{ProblemView, ProblemsView};
use longhaul_command::suspended_supervisors;
use longhaul_core::TaskId;
use longhaul_private_dir::check_named;
use longhaul_store::{DirectoryReport, STOPPING, SqliteOpenError};
use serde_json::{Value, json};
use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// One of these is in each data directory in use.
const FILES: [&str; 3] = [DATABASE, "node", "lock"];
const DATABASE: &str = "longhaul.db";
/// A write-ahead log beyond this means that something holds an old state of the database, in bytes.
const LONG_LOG: u64 = 1 << 30;

/// Looks at the data directory, if the server is named by it or by its file, and at the server; if that does not run, at its tasks, too.
pub(super) async fn run(of: &AdminTarget) -> Result<Exit, Failure> {
    let mut findings = Vec::new();
    if of.target.contains("://") {
        let restart =
            "start it. If it runs and hangs, look at its log, and end it with SIGKILL: nothing acknowledged is lost";
        look_at_server(&Api::of(of)?.within(TIMEOUT), &of.target, restart, &mut findings).await?;
    } else {
        let (data_dir, api, start, is_shared) = match data_dir(of) {
            Some(data_dir) => (data_dir, Api::of(of), "start the server".to_owned(), None),
            None => {
                let config = configured(of)?;
                let api = Api::of_configured(of, &config);
                let start = format!("start it: longhaul serve {}", of.target);
                findings.extend(reserve_too_large(&config));
                findings.extend(config.problems.iter().map(|problem| mistake(problem, &of.target)));
                (config.data_dir, api, start, Some(config.is_shared))
            }
        };
        let is_sound = findings.is_empty();
        let file = is_shared.map(|_| Path::new(&of.target));
        if let Err(error) = fs::read_dir(&data_dir)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            let shown = data_dir.display();
            let what = format!("the data directory {shown} cannot be read: {error}; run this as the server's user");
            return Err(Failure::refused(what).of_kind("unauthorized"));
        }
        if let Some(user) = crate::check::machine::other_owner(&data_dir) {
            let shown = data_dir.display();
            let what = format!(
                "the data directory {shown} is that of the user {user}: run this as that user, with `runuser -u {user} -- longhaul doctor …`"
            );
            return Err(Failure::refused(what).of_kind("unauthorized"));
        }
        // A package or a volume may have made the folder.
        let is_prepared = file.is_some() && is_empty(&data_dir);
        if data_dir.is_dir() && !is_prepared && !FILES.iter().any(|file| data_dir.join(file).exists()) {
            return Err(Failure::usage(format!(
                "{} is no data directory: it has neither of {}; a server has not run on it",
                data_dir.display(),
                FILES.join(", ")
            )));
        }
        if is_prepared || !data_dir.exists() {
            let has_tasks = is_shared != Some(true);
            findings.append(&mut before_first_start(&data_dir, file, has_tasks, &start));
            print(of.json, &findings, &machine::hints());
            return Ok(Exit::ToolError);
        }
        look_at_directory(&data_dir, &mut findings);
        findings.extend(suspended(&data_dir.join("attempts")));
        let owner = DirectoryReport::owner(&data_dir).ok().flatten();
        if let Some(owner) = owner.as_ref().filter(|owner| owner.ends_with(STOPPING)) {
            let stops = [Finding::new(
                format!("the server stops: {owner}"),
                "ask again in some seconds",
            )];
            print(of.json, &stops, &[]);
            return Ok(exit(&stops));
        }
        // A server that runs knows its tasks itself.
        let (mut at_rest, mut can_start) = (Vec::new(), is_sound);
        let of_next_start = obstacles(&data_dir, is_shared, owner.is_some());
        can_start &= of_next_start.is_empty();
        match owner {
            None => {
                at_rest = of_next_start;
                at_rest.extend(machine::of_kernel());
                at_rest.extend(machine::of_disk(&data_dir));
                at_rest.extend(file.map(machine::of_ports).unwrap_or_default());
                can_start &= look_at_tasks(&data_dir, is_shared, &mut at_rest);
            }
            Some(_) => findings.extend(of_next_start),
        }
        let start = match (&owner, can_start) {
            (Some(_), _) => "do not start another one: a process owns its data directory, as is said below".to_owned(),
            (None, true) => start,
            (None, false) => format!("mend first what else is said here; then {start}"),
        };
        let answers = match api.map(|api| api.within(TIMEOUT)) {
            Ok(api) => look_at_server(&api, &of.target, &start, &mut findings).await?,
            Err(failure) => {
                findings.push(Finding::new(failure.to_string(), start));
                false
            }
        };
        if !answers {
            findings.extend(at_rest);
            findings.extend(owner.map(|owner| {
                let what = format!("a process owns the data directory and does not answer: {owner}");
                Finding::new(what, HANGS)
            }));
        }
    }
    print(of.json, &findings, &[]);
    Ok(exit(&findings))
}

/// Looks at this machine alone, if no server is named.
pub(super) async fn run_first(args: &Doctor) -> Result<Exit, Failure> {
    if let Some(of) = args.target() {
        return run(&of).await;
    }
    let environment = Environment::of_this_process();
    let state = environment
        .state_home
        .or_else(|| Some(environment.home?.join(".local/state")));
    let folder = state.unwrap_or_else(|| "/".into());
    let mut findings = machine::of_clock_and_room(&folder, true);
    findings.extend(machine::of_kernel());
    findings.extend(machine::of_disk(&folder));
    print(args.json, &findings, &machine::hints());
    Ok(exit(&findings))
}

fn exit(findings: &[Finding]) -> Exit {
    match findings.is_empty() {
        true => Exit::Answered,
        false => Exit::ToolError,
    }
}

fn print(json: bool, findings: &[Finding], hints: &[Finding]) {
    if json {
        let shown = |findings: &[Finding]| findings.iter().map(Finding::to_json).collect::<Vec<Value>>();
        output::json_line(&json!({"findings": shown(findings), "hints": shown(hints)}));
        return;
    }
    if findings.is_empty() {
        output::text("nothing is wrong");
    }
    findings.iter().for_each(Finding::print);
    if !hints.is_empty() {
        output::text("\nNot wrong, and of help:");
    }
    hints.iter().for_each(Finding::print);
}

/// What would be in the way of the first start, and that there was none yet.
fn before_first_start(data_dir: &Path, file: Option<&Path>, has_tasks: bool, start: &str) -> Vec<Finding> {
    let mut findings = machine::of_clock_and_room(data_dir, has_tasks);
    findings.extend(machine::of_kernel());
    findings.extend(machine::of_disk(data_dir));
    findings.extend(file.map(machine::of_ports).unwrap_or_default());
    let start = match findings.is_empty() {
        true => start.to_owned(),
        false => format!("mend first what else is said here; then {start}"),
    };
    let shown = data_dir.display();
    findings.push(match data_dir.exists() {
        false => Finding::new(
            format!("no server has run yet: there is no data directory {shown}"),
            format!("{start}; it makes the directory. If it had one, that was moved or removed"),
        ),
        true => Finding::new(
            format!("no server has run yet: the data directory {shown} is empty"),
            format!("{start}. If it had data, they were moved or removed, or their disk is not mounted"),
        ),
    });
    findings
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// What keeps the server from its next start, and nothing before it.
fn mistake(problem: &Problem, file: &str) -> Finding {
    let advice =
        "mend the file, or put back what it names: a server that runs goes on as it is, and none starts before";
    Finding::new(problem.at(file), advice)
}

fn reserve_too_large(config: &DataDirConfig) -> Option<Finding> {
    let space = DiskSpace::of(&config.data_dir)?;
    let refused = space.refuse_reserve(config.disk_reserve);
    let refused = refused.map(|why| Finding::new(why, "no server starts before"));
    refused.or_else(|| {
        let why = reserve_doubt(&config.data_dir, config.disk_reserve)?;
        Some(Finding::new(why, space.advice(!config.is_shared)))
    })
}

fn look_at_directory(path: &Path, findings: &mut Vec<Finding>) {
    let shown = path.display();
    let Ok(found) = fs::metadata(path) else {
        return;
    };
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        findings.push(Finding::new(
            format!("other users can read {shown} (mode {mode:o})"),
            format!("chmod 700 {shown}"),
        ));
    }
    if let Ok(log) = fs::metadata(path.join("longhaul.db-wal"))
        && log.len() > LONG_LOG
    {
        findings.push(Finding::new(
            format!("the database's write-ahead log has {} MiB", log.len() >> 20),
            "another program keeps the database open, such as a backup that hangs: find it with `fuser`, and end it",
        ));
    }
}

/// Supervisors that do not react, whether a server runs or not. What else is wrong with the folder is found by others.
fn suspended(attempts: &Path) -> Vec<Finding> {
    let found = suspended_supervisors(attempts).unwrap_or_default().into_iter();
    let finding = |(task, process): (TaskId, i32)| {
        let what = format!(
            "the supervisor of the command of task {task} was stopped by a signal (SIGSTOP, process {process}): the task does not end before it goes on"
        );
        Finding::new(
            what,
            format!("find out who has stopped it, and let it go on: `kill -CONT {process}`"),
        )
    };
    found.map(finding).collect()
}

/// What keeps a server from its next start on a data directory, or from having its tasks then. `is_shared` as in [`look_at_tasks`]; `is_owned`: whether a process owns it.
fn obstacles(path: &Path, is_shared: Option<bool>, is_owned: bool) -> Vec<Finding> {
    let mut obstacles = Vec::new();
    let (database, attempts) = (path.join(DATABASE), path.join("attempts"));
    // It says how often a server has started.
    let has_run = path.join("node").exists();
    let lost = match fs::metadata(&database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("gone"),
        Ok(found) if found.len() == 0 => Some("empty, so its tasks are lost"),
        _ => None,
    };
    // A server that is configured by a file has made it.
    if is_owned && is_shared.is_some() && !attempts.exists() {
        obstacles.push(Finding::new(
            format!(
                "{} is gone, with the logs of commands; none can be started",
                attempts.display()
            ),
            "put it back, or start the server again: it makes an empty one",
        ));
    }
    if let Some(lost) = lost.filter(|_| is_shared != Some(true) && (is_owned || has_run)) {
        let beside = match (is_owned, is_shared) {
            (true, _) => "a process uses it",
            (false, None) => "a server has run here (or its tasks are in a database of several servers)",
            (false, Some(_)) => "a server has run here",
        };
        let advice = match is_owned {
            true => "what it writes is lost: end it, and restore the latest backup with `longhaul restore`",
            false => {
                "put it back, with its longhaul.db-wal, or restore the latest backup with `longhaul restore`. Do not start the server before: it makes an empty database, and knows none of its tasks"
            }
        };
        obstacles.push(Finding::new(
            format!("the database {} is {lost}, and {beside}", database.display()),
            advice,
        ));
    }
    if fs::symlink_metadata(&attempts).is_ok_and(|found| !found.is_dir()) {
        obstacles.push(Finding::new(
            format!("{} is no directory", attempts.display()),
            "move it away, and put the directory back if there was one: no server starts before",
        ));
    }
    // What is in place of the database is found when its tasks are looked at.
    for name in ["lock", "node", "host"] {
        if let Err(error) = check_named(&path.join(name)) {
            obstacles.push(Finding::new(
                format!("{} cannot be used: {error}", path.join(name).display()),
                "find out who put it there, and move it away: no server starts before",
            ));
        }
    }
    if let Err(error) = KeyFile::check(path) {
        obstacles.push(Finding::new(
            format!("the API keys cannot be read: {error}"),
            "mend the file, or put back a copy of it: no server that takes API keys starts before, and one that runs keeps to the keys that it has read",
        ));
    }
    for name in [longhaul_admin::ADMIN_KEY, longhaul_admin::METRICS_KEY] {
        if let Err(error) = longhaul_admin::AdminKeyFile::check(path, name) {
            obstacles.push(Finding::new(
                format!("the key of the admin address cannot be used: {error}"),
                "mend the file, or remove it: the server makes a new one at its start",
            ));
        }
    }
    obstacles
}

/// The tasks of a directory that no process owns. `is_shared`: whether its tasks are in a database of several servers, if that is known.
/// Returns whether a server can start on it, and may.
fn look_at_tasks(path: &Path, is_shared: Option<bool>, findings: &mut Vec<Finding>) -> bool {
    findings.extend(machine::of_clock_and_room(path, is_shared != Some(true)));
    let restore = "nothing more is to be written to it: keep a copy of the directory, and restore the latest backup with `longhaul restore`";
    let report = match DirectoryReport::of(path) {
        Ok(Some(report)) => report,
        Ok(None) => return true,
        Err(error @ SqliteOpenError::Corrupt { .. }) => {
            findings.push(Finding::new(error.to_string(), restore));
            return false;
        }
        Err(error) => {
            findings.push(Finding::new(
                error.to_string(),
                "no server can start on this directory until that is mended",
            ));
            return false;
        }
    };
    let mut can_start = report.damages.is_empty();
    if !can_start {
        let what = format!(
            "the database in {} is damaged: {}",
            path.display(),
            report.damages.join("; ")
        );
        findings.push(Finding::new(what, restore));
    }
    if let Some(disagreement) = &report.disagreement {
        findings.push(Finding::new(
            disagreement.to_string(),
            "start the server: it only reads then, so that you can look at the tasks; --accept-restored-database lets them go on",
        ));
    }
    match &report.relocation {
        None => {}
        Some(move_) if move_.finished_at.is_none() => {
            can_start = false;
            findings.push(Finding::new(
                format!(
                    "its tasks were being moved to {}, and that was not finished",
                    move_.target
                ),
                "run `longhaul migrate` again: it finds out where the tasks are; or end the move with --abandon",
            ));
        }
        Some(move_) if is_shared == Some(false) => {
            can_start = false;
            findings.push(Finding::new(
                format!("its tasks were moved to {}", move_.target),
                "set `store` to it in `[server]`: no server starts on what is left here",
            ));
        }
        // What is left here is out of date.
        Some(_) => return can_start,
    }
    let live = report.live.unwrap_or_default();
    let counts = [
        (live.running, "running"),
        (live.queued, "queued"),
        (live.suspended, "suspended"),
        (live.blocked, "blocked"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, state)| format!("{count} {state}")).collect();
    if !counts.is_empty() {
        let advice = match &report.disagreement {
            _ if !report.damages.is_empty() => "the database is damaged: which of them are lost is not known",
            None => {
                "none is forgotten: when it starts, they go on, or end as interrupted if a tool that cannot be resumed was running, as of an upstream that is a child. Commands that were running may run meanwhile, and it takes them back"
            }
            Some(_) => {
                "nothing of them is lost, and none of them goes on by itself: only a server that is started with --accept-restored-database runs them, perhaps for the second time"
            }
        };
        findings.push(Finding::new(
            format!("live tasks wait for the server: {}", counts.join(", ")),
            advice,
        ));
    }
    can_start
}

/// What the server knows itself. Returns whether it answers.
async fn look_at_server(api: &Api, target: &str, restart: &str, findings: &mut Vec<Finding>) -> Result<bool, Failure> {
    match problems(api, target).await {
        Ok(found) => findings.extend(found),
        Err(failure) if failure.kind() == "unauthorized" => return Err(failure),
        // The server is well: it must not be ended for its database.
        Err(failure) if failure.kind() == "store" => findings.push(Finding::new(
            format!("the server answers, and its database does not: {failure}"),
            "look at the database's own log, its disk and its connections; the server goes on by itself once the database answers",
        )),
        Err(failure) => {
            findings.push(Finding::new(format!("the server does not answer: {failure}"), restart));
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the server says of itself.
async fn problems(api: &Api, target: &str) -> Result<Vec<Finding>, Failure> {
    let found: ProblemsView = api.get("/api/problems").await?.read;
    let finding = |problem: ProblemView| {
        let words = problem.command.unwrap_or_default();
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        let advice = match words.split_first() {
            None => problem.advice,
            Some((command, rest)) => format!(
                "{}: `longhaul admin {command} {} {}`",
                problem.advice,
                shell_word(target),
                rest.join(" ")
            ),
        };
        Finding::new(problem.what, advice)
    };
    Ok(found.problems.into_iter().map(finding).collect())
}
