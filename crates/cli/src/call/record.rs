//! What this user has called: the client journal, as the commands use it.

use crate::{
    exit::failure::Failure,
    output::{
        self,
        kinds::{self, UNREACHABLE},
        states,
    },
    servers::{self, Server},
};
use longhaul_client::{
    CallFilter, CallId, CallResponse, CallState, Client, Connection, Finished, InputRequest, JournalError, PendingCall,
    RecordedCall, RequestError, SystemClock, TaskHandle, TaskSnapshot, TaskStatus,
};
use longhaul_core::{Clock, Millis, UnixMillis, approximate_duration};
use longhaul_ledger::ClientJournal;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// The shortest part of an id that names a recorded task.
const SHORTEST_PART: usize = 4;
/// How long a server may take to say how the task of an earlier call stands. The call waits for it.
const LONGEST_READ: Duration = Duration::from_secs(1);

/// The user's journal.
pub(crate) async fn open() -> Result<ClientJournal, JournalError> {
    ClientJournal::open(&ClientJournal::default_path()?).await
}

/// The journal for calls that are about to be made; none if they are made without a record.
pub(crate) async fn for_calls(unrecorded: bool) -> Result<Option<ClientJournal>, Failure> {
    match unrecorded {
        true => Ok(None),
        false => open().await.map(Some).map_err(not_recorded),
    }
}

/// A client whose calls are recorded, if there is a journal.
pub(crate) fn client(server: &Server, connection: Connection, journal: Option<ClientJournal>) -> Client {
    match journal {
        Some(journal) => {
            let name = server.name().map(str::to_owned);
            Client::recorded_as(connection, journal, server.recorded(), name)
        }
        None => Client::new(connection),
    }
}

/// A call cannot be recorded. Its task would be lost with this command, so it was not sent.
pub(crate) fn not_recorded(error: JournalError) -> Failure {
    Failure::from(error).with_advice("to call all the same, without a record of it: --unrecorded")
}

pub(crate) fn warn(error: &JournalError) {
    output::note(&format!("longhaul: this call is not recorded: {error}"));
}

/// How long ago that was, in milliseconds of whole seconds.
pub(crate) fn age(begun_at: UnixMillis) -> Millis {
    let age = SystemClock.now().0.saturating_sub(begun_at.0).max(0) as u64;
    age - age % 1000
}

/// The calls of this server by their idempotency keys, the latest first: those that have an answer get it again. None if the journal cannot be read.
pub(crate) async fn by_key(server: &Server, client: &Client) -> HashMap<String, Vec<RecordedCall>> {
    let mut keyed: HashMap<String, Vec<RecordedCall>> = HashMap::new();
    if !client.has_journal() {
        return keyed;
    }
    let filter = CallFilter {
        server: Some(server.recorded()),
        ..CallFilter::default()
    };
    let listed = async { open().await?.list(filter).await };
    for call in listed.await.unwrap_or_default() {
        if let (Some(key), true) = (&call.idempotency_key, call.server_name.as_deref() == server.name()) {
            keyed.entry(key.clone()).or_default().push(call);
        }
    }
    keyed
}

/// Whether one of these calls may have run that the next one of this tool continues: it was interrupted, or made under this idempotency key. What its arguments were is not compared,
/// since they are read by the tool's schema, which a server that cannot be reached does not tell.
pub(crate) fn may_have_run_before(
    by_key: &HashMap<String, Vec<RecordedCall>>,
    tool: Option<&str>,
    key: Option<&str>,
) -> bool {
    let calls = by_key.values().flatten();
    let mut of_tool = calls.filter(|call| tool.is_none_or(|tool| call.tool == tool));
    of_tool.any(|call| match (key, &call.state) {
        (_, CallState::Finished(Finished::Refused)) => false,
        (Some(_), _) => call.idempotency_key.as_deref() == key,
        (None, state) => *state == CallState::Interrupted,
    })
}

/// The earlier call whose answer this one gets.
pub(crate) fn answered<'a>(
    call: &PendingCall,
    by_key: &'a HashMap<String, Vec<RecordedCall>>,
) -> Option<&'a RecordedCall> {
    let mut earlier = by_key.get(call.idempotency_key()?)?.iter();
    earlier.find(|earlier| call.has_answer_of(earlier))
}

