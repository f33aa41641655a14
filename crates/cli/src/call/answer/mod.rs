//! `longhaul answer`: answers what a task asks, or a call before it is a task.

mod early;
mod held;

use crate::{
    args,
    ask::{
        self, FormAnswer,
        arguments::{self, Taker, Words},
        fields,
    },
    call::{
        record::{self, NamedTask},
        tasks,
        waiting::{MOST_SHOWN, answer_line, asked_again, more_questions},
    },
    exit::{failure::Failure, result::Exit},
    output::{self, pace::Pace, states},
    servers::{self, Server, notice::with_notice},
};
use longhaul_client::{
    Connection, Form, InputRequest, InputResponse, RequestError, SystemClock, TaskHandle, TaskSnapshot, TaskStatus,
};
use longhaul_core::{BoxFuture, Clock};
use serde_json::{Map, Value, json};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

/// The shortest part of a key that stands for it. A shorter one may be the whole key of a question that is answered already, such as `in-1` beside `in-10`.
const SHORTEST_PART: usize = 8;

const NOTHING_ANSWERED: &str = "nothing was answered; --decline says no";

/// Runs the command.
pub(crate) async fn run(args: &args::Answer) -> ExitCode {
    match answer(args).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(args.json),
    }
    .into()
}

/// The only recorded task that asks.
async fn only_that_asks(server: Server) -> Result<NamedTask, Failure> {
    let mut live = NamedTask::candidates(&server, "answer").await?;
    if live.len() > 1 {
        // What the journal knows may be old, and an answer cannot be taken back.
        live = vec![tasks::only_that_asks(&server, live).await?];
    }
    NamedTask::only_of(server, "answer", &live).await
}

async fn answer(args: &args::Answer) -> Result<Exit, Failure> {
    let (server, rest) = servers::choose(&args.task.server, &args.task.words)?;
    // A word with `=` is a value: no task has such an id.
    let (id, words) = match (&args.task.id, rest.split_first()) {
        (Some(id), _) => (Some(id), rest),
        (None, Some((id, words))) if !id.contains('=') => (Some(id), words),
        (None, _) => (None, rest),
    };
    if (args.decline || args.cancel) && !words.is_empty() {
        return Err(Failure::usage(
            "--decline and --cancel take no values; nothing was answered",
        ));
    }
    let words = arguments::parse(words).map_err(Failure::usage)?;
    let early = match id {
        Some(id) => tasks::find_call(id).await?,
        None => early::only_that_asks(&server).await?,
    };
    if let Some(call) = early {
        return early::answer(&call, args, &words).await;
    }
    let named = match id {
        Some(id) => NamedTask::find(server, id).await?,
        None => only_that_asks(server).await?,
    };
    if let Some(call) = named.call().filter(|call| call.ends_with_process) {
        return early::answer(call, args, &words).await;
    }
    let (relay, questions) = held::Relay::new();
    let connection = named.server.connection(|options| options.inputs = Some(relay))?;
    let (client, task) = named.open(&connection).await;
    let mut snapshot = match with_notice(connection.address(), record::read(&task)).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let failure = named.explain(record::unread(&task, error).await);
            return Err(match id {
                Some(_) => failure,
                None => failure.explained(&format!("task {} on {}", output::id(&named.id), named.server.shown())),
            });
        }
    };
    if snapshot.status == TaskStatus::InputRequired && snapshot.input_requests.is_empty() {
        let answered = answer_held(&named, &task, args, &words, questions).await;
        client.close().await;
        return answered;
    }
    let (open, taken) = record::open_and_answered(&task, std::mem::take(&mut snapshot.input_requests)).await;
    let is_named = |question: &&InputRequest| args.question.is_none() || question.key == args.question;
    if let Some(question) = taken
        .iter()
        .find(is_named)
        .filter(|_| open.iter().all(|open| !is_named(&open)))
    {
        return Err(Failure::refused(asked_again(&named.server, task.id(), question)));
    }
    snapshot.input_requests = open;
    // The session of the task, which may be of another revision than a new one.
    let is_modern = task.connection().server().await?.is_modern();
    let asks_nothing = || {
        let state = output::plain(states::of_snapshot(&snapshot), "");
        let lost = match is_modern || snapshot.status.is_final() {
            true => "",
            false => ". Some servers send a question once: if nobody waited for the task then, it is lost",
        };
        Failure::refused(format!("the task asks nothing now ({state}){lost}"))
    };
    let chosen = choose(&snapshot.input_requests, args, &words, asks_nothing)?;
    let keys = answer_each(&connection, &task, &snapshot, chosen, args, &words).await?;
    match is_modern {
        true => tell_what_is_open(&named, &task).await,
        false => held::tell_what_else_it_asks(&named, &task, questions, &keys).await,
    }
    client.close().await;
    Ok(Exit::Answered)
}

