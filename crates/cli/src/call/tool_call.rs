//! `longhaul call`: calls a tool and prints its result.

use crate::{
    args,
    ask::{
        TerminalPrompter, UnaskedQuestions,
        arguments::{self, ArgumentError, Taker},
        text_of, text_of_task,
    },
    call::{
        batch, listings, record, tasks,
        tool_schema::ToolSchema,
        waiting::{Deadline, Display, TaskWaiter, WaitEnd, how_to_answer, how_to_be_asked, what_goes_on},
    },
    exit::{
        failure::Failure,
        interrupt::Interrupt,
        result::{Exit, PrintOptions, print_outcome},
    },
    output::{
        self,
        json_text::{self, TextError},
        nearest, states,
    },
    servers::{self, Server},
};
use longhaul_client::{
    CallError, CallOptions, CallResponse, Client, Event, JournalError, Outcome, PendingCall, RecordedCall,
    RequestError, ServerDescription, StopWaiting, SystemClock, TaskHandle, TaskStatus, Tool,
};
use longhaul_core::{Clock, Json, approximate_duration};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    io::{self, Read},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

/// How long a detached call looks for a question of its new task.
const EARLY: Duration = Duration::from_secs(1);
/// Said once of a call that is sent again.
const SENT_AGAIN: &str = "the server may have the call; it is sent again under its idempotency key, so it runs once, for some seconds (over HTTP, for up to a minute). Ctrl-C gives it up";
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Calls the tool, waits, prints the result.
pub(crate) async fn run(call: &args::Call) -> ExitCode {
    match choose_and_call(call).await {
        Ok(exit) => exit,
        Err(failure) => failure.of_call().report(call.json),
    }
    .into()
}

async fn choose_and_call(call: &args::Call) -> Result<Exit, Failure> {
    if let Some(file) = &call.batch {
        return batch::run(call, file).await;
    }
    let (server, words) = servers::choose(&call.server, &call.words)?;
    let Some((tool, words)) = words.split_first() else {
        return listings::within(call.timeout, listings::list_tools(&server, call.json)).await;
    };
    if call.detach && server.ends_its_tasks() {
        return Err(Failure::usage(
            "the server is stopped with this command, and its tasks with it, so --detach would lose the task; nothing was called. Wait for it without --detach, or use a server that keeps running",
        ));
    }
    let words_of_call = &call.words;
    if tool.contains('=') && words.len() + 1 < words_of_call.len() {
        let server = &words_of_call[0];
        return Err(Failure::usage(format!(
            "name the tool in front of `{tool}`: `{server}` was taken for the server of that name (for a tool of that name: longhaul call -s SERVER {server} …)"
        )));
    }
    let words = arguments::parse(words).map_err(|error| match error {
        ArgumentError::NoValue(_) => {
            let names_server = words_of_call.len() > words.len() + 1;
            let why = match (&call.server.server, call.server.command.is_empty()) {
                (Some(_), _) => "since -s says the server".to_owned(),
                (None, false) => "since the command behind -- is the server".to_owned(),
                (None, true) if names_server => format!("since `{}` is the server", words_of_call[0]),
                (None, true) => match servers::did_you_mean(&call.server, tool) {
                    Some(hint) => format!("since no server of that name is configured; {hint}"),
                    None => "since no server of that name is configured".to_owned(),
                },
            };
            Failure::usage(format!("{error}. `{tool}` was taken for the tool, {why}"))
        }
        other => Failure::usage(other),
    })?;
    let whole = call.input.as_deref().map(read_input).transpose()?.unwrap_or_default();
    let journal = record::for_calls(call.unrecorded).await?;
    let (asking, unasked) = TerminalPrompter::new();
    let connection = server.connection(|options| options.inputs = Some(asking.clone()))?;
    let client = record::client(&server, connection, journal);
    let called = CallRunner {
        server: &server,
        client: &client,
        display: Display::new(),
        interrupt: Interrupt::new(),
        asking: Arc::clone(&asking),
        unasked,
        json: call.json,
    };
    asking.hides(called.display.bar());
    let exit = called.call(call, tool, words, whole).await;
    let exit = match exit {
        Err(failure) if failure.is_before_call() => {
            let keyed = record::by_key(&server, &client).await;
            let may_have_run = record::may_have_run_before(&keyed, Some(tool), call.idempotency_key.as_deref());
            Err(failure.with_run(may_have_run))
        }
        exit => exit,
    };
    // A session must not end while a task of it lives. With a journal the client knows that.
    let is_over = match exit {
        Ok(Exit::Answered) => !call.detach,
        Ok(Exit::AnsweredAtOnce | Exit::ToolError | Exit::Cancelled | Exit::Refused) => true,
        _ => false,
    };
    if is_over || server.is_child() || client.has_journal() {
        client.close().await;
    }
    exit
}