/// Whether the answer is not that of an earlier call under the same key: it is another task.
pub(crate) fn made_again(
    earlier: Option<&RecordedCall>,
    response: &Option<Result<CallResponse, RequestError>>,
) -> bool {
    let known = earlier.and_then(|earlier| earlier.task.as_ref());
    match (known, response) {
        (Some(known), Some(Ok(CallResponse::Task(task)))) => known.task_id != task.id(),
        _ => false,
    }
}

/// An earlier call that is made again, although nobody has seen how it ended: it has a task, or was interrupted and cannot be continued.
pub(crate) struct RepeatedCall<'a> {
    latest: &'a RecordedCall,
    /// How many such calls have a task. If any has, the latest is one of them.
    tasks: usize,
}

impl<'a> RepeatedCall<'a> {
    pub(crate) fn of(call: &PendingCall, earlier: &'a [RecordedCall]) -> Option<Self> {
        let same = || earlier.iter().filter(|earlier| call.repeats(earlier));
        let tasks = distinct(same().filter(|earlier| earlier.state == CallState::Task));
        let is_open = |call: &&RecordedCall| matches!(call.state, CallState::Interrupted | CallState::Unknown { .. });
        let latest = tasks.first().copied();
        Some(Self {
            latest: latest.or_else(|| same().filter(is_open).max_by_key(|call| call.begun_at))?,
            tasks: tasks.len(),
        })
    }

    /// The earlier call, if it is no task, and can be cancelled by its key.
    pub(crate) fn to_cancel(&self) -> Option<CallId> {
        let is_call = self.tasks == 0 && self.latest.idempotency_key.is_some();
        is_call.then_some(self.latest.id)
    }

    /// What to say before the call. The server of its task is asked how that stands.
    pub(crate) async fn describe(&self, server: &Server, client: &Client) -> String {
        let ago = approximate_duration(age(self.latest.begun_at));
        let Some(task) = self.latest.task.as_ref().filter(|_| self.tasks > 0) else {
            return format!(
                "the same call was interrupted {ago} ago, and may have been carried out; this is a new call"
            );
        };
        let more = match self.tasks - 1 {
            0 => String::new(),
            more => format!(" ({more} more: `{}`)", server.command_line("tasks", &[])),
        };
        format!(
            "the same call was made {ago} ago, and its task {}; this is a new call. To wait for that task instead:\n  {}{more}",
            self.state(client).await,
            server.task_line("task", &task.task_id, &["--wait"])
        )
    }

    async fn state(&self, client: &Client) -> String {
        if let Some(status) = self.latest.status.filter(|status| status.is_final()) {
            return format!("has ended ({})", states::of_task(status));
        }
        let read = async { client.task(self.latest).await?.get().await.ok() };
        let told = tokio::select! {
            biased;
            told = read => told,
            () = SystemClock.sleep(LONGEST_READ) => None,
        };
        match told {
            Some(task) if task.status.is_final() => format!("has ended ({})", states::of_snapshot(&task)),
            Some(_) => "has not ended".to_owned(),
            None => "has not ended, as far as is recorded".to_owned(),
        }
    }
}

/// A task that a command names.
pub(crate) struct NamedTask {
    pub(crate) server: Server,
    pub(crate) id: String,
    recorded: Option<(ClientJournal, RecordedCall)>,
}