/// Answers questions one after the other, and returns their keys. One that somebody else has answered is an error only if none is left.
async fn answer_each(
    connection: &Connection,
    task: &TaskHandle,
    snapshot: &TaskSnapshot,
    chosen: Vec<InputRequest>,
    args: &args::Answer,
    words: &Words,
) -> Result<Vec<String>, Failure> {
    let mut keys = Vec::new();
    let mut elsewhere = None;
    for question in chosen {
        if let Some(failure) = elsewhere.take() {
            output::note(&format!("longhaul: {failure}"));
        }
        let key = question.key.clone().unwrap_or_default();
        let withdrawn = until_withdrawn(task, &key, snapshot);
        let taken = async {
            let response = respond(&question, args, words.clone(), withdrawn).await?;
            let sent = with_notice(connection.address(), send(task, &key, response)).await;
            match sent {
                Ok(()) => Ok(()),
                Err(error) => Err(not_taken(task, &key, error).await),
            }
        };
        match taken.await {
            Ok(()) => {
                answered(task, Some(&key), args.json);
                keys.push(key);
            }
            // The others may still be open.
            Err(failure) if failure.is_withdrawn() => elsewhere = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    if let Some(failure) = elsewhere {
        if keys.is_empty() {
            return Err(failure);
        }
        output::note(&format!("longhaul: {failure}"));
    }
    Ok(keys)
}

/// Reads how the task stands now, which is recorded, and tells what it still asks. The answer was taken, whatever comes of this.
async fn tell_what_is_open(named: &NamedTask, task: &TaskHandle) {
    let Ok(now) = record::read(task).await else { return };
    let (open, _) = record::open_and_answered(task, now.input_requests).await;
    for question in open.iter().take(MOST_SHOWN) {
        output::note(&format!(
            "it still asks: {}\n  {}",
            text_and_key(question),
            answer_line(&named.server, task.id(), question)
        ));
    }
    more_questions(&named.server, task.id(), open.len());
}

/// Answers a legacy task whose question is not known yet. Nothing is requested if the answer could not be given.
async fn answer_held(
    named: &NamedTask,
    task: &TaskHandle,
    args: &args::Answer,
    words: &Words,
    questions: held::Questions,
) -> Result<Exit, Failure> {
    if args.question.is_some() {
        return Err(Failure::usage(
            "the server has not told its question yet, so it has no key: leave --question out, and the first one is answered",
        ));
    }
    let is_form = words.is_empty() && !args.is_said();
    if is_form && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "this server shows the question only to the client that answers it; give the answer as NAME=VALUE, or answer on a terminal",
        ));
    }
    let respond = async |question: &InputRequest, withdrawn: BoxFuture<'_, Failure>| {
        if !is_form {
            // The user has not seen it, and the task may ask others.
            output::note(&format!("this answers: {}", text_and_key(question)));
        }
        respond(question, args, words.clone(), withdrawn).await
    };
    let key = held::answer(named, task, questions, is_form, respond).await?;
    answered(task, key.as_deref(), args.json);
    Ok(Exit::Answered)
}

/// A question that is not recorded has no key.
fn answered(task: &TaskHandle, key: Option<&str>, json: bool) {
    answered_line(Some(task.id()), None, key, json);
    if !json {
        output::note("the server has taken the answer");
    }
}