/// A call, and what is shown of it.
struct CallRunner<'a> {
    server: &'a Server,
    client: &'a Client,
    display: Display,
    interrupt: Interrupt,
    asking: Arc<TerminalPrompter>,
    unasked: UnaskedQuestions,
    json: bool,
}

impl CallRunner<'_> {
    async fn call(
        mut self,
        call: &args::Call,
        tool: &str,
        words: arguments::Words,
        whole: Map<String, Value>,
    ) -> Result<Exit, Failure> {
        let until = Deadline::after(call.timeout);
        let tool = self.find_tool(tool, until).await?;
        let arguments = self.fit(&tool, words, whole)?;
        if call.detach {
            self.check_detached(&tool).await?;
        }
        let mut options = CallOptions::default();
        options.idempotency_key.clone_from(&call.idempotency_key);
        if call.detach {
            options
                .meta
                .insert(longhaul_wire::meta::DETACHED.to_owned(), Json::trusted("true"));
        }
        // Without a journal that can be read there is nothing to warn of, and `prepare` fails.
        let earlier = self.client.calls().await.unwrap_or_default();
        // A key that this command makes is a new one.
        let by_key = match call.idempotency_key {
            Some(_) => record::by_key(self.server, self.client).await,
            None => HashMap::new(),
        };
        // The session may have ended since the tools were listed: then there is another handshake.
        let mut pending = tokio::select! {
            biased;
            prepared = prepare(self.client, &tool, &arguments, options) => prepared?,
            () = until.passed() => {
                self.display.finish();
                return Err(Failure::timed_out(
                    "the time of --timeout is over before the call was sent; nothing was called",
                ));
            }
            exit = self.interrupt.pressed() => {
                self.display.finish();
                return Err(interrupted(exit));
            }
        };
        self.tell_earlier(&pending, &earlier).await;
        let repeated = record::answered(&pending, &by_key);
        if let Some(earlier) = repeated {
            self.display.note(&format!(
                "a call with this idempotency key was made {} ago; while the server knows the key, nothing is called, and this is the result or task of that call (for a new call: --idempotency-key NEW)",
                approximate_duration(record::age(earlier.begun_at))
            ));
        }
        let key = call.idempotency_key.as_deref();
        let was_made = key.is_some() && record::may_have_run_before(&by_key, Some(&tool.name), key);
        let (response, stopped) = self.send(&mut pending, until).await;
        let made_again = record::made_again(repeated, &response);
        if made_again {
            self.display.note(
                "the server does not know the key any more, as when the earlier call was deleted, and has made the call again",
            );
        }
        let is_repeated = repeated.is_some() && !made_again;
        let task = match (response, &stopped) {
            (Some(Ok(CallResponse::Task(task))), _) => task,
            (Some(Ok(CallResponse::Done(outcome))), _) => {
                return Ok(match self.print_result(pending, &outcome, is_repeated).await {
                    Exit::Answered if call.detach => Exit::AnsweredAtOnce,
                    exit => exit,
                });
            }
            (Some(Err(RequestError::CancelledElsewhere)), _) => return Ok(self.cancelled_elsewhere(&pending)),
            (Some(Err(error)), _) => return Err(self.failed(&pending, error, was_made)),
            (None, WaitEnd::Asked(question)) => {
                self.display.finish();
                pending.unanswered().await;
                return Err(Failure::asked_before_task(&text_of(question)));
            }
            (None, _) => return Ok(self.left(pending, &stopped).await),
        };
        match call.detach {
            true => Ok(self.detach(&task, &tool, is_repeated).await),
            false => self.wait(&task, &tool, is_repeated, until, stopped).await,
        }
    }

    /// The tool that is called, among those that the server lists.
    async fn find_tool(&mut self, name: &str, until: Deadline) -> Result<Tool, Failure> {
        let connection = self.client.connection();
        let listing = self
            .display
            .waits_for(connection.address(), connection.list_readable_tools());
        let (tools, unread) = tokio::select! {
            biased;
            listed = listing => listed,
            () = until.passed() => {
                self.display.finish();
                return Err(Failure::timed_out(
                    "the time of --timeout is over before the server has listed its tools; nothing was called",
                ));
            }
            exit = self.interrupt.pressed() => {
                self.display.finish();
                return Err(interrupted(exit));
            }
        };
        let (tools, off): (Vec<Tool>, Vec<Tool>) = tools.into_iter().partition(|tool| self.server.offers(&tool.name));
        let unknown = match find(&tools, name) {
            Ok(tool) => return Ok(tool.clone()),
            Err(unknown) => unknown,
        };
        if off.iter().any(|off| off.name == *name) {
            let off = listings::switched_off(name);
            return Err(Failure::usage(format!("{off}; nothing was called")));
        }
        if let Some(unusable) = connection.unusable_tools().iter().find(|tool| tool.name == *name) {
            return Err(Failure::usage(listings::cannot_be_called(unusable)));
        }
        // The tool may be on a page that cannot be read.
        if let Some(unread) = unread {
            return Err(unread.into());
        }
        // Servers do not list what a caller may not use.
        if self.server.is_logged_in().await {
            let shows = self.server.command_line("whoami", &[]);
            return Err(unknown.with_advice(&format!(
                "or the login or key that is used here does not permit it, which `{shows}` shows"
            )));
        }
        Err(unknown)
    }

    /// The arguments that the words say.
    fn fit(
        &mut self,
        tool: &Tool,
        words: arguments::Words,
        whole: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let mistyped = arguments::probably_mistyped(&words, &tool.input_schema);
        let arguments = arguments::fit(words, whole, &tool.input_schema, Taker::Tool).map_err(Failure::usage)?;
        for note in mistyped {
            self.display.note(&note);
        }
        match ToolSchema::of(tool).problem(&arguments) {
            Some(problem) => Err(Failure::usage(format!("{problem}; nothing was called"))),
            None => Ok(arguments),
        }
    }

    /// Whether the call goes on without this command.
    async fn check_detached(&self, tool: &Tool) -> Result<(), Failure> {
        let connection = self.client.connection();
        if !connection.can_be_task(tool).await? {
            let reason = format!(
                "`{}` cannot become a task on this server; nothing was called",
                tool.name
            );
            return Err(Failure::usage(reason));
        }
        if !connection.keeps_tasks().await? {
            return Err(Failure::usage(
                "the tasks of this server end with the connection to it, so --detach would lose the task; nothing was called. Wait for it without --detach",
            ));
        }
        Ok(())
    }

    /// Warns of a call like this one that was interrupted, or that may run still.
    async fn tell_earlier(&mut self, pending: &PendingCall, earlier: &[RecordedCall]) {
        if let Some(before) = pending.interrupted() {
            let age = record::age(before);
            self.display.note(&format!(
                "the same call was interrupted {} ago; it is sent again under its key, so this is its result (for a new call: --idempotency-key NEW)",
                approximate_duration(age)
            ));
        } else if let Some(repeated) = record::RepeatedCall::of(pending, earlier) {
            let warning = repeated.describe(self.server, self.client).await;
            self.display.note(&warning);
            if let Some(earlier) = repeated.to_cancel() {
                let line = self.server.task_line("cancel", &tasks::call_name(earlier), &[]);
                self.display
                    .note(&format!("to end the earlier one, if it runs still:\n  {line}"));
            }
        }
    }

    /// Prints the result of a call without a task.
    async fn print_result(&mut self, pending: PendingCall, outcome: &Outcome, is_repeated: bool) -> Exit {
        self.display.finish();
        let printing = PrintOptions {
            json: self.json,
            is_repeated,
            task: None,
        };
        let exit = print_outcome(outcome, printing);
        // Under its key the call gets the same result again. Without one it cannot be fetched again.
        if output::is_written() || pending.idempotency_key().is_none() {
            recorded(pending.finish(outcome).await);
        }
        exit
    }

    fn cancelled_elsewhere(&mut self, pending: &PendingCall) -> Exit {
        self.display.finish();
        let message = match pending.idempotency_key().filter(|_| pending.may_go_on()) {
            Some(key) => format!(
                "another command has cancelled the call; it may go on at the server, and the same call with `--idempotency-key {key}` gets its result"
            ),
            None => "another command has cancelled the call; it may have run, so look before you call again".to_owned(),
        };
        output::note(&format!("longhaul: {message}"));
        if self.json {
            output::json_line(&json!({"cancelled": true, "mayHaveRun": true, "message": message}));
        }
        Exit::Cancelled
    }

    /// `was_made`: a call under the same key may have run before.
    fn failed(&mut self, pending: &PendingCall, error: RequestError, was_made: bool) -> Failure {
        self.display.finish();
        if has_no_answer(pending, &error) {
            output::note(match pending.idempotency_key() {
                None => "the call may or may not have run, and was not sent again",
                Some(_) => "the call may or may not have run",
            });
        }
        let failure = Failure::of_sent(pending, error);
        if was_made { failure.with_run(true) } else { failure }
    }

    /// The wait was ended before the server has created a task.
    async fn left(&mut self, pending: PendingCall, stopped: &WaitEnd<()>) -> Exit {
        self.display.finish();
        let (exit, what) = (stopped.exit(), stopped.what());
        // At a shutdown nobody reads the key, so the same call continues this one, as after `kill -9`.
        let is_continued = exit == Exit::Terminated && pending.idempotency_key().is_some();
        let then = match pending.idempotency_key() {
            Some(_) if is_continued => "it may go on at the server; the same call again continues it".to_owned(),
            Some(key) => {
                let end = pending.id().filter(|_| pending.is_cancelled_by_key());
                let end = end.map(|id| format!("to end it: `longhaul cancel {}`; ", tasks::call_name(id)));
                format!(
                    "it may go on at the server; {}for its result make the same call with --idempotency-key {key}",
                    end.unwrap_or_default()
                )
            }
            None => "the call is no longer waited for, and may have run".to_owned(),
        };
        output::note(&format!("{what} before the server created a task; {then}"));
        if self.json {
            let mut shown =
                json!({"taskId": null, "server": self.server.as_json(), "interrupted": true, "mayHaveRun": true});
            if let Some(key) = pending.idempotency_key() {
                shown["idempotencyKey"] = key.into();
            }
            output::json_line(&shown);
        }
        if !is_continued {
            pending.give_up(what).await;
        }
        exit
    }

    /// Does not wait for the task.
    async fn detach(&mut self, task: &TaskHandle, tool: &Tool, is_repeated: bool) -> Exit {
        self.display.finish();
        print_task(self.server, task, is_repeated, self.json);
        self.tell_early_question(task, &tool.name).await;
        match output::is_written() {
            true => Exit::Answered,
            false => Exit::NotWritten,
        }
    }

    async fn wait(
        &mut self,
        task: &TaskHandle,
        tool: &Tool,
        is_repeated: bool,
        until: Deadline,
        stopped: WaitEnd<()>,
    ) -> Result<Exit, Failure> {
        let mut waiting = TaskWaiter {
            server: self.server,
            tool: Some(&tool.name),
            display: &mut self.display,
            interrupt: &mut self.interrupt,
            unasked: &mut self.unasked,
            json: self.json,
            is_repeated,
        };
        match stopped {
            WaitEnd::Done(()) => (waiting.wait(task, until).await).map_err(|failure| failure.with_run(true)),
            stopped => Ok(waiting.leave(task, stopped).await),
        }
    }

    /// Sends the call. What has stopped the wait for its answer may have come beside the answer.
    async fn send(
        &mut self,
        pending: &mut PendingCall,
        until: Deadline,
    ) -> (Option<Result<CallResponse, RequestError>>, WaitEnd<()>) {
        let (display, interrupt, unasked) = (&mut self.display, &mut self.interrupt, &mut self.unasked);
        let has_key = pending.idempotency_key().is_some();
        let mut is_said = false;
        let mut show = |event: Event<'_>| {
            display.show(&event);
            if let Event::Retrying { error, .. } = &event
                && has_key
                && !error.is_refusal()
                && !error.is_unsent()
                && !std::mem::replace(&mut is_said, true)
            {
                display.note(SENT_AGAIN);
            }
        };
        let mut ended = WaitEnd::Done(());
        // A legacy task may ask before the answer names it. Then it is on its way.
        let mut early = Vec::new();
        let stopped = async {
            ended = loop {
                match WaitEnd::first(std::future::pending(), interrupt, unasked, until).await {
                    WaitEnd::Asked(question) if question.task.is_some() => early.push(question),
                    ended => break ended,
                }
            };
            match ended {
                // What is asked there cannot be answered.
                WaitEnd::Asked(_) => StopWaiting::Cancel,
                _ => StopWaiting::Leave,
            }
        };
        let response = pending.send_unless(stopped, &mut show).await;
        early.into_iter().for_each(|question| self.unasked.put_back(question));
        (response, ended)
    }

    /// Some legacy servers send a question once, on the push stream of the session. One that comes as soon as the task runs is recorded, and told.
    async fn tell_early_question(&mut self, task: &TaskHandle, tool: &str) {
        let is_legacy = |described: ServerDescription| !described.is_modern();
        let described = self.client.connection().server().await;
        if self.server.is_child() || !described.is_ok_and(is_legacy) {
            return;
        }
        self.asking.leave_open();
        // The status says which task a question without a task belongs to.
        let runs = async {
            while task.get().await.is_ok_and(|now| !now.status.is_final()) {
                SystemClock.sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            question = self.unasked.next() => {
                output::note(&format!("the task asks: {}", text_of_task(&question, Some(tool), task.id())));
                output::note(&match question.key {
                    Some(_) => how_to_answer(self.server, task.id(), &question),
                    None => how_to_be_asked(self.server, task.id()),
                });
            }
            () = runs => {}
            () = SystemClock.sleep(EARLY) => {}
        }
    }
}

