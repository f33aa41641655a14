//! Asking the servers of tasks, all at once and for a short time.

use super::{TaskRow, row::NotTold};
use crate::{call::record, servers::Server};
use futures_util::{StreamExt, future::join_all, stream};
use longhaul_client::{CallState, Connection, OtherLogin, RequestError, SessionRef, SystemClock, TaskSnapshot};
use longhaul_core::Clock;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// How long a server may take for all that it is asked. One that is slow must not hold up the list.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many lost tasks are asked for, the latest ones.
const MOST_LOST: usize = 32;
/// Requests to one server at once.
const AT_ONCE: usize = 16;

/// The rows of one server, and of one session with it.
struct Group {
    server: Server,
    session: Option<SessionRef>,
    /// Places in the list.
    rows: Vec<usize>,
}

/// What a server has told before the time was over.
#[derive(Default)]
struct ServerAnswers {
    tasks: Vec<(usize, Result<TaskSnapshot, RequestError>)>,
    listed: Vec<TaskSnapshot>,
    /// The present login.
    login: Option<String>,
}

/// Asks the servers about the rows that are open, and returns the tasks that they list and that are not among the rows. A server that would have to be
/// started is asked only if it was chosen.
pub(super) async fn ask(chosen: &Server, rows: &mut [TaskRow]) -> Vec<TaskRow> {
    for row in rows.iter_mut().filter(|row| is_not_asked(chosen, row)) {
        row.not_told = Some(NotTold::not_asked());
    }
    let groups = groups(chosen, rows);
    let ids: Vec<Vec<(usize, String)>> = groups
        .iter()
        .map(|group| {
            let id = |place: &usize| Some((*place, rows[*place].id()?.to_owned()));
            group.rows.iter().filter_map(id).collect()
        })
        .collect();
    let told = join_all(groups.iter().zip(ids).map(|(group, ids)| ask_group(group, ids))).await;
    let mut known: HashSet<String> = rows.iter().filter_map(|row| row.id().map(str::to_owned)).collect();
    let mut more = Vec::new();
    for (group, told) in groups.iter().zip(told) {
        for place in &group.rows {
            if !(rows[*place].is_lost() || rows[*place].has_ended()) {
                rows[*place].not_told = Some(NotTold::unreached("it did not answer in time"));
            }
        }
        for (place, answer) in told.tasks {
            note(&mut rows[place], answer, told.login.as_deref()).await;
        }
        for task in told.listed {
            if known.insert(task.id.clone()) {
                more.push(TaskRow::listed(&group.server, task));
            }
        }
    }
    more
}

/// Whether a server is asked although nothing is recorded of it: the user names it. One that would have to be started is named on the command line.
fn is_asked_too(server: &Server) -> bool {
    server.is_chosen() || (server.is_named() && !server.is_child())
}

/// Whether the task is one of a server that would have to be started, and was not chosen. What a command that runs knows of its own child is recorded.
fn is_not_asked(chosen: &Server, row: &TaskRow) -> bool {
    let Some(call) = row.call.as_ref().filter(|call| call.state == CallState::Task) else {
        return false;
    };
    !row.has_ended() && !call.ends_with_process && !chosen.is_chosen() && chosen.clone().of_call(call).is_child()
}

fn groups(chosen: &Server, rows: &[TaskRow]) -> Vec<Group> {
    let mut groups: HashMap<(String, Option<String>, Option<String>), Group> = HashMap::new();
    let mut lost = 0;
    for (place, row) in rows.iter().enumerate() {
        let Some(call) = row.call.as_ref() else { continue };
        match call.state {
            CallState::Task => {}
            // It is found again when the key or the server is what it was.
            CallState::Lost { .. } if lost < MOST_LOST => lost += 1,
            _ => continue,
        }
        let server = chosen.clone().of_call(call);
        if server.is_child() && !chosen.is_chosen() {
            continue;
        }
        let session = call.task.as_ref().and_then(|task| task.session.clone());
        let name = server.name().map(str::to_owned);
        let key = (
            server.recorded(),
            name,
            session.as_ref().map(|session| session.id.clone()),
        );
        let new = || Group {
            server,
            session,
            rows: Vec::new(),
        };
        groups.entry(key).or_insert_with(new).rows.push(place);
    }
    let is_asked = groups
        .values()
        .any(|group| group.server.recorded() == chosen.recorded());
    if is_asked_too(chosen) && !is_asked {
        let key = (chosen.recorded(), None, None);
        groups.insert(
            key,
            Group {
                server: chosen.clone(),
                session: None,
                rows: Vec::new(),
            },
        );
    }
    groups.into_values().collect()
}

async fn ask_group(group: &Group, ids: Vec<(usize, String)>) -> ServerAnswers {
    let mut told = ServerAnswers::default();
    let Ok(connection) = group.server.connection(|options| options.request_timeout = PATIENCE) else {
        return told;
    };
    if let Some(session) = &group.session {
        connection.resume(session).await;
    }
    told.login = connection.login().await;
    tokio::select! {
        () = ask_for_tasks(&connection, ids, &mut told) => {}
        () = SystemClock.sleep(PATIENCE) => {}
    }
    // A session that is recorded stays open for its tasks.
    if group.session.is_none() {
        connection.close().await;
    }
    told
}

async fn ask_for_tasks(connection: &Connection, ids: Vec<(usize, String)>, told: &mut ServerAnswers) {
    let ask = |(place, id): (usize, String)| async move { (place, connection.task(id).get().await) };
    let mut asked = stream::iter(ids).map(ask).buffer_unordered(AT_ONCE);
    while let Some(answer) = asked.next().await {
        told.tasks.push(answer);
    }
    // Most servers have no such list.
    told.listed = connection.list_tasks().await.unwrap_or_default();
}

/// Takes over what the server told, also into the journal.
async fn note(row: &mut TaskRow, answer: Result<TaskSnapshot, RequestError>, login: Option<&str>) {
    let Some(call) = &mut row.call else { return };
    row.not_told = None;
    let is_lost = matches!(call.state, CallState::Lost { .. });
    match answer {
        Ok(snapshot) => {
            match is_lost {
                true => record::found_again(call, snapshot.status).await,
                false => record::note_status(call, snapshot.status).await,
            }
            row.snapshot = Some(snapshot);
        }
        Err(_) if is_lost => {}
        Err(error) if error.is_unknown_task() => match OtherLogin::of(call, login) {
            Some(other) => row.not_told = Some(NotTold::unreached(&other.to_string())),
            None => record::mark_lost(call).await,
        },
        Err(error) => row.not_told = Some(NotTold::because(&error)),
    }
}