/// With --json, the line that says what was answered.
fn answered_line(task: Option<&str>, call: Option<&str>, key: Option<&str>, json: bool) {
    if !json {
        return;
    }
    let mut line = json!({"taskId": task, "answered": key});
    if let Some(call) = call {
        line["call"] = call.into();
    }
    output::json_line(&line);
}

/// What the command line says, or the user on the terminal, whose form is closed when the question is `withdrawn`.
async fn respond(
    question: &InputRequest,
    args: &args::Answer,
    words: Words,
    withdrawn: impl Future<Output = Failure>,
) -> Result<InputResponse, Failure> {
    tokio::select! {
        biased;
        response = response(question, args, words) => response,
        why = withdrawn => Err(why),
    }
}

/// Waits until the task has ended, or does not ask this any more. It is asked as often as its server wants.
async fn until_withdrawn(task: &TaskHandle, key: &str, first: &TaskSnapshot) -> Failure {
    let mut pace = Pace::default();
    let mut pause = pace.after(Ok(first));
    loop {
        SystemClock.sleep(pause).await;
        pause = match record::read(task).await {
            Ok(now) if now.status.is_final() => {
                let state = states::of_snapshot(&now);
                return Failure::refused(format!("the task has ended ({state}); nothing was answered"));
            }
            Ok(now) if !asks(&now, key) => return withdrawn(Some(key)),
            Ok(now) => pace.after(Ok(&now)),
            Err(error) if error.is_unknown_task() => return record::unread(task, error).await,
            Err(error) => pace.after(Err(&error)),
        };
    }
}

fn asks(task: &TaskSnapshot, key: &str) -> bool {
    let mut keys = task.input_requests.iter().map(|request| request.key.as_deref());
    keys.any(|asked| asked == Some(key))
}

/// Somebody else was faster.
fn withdrawn(key: Option<&str>) -> Failure {
    Failure::refused(format!("{}; nothing was answered", is_withdrawn(key))).withdrawn()
}

fn is_withdrawn(key: Option<&str>) -> String {
    let key = key.map(|key| format!(" `{key}`")).unwrap_or_default();
    format!("the question{key} is already answered, or withdrawn")
}

async fn response(question: &InputRequest, args: &args::Answer, words: Words) -> Result<InputResponse, Failure> {
    let says_no = args.decline || args.cancel;
    if let Some(invalid) = fields::invalid_form(question).filter(|_| !says_no) {
        return Err(Failure::usage(format!("{invalid}; {NOTHING_ANSWERED}")));
    }
    match (args.decline, args.cancel) {
        (true, _) => Ok(InputResponse::decline()),
        (_, true) => Ok(InputResponse::cancel()),
        _ if question.url().is_some() => agree_to_page(question).await,
        _ if words.is_empty() && !args.accept => form(question).await,
        _ => {
            let schema = fields::form(question).map_or(Value::Null, |form| json!(form));
            let content = arguments::fit(words, Map::new(), &schema, Taker::Question).map_err(Failure::usage)?;
            let response = InputResponse::accept(content);
            question
                .check(&response)
                .map_err(|problem| Failure::usage(format!("{problem}; nothing was answered")))?;
            Ok(response)
        }
    }
}

/// The values on the command line are those of one question, and nobody must agree to another one.
fn several<'a>(questions: impl IntoIterator<Item = &'a InputRequest>) -> Failure {
    let questions = questions.into_iter();
    let listed: String = questions
        .map(|question| format!("\n  {}", text_and_key(question)))
        .collect();
    Failure::usage(format!(
        "the task asks several questions; choose one with --question:{listed}"
    ))
}