impl NamedTask {
    /// The task of this id, or of this part of an id that is recorded. If the command line names no server, a recorded task's own server is meant.
    pub(crate) async fn find(server: Server, id: &str) -> Result<Self, Failure> {
        let opened = async {
            let journal = open().await?;
            let found = journal.find(id).await?;
            Ok::<_, JournalError>((journal, found))
        };
        let (journal, found) = match opened.await {
            Ok(opened) => opened,
            // Its server is said, so it can be asked without the journal.
            Err(error) if server.is_chosen() => {
                output::note(&format!("longhaul: the client journal cannot be used: {error}"));
                return Ok(Self::unrecorded(server, id));
            }
            Err(error) => return Err(error.into()),
        };
        let fitting = |call: &&RecordedCall| server.covers(call);
        let mut fitting = distinct(found.iter().filter(fitting));
        let is_of_default = |call: &&RecordedCall| server.is_named() && server.is_server_of(call);
        if fitting.len() > 1 && fitting.iter().any(is_of_default) {
            fitting.retain(|call| is_of_default(call));
        }
        match (fitting.first().copied(), fitting.get(1)) {
            (None, _) if !server.is_chosen() && id.chars().count() < SHORTEST_PART => Err(Failure::usage(format!(
                "no recorded task has the id `{id}`, and a part of an id needs {SHORTEST_PART} characters or more; `longhaul tasks` lists the ids"
            ))),
            (None, _) => Ok(Self::unrecorded(server, id)),
            (Some(call), None) => Ok(Self {
                server: server.of_call(call),
                id: call
                    .task
                    .as_ref()
                    .map_or_else(|| id.to_owned(), |task| task.task_id.clone()),
                recorded: Some((journal, call.clone())),
            }),
            (Some(_), Some(_)) => {
                let several = fitting.iter().filter_map(|call| {
                    let task = call.task.as_ref()?;
                    Some(format!(
                        "\n  {}  on {}",
                        output::id(&task.task_id),
                        call.server_name.as_ref().unwrap_or(&call.server)
                    ))
                });
                Err(Failure::usage(format!(
                    "`{id}` fits several task ids; write more of it, or choose the server with -s:{}",
                    several.collect::<String>()
                )))
            }
        }
    }

    /// The only recorded task that has not ended, on this server if the command line names one.
    pub(crate) async fn only(server: Server, command: &str) -> Result<Self, Failure> {
        let live = Self::candidates(&server, command).await?;
        Self::only_of(server, command, &live).await
    }

    /// The recorded tasks that `command` without an id may mean, on this server if the command line names one.
    pub(crate) async fn candidates(server: &Server, command: &str) -> Result<Vec<RecordedCall>, Failure> {
        let live = open().await?.live().await?;
        let is_open = |call: &&RecordedCall| !call.status.is_some_and(TaskStatus::is_final);
        let of_server = |call: &&RecordedCall| server.covers(call);
        let of_server: Vec<&RecordedCall> = live.iter().filter(of_server).collect();
        let open: Vec<&RecordedCall> = of_server.iter().copied().filter(is_open).collect();
        // One that has ended, and whose result was not fetched, can still be shown.
        let live = if open.is_empty() && command == "task" {
            of_server
        } else {
            open
        };
        Ok(distinct(live.into_iter()).into_iter().cloned().collect())
    }

    /// The only one of these; an error that lists them if there are several.
    pub(crate) async fn only_of(server: Server, command: &str, live: &[RecordedCall]) -> Result<Self, Failure> {
        let mut fitting = live.iter();
        let id = |call: &RecordedCall| call.task.as_ref().map(|task| task.task_id.clone()).unwrap_or_default();
        match (fitting.next(), fitting.next()) {
            // Not by its id, which a task of another server may have, too.
            (Some(only), None) => Ok(Self {
                server: server.of_call(only),
                id: id(only),
                recorded: Some((open().await?, only.clone())),
            }),
            (None, _) => Err(Failure::usage(format!(
                "name a task: longhaul {command} [SERVER] ID; none is recorded that has not ended"
            ))),
            (Some(_), Some(_)) => {
                let line = |call: &RecordedCall| {
                    let state = call.status.map(|status| format!("  {}", states::of_task(status)));
                    let (state, server) = (state.unwrap_or_default(), servers::recorded(call).shown());
                    format!("{}  {}{state}  on {server}", id(call), call.tool)
                };
                let ids: Vec<String> = live.iter().map(|call| output::plain(&line(call), "")).collect();
                Err(Failure::usage(format!(
                    "name one of your tasks:\n  {}",
                    ids.join("\n  ")
                )))
            }
        }
    }