/// Records the call. One that cannot be recorded is not sent.
async fn prepare(
    client: &Client,
    tool: &Tool,
    arguments: &Map<String, Value>,
    options: CallOptions,
) -> Result<PendingCall, Failure> {
    match client.prepare(tool, arguments, options).await {
        Err(CallError::NoIdempotencyKeys) => Err(Failure::usage(
            "this server does not declare idempotency keys, so it would ignore --idempotency-key; nothing was called",
        )),
        Err(CallError::Journal(error)) => Err(record::not_recorded(error)),
        prepared => Ok(prepared?),
    }
}

/// A signal came before the call was sent.
fn interrupted(exit: Exit) -> Failure {
    Failure::interrupted(exit, "interrupted before the call was sent; nothing was called")
}

/// Warns of what is not recorded.
fn recorded(recorded: Result<(), JournalError>) {
    if let Err(error) = recorded {
        record::warn(&error);
    }
}

/// Prints the id of a task that is not waited for.
fn print_task(server: &Server, task: &TaskHandle, is_repeated: bool, json: bool) {
    if json {
        let mut shown = json!({"taskId": task.id(), "server": server.as_json()});
        if is_repeated {
            shown["repeated"] = true.into();
        }
        output::json_line(&shown);
    } else {
        output::text(&output::id(task.id()));
    }
    let (state, then) = match task.created().filter(|created| created.status.is_final()) {
        // Whether the tool has reported an error is in the result.
        Some(ended) if ended.status == TaskStatus::Completed => (
            "the task was made before, and has ended".to_owned(),
            "to print its result",
        ),
        Some(ended) => (
            format!(
                "the task was made before, and has ended: {}",
                states::of_snapshot(ended)
            ),
            "to print its result",
        ),
        None => (what_goes_on(server).to_owned(), "to wait for it"),
    };
    let wait = server.task_line("task", task.id(), &["--wait"]);
    output::note(&format!("{state}; {then}:\n  {wait}"));
}

/// Reads a JSON object from a file, or from standard input.
fn read_input(file: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("--input {}: {reason}", file.display()));
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => io::stdin().read_to_string(&mut text).map(drop),
        false => longhaul_private_dir::read_named_text(file).map(|read| text = read),
    };
    read.map_err(|error| wrong(&error))?;
    json_text::read(json_text::without_mark(&text)).map_err(|error| match error {
        TextError::NotJson(reason) => wrong(&format_args!("it must be a JSON object: {reason}")),
        TextError::TooLarge(_) => wrong(&error),
    })
}

fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, Failure> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let hint = nearest::suggestion(name, tools.iter().map(|tool| tool.name.as_str()));
        Failure::usage(format!(
            "there is no tool `{name}`; {}",
            hint.as_deref().unwrap_or("the server has no tools")
        ))
    })
}

/// Whether the call may have run, and there is no answer of the tool that says so.
fn has_no_answer(call: &PendingCall, error: &RequestError) -> bool {
    call.may_have_run(error) && !matches!(error, RequestError::Rpc(_) | RequestError::InvalidOutput { .. })
}