/// The question of --question, which may be a part of the key that no other key has, or the only one; on a terminal all of them, one after the other.
fn choose(
    asked: &[InputRequest],
    args: &args::Answer,
    words: &Words,
    asks_nothing: impl FnOnce() -> Failure,
) -> Result<Vec<InputRequest>, Failure> {
    let is_form = words.is_empty() && !args.is_said() && io::stdin().is_terminal();
    let key = args.question.as_deref();
    let keys = || {
        asked
            .iter()
            .filter_map(|request| request.key.as_deref())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (key, asked) {
        (_, []) => Err(asks_nothing()),
        (None, [only]) => Ok(vec![only.clone()]),
        (None, questions) if is_form => Ok(questions.to_vec()),
        (None, questions) => Err(several(questions)),
        (Some(key), _) => {
            let has = |request: &&InputRequest, fits: &dyn Fn(&str) -> bool| request.key.as_deref().is_some_and(fits);
            let exact = asked.iter().find(|request| has(request, &|whole| whole == key));
            let is_part = |whole: &str| key.chars().count() >= SHORTEST_PART && whole.contains(key);
            let mut parts = asked.iter().filter(|request| has(request, &is_part));
            match (exact, parts.next(), parts.next()) {
                (Some(chosen), ..) | (None, Some(chosen), None) => Ok(vec![chosen.clone()]),
                (None, Some(_), Some(_)) => Err(Failure::usage(format!(
                    "`{key}` is a part of several keys; the task asks {}",
                    keys()
                ))),
                (None, None, _) => Err(Failure::usage(format!(
                    "the task does not ask `{key}`; it asks {}",
                    keys()
                ))),
            }
        }
    }
}

/// Shows the form. Without a terminal that is an error: nobody has seen the question, so nobody has agreed.
async fn form(question: &InputRequest) -> Result<InputResponse, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(no_answer(question)));
    }
    match ask::fill_in(question.into()).await {
        Ok(content) => Ok(InputResponse::accept(content)),
        Err(ask::FormError::Dismissed | ask::FormError::Interrupted) => Err(Failure::usage(NOTHING_ANSWERED)),
        Err(ask::FormError::NoTerminal(why)) => Err(Failure::usage(why)),
    }
}

/// The text of a question, with its key.
fn text_and_key(question: &InputRequest) -> String {
    let text = output::plain(&ask::text_of(question), "");
    match question.key.as_deref() {
        Some(key) => format!("{text} [{}]", output::plain(key, "")),
        None => text,
    }
}

/// What the command line needs to answer without a form.
fn no_answer(question: &InputRequest) -> String {
    let who = question.task.as_deref().map_or("it".into(), output::id);
    let asks = format!("{who} asks: {}", text_and_key(question));
    let fields = fields::of_question(question);
    if fields.is_empty() {
        return format!("{asks}\nit needs no values: --accept says yes, --decline no");
    }
    let or_accept = match fields::form(question).is_some_and(Form::requires_values) {
        true => "",
        false => ", or say yes without values with --accept",
    };
    format!(
        "{asks}\ngive the answer as NAME=VALUE{or_accept}; the fields are:\n  {}",
        fields.join("\n  ")
    )
}

async fn agree_to_page(question: &InputRequest) -> Result<InputResponse, Failure> {
    if !io::stdin().is_terminal() {
        let url = output::url(question.url().unwrap_or_default());
        return Err(Failure::usage(match question.page_problem() {
            Some(problem) => format!("{problem}; {NOTHING_ANSWERED}"),
            None => format!("the task asks to open {url}; answer on a terminal, or with --decline"),
        }));
    }
    match ask::on_terminal(question.into()).await {
        FormAnswer::Given(response) => Ok(InputResponse::result(response)),
        FormAnswer::Later | FormAnswer::Interrupted => Err(Failure::usage(NOTHING_ANSWERED)),
    }
}

/// A question that was answered meanwhile is no longer asked, and the server ignores the answer.
async fn send(task: &TaskHandle, key: &str, response: InputResponse) -> Result<(), RequestError> {
    task.answer(key, response).await
}

/// Why the server has not taken an answer: perhaps it has another one.
async fn not_taken(task: &TaskHandle, key: &str, error: RequestError) -> Failure {
    let is_refused = matches!(error, RequestError::Rpc(_));
    match is_refused && record::read(task).await.is_ok_and(|task| !asks(&task, key)) {
        true => Failure::from(error).explained(&is_withdrawn(Some(key))).withdrawn(),
        false => error.into(),
    }
}