    /// The recorded tasks that have not ended, on this server if the command line names one.
    pub(crate) async fn live(server: &Server) -> Result<Vec<Self>, Failure> {
        let journal = open().await?;
        let live = journal.live().await?.into_iter();
        let fitting = live.filter(|call| {
            let has_ended = call.status.is_some_and(TaskStatus::is_final);
            !has_ended && server.covers(call)
        });
        let named = fitting.filter_map(|call| {
            Some(Self {
                server: server.clone().of_call(&call),
                id: call.task.as_ref()?.task_id.clone(),
                recorded: Some((journal.clone(), call)),
            })
        });
        Ok(named.collect())
    }

    /// Says that the task is not recorded, if that is why this server was asked and does not know it, or cannot be reached.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        if self.recorded.is_some() || self.server.is_chosen() {
            return failure;
        }
        match failure.kind() {
            // What is wrong is the word: nobody has named the server, and none was asked.
            UNREACHABLE if !self.server.is_named() => Failure::usage(format!(
                "no recorded task or call has the id `{}`, and no server is configured under that name; `longhaul tasks` lists the ids, and -s SERVER asks a server for a task that is not listed",
                self.id
            )),
            _ => failure.explained(&format!(
                "no recorded task has the id `{}`, so {} was asked (another server: -s SERVER)",
                self.id,
                self.server.shown()
            )),
        }
    }

    fn unrecorded(server: Server, id: &str) -> Self {
        Self {
            server,
            id: id.to_owned(),
            recorded: None,
        }
    }

    /// What is recorded of the call that has created it.
    pub(crate) fn call(&self) -> Option<&RecordedCall> {
        self.recorded.as_ref().map(|(_, call)| call)
    }

    /// A client of its server, which uses the legacy session that the task was created in, and the task.
    pub(crate) async fn open(&self, connection: &Connection) -> (Client, TaskHandle) {
        let Some((journal, call)) = &self.recorded else {
            return (Client::new(connection.clone()), connection.task(&self.id));
        };
        let name = self.server.name().map(str::to_owned);
        let client = Client::recorded_as(connection.clone(), journal.clone(), call.server.clone(), name);
        let task = client.task(call).await.unwrap_or_else(|| connection.task(&self.id));
        if let Some(other) = task.other_login() {
            output::note(&format!(
                "note: the task {} may not be found: {other}",
                output::id(&self.id)
            ));
        }
        (client, task)
    }
}

/// Reads a task, with what a legacy server has asked about it and nobody has answered, as far as that is recorded.
pub(crate) async fn read(task: &TaskHandle) -> Result<TaskSnapshot, RequestError> {
    let mut snapshot = task.get().await?;
    if !snapshot.status.is_final() {
        match task.recorded_questions().await {
            Ok(recorded) => snapshot.input_requests.extend(recorded),
            Err(error) => output::note(&format!("longhaul: recorded questions cannot be read: {error}")),
        }
    }
    Ok(snapshot)
}

/// Which of these questions of a task are open, and to which the server has acknowledged an answer already. It may show those for a moment longer.
pub(crate) async fn open_and_answered(
    task: &TaskHandle,
    asked: Vec<InputRequest>,
) -> (Vec<InputRequest>, Vec<InputRequest>) {
    let (mut open, mut answered) = (Vec::new(), Vec::new());
    for question in asked {
        let key = question.key.as_deref().unwrap_or_default();
        match task.has_taken_answer(key).await {
            true => answered.push(question),
            false => open.push(question),
        }
    }
    (open, answered)
}

/// Whether a task asks: by its status, or because a question of it is `open`. Some legacy servers ask while the task is `working`.
pub(crate) fn asks(task: &TaskSnapshot, open: &[InputRequest]) -> bool {
    task.status == TaskStatus::InputRequired || (!task.status.is_final() && !open.is_empty())
}

/// The latest call of each task: a call that was made twice under one idempotency key has one task. Calls without a task are all different.
pub(crate) fn distinct<'a>(calls: impl Iterator<Item = &'a RecordedCall>) -> Vec<&'a RecordedCall> {
    let mut seen = HashSet::new();
    let mut latest = Vec::new();
    for call in calls {
        let task = call.task.as_ref().map(|task| &task.task_id);
        if task.is_none_or(|task| seen.insert((&call.server, &call.server_name, task))) {
            latest.push(call);
        }
    }
    latest
}

/// The recorded calls, the latest first.
pub(crate) async fn list(filter: CallFilter) -> Result<Vec<RecordedCall>, JournalError> {
    let journal = open().await?;
    if let Err(error) = journal.settle_abandoned().await {
        output::note(&format!(
            "longhaul: calls without an answer are not recorded as such: {error}"
        ));
    }
    journal.list(filter).await
}

/// Notes the status of a call's task.
pub(crate) async fn note_status(call: &mut RecordedCall, status: TaskStatus) {
    call.status = Some(status);
    let noted = async { open().await?.note_status(call.id, status).await };
    // Whether it asks may be something else now.
    read_again(call, noted.await).await;
}

/// Reads what is recorded of a call after a change. One that another process has finished meanwhile is not changed.
async fn read_again(call: &mut RecordedCall, changed: Result<(), JournalError>) {
    let read = async {
        match changed {
            Ok(()) | Err(JournalError::WrongState { .. }) => open().await?.get(call.id).await,
            Err(error) => Err(error),
        }
    };
    match read.await {
        Ok(read) => *call = read,
        Err(error) => warn(&error),
    }
}

/// The server knows a task again that was lost, for example because another key was used meanwhile.
pub(crate) async fn found_again(call: &mut RecordedCall, status: TaskStatus) {
    let Some(task) = call.task.clone() else { return };
    call.state = CallState::Task;
    let noted = async { open().await?.acknowledge(call.id, task).await };
    match noted.await {
        Ok(_) => note_status(call, status).await,
        Err(error) => warn(&error),
    }
}

const LOST: &str = "the server does not know the task any more: its retention is over, it was deleted, or it belongs to another principal";

/// What is said of a task that the server has forgotten, because its result was fetched.
pub(crate) const FETCHED: &str = "its result was fetched before, and the server does not keep it";

/// Why a task that only another process can reach cannot be read.
const ELSEWHERE: &str = "the task ends with the command that made the call, which still runs: answer it there, or end that command to cancel it";

/// Why a task cannot be read. One that a call has created, and that the server does not know, is lost, unless its result was fetched.
pub(crate) async fn unread(task: &TaskHandle, error: RequestError) -> Failure {
    let is_created = task.is_recorded() || task.reference().is_some();
    let is_unknown = is_created && error.is_unknown_task();
    let failure = Failure::from(error);
    match task.other_login() {
        _ if !is_unknown => failure,
        _ if task.fetched().await.is_some() => failure.explained(&format!("the task has ended: {FETCHED}")),
        None if task.is_followed_elsewhere().await => failure.explained(ELSEWHERE),
        Some(other) => failure.explained(&format!("{other}; log in as before, and ask again")),
        None => failure
            .explained(LOST)
            .with_advice(
                "its result cannot be fetched, and it may have run: call the tool again only if it may run twice",
            )
            .of_kind(kinds::LOST)
            .with_run(true),
    }
}

/// The same of a task of which an earlier command has recorded that.
pub(crate) fn lost_before(reason: &str) -> Failure {
    let message = format!("the call was made before, and its task cannot be read, so it is not made again: {reason}");
    Failure::refused(message).of_kind(kinds::LOST).with_run(true)
}

/// Records that the server does not know the call's task any more.
pub(crate) async fn mark_lost(call: &mut RecordedCall) {
    call.state = CallState::Lost {
        reason: LOST.to_owned(),
    };
    let marked = async { open().await?.mark_lost(call.id, LOST).await };
    read_again(call, marked.await).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_nobody_has_named_is_told_only_if_it_was_asked() {
        let named = NamedTask::unrecorded(Server::named_by_nobody(), "01m8e7mkTYPO");
        let explained = |failure: Failure| named.explain(failure).to_string();
        assert_eq!(
            explained(Failure::no_server("connection refused".to_owned())),
            "no recorded task or call has the id `01m8e7mkTYPO`, and no server is configured under that name; `longhaul tasks` lists the ids, and -s SERVER asks a server for a task that is not listed"
        );
        assert_eq!(
            explained(Failure::refused("Task not found".to_owned())),
            "no recorded task has the id `01m8e7mkTYPO`, so http://127.0.0.1:7411/mcp was asked (another server: -s SERVER): Task not found"
        );
    }
}
