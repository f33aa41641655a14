//! `longhaul admin`: operating a server from a shell.

mod api;
mod bulk;
mod doctor;
mod finding;
mod log;
mod machine;
mod reset;
mod schedules;
mod show;
mod table;
mod top;

use crate::{
    args::{
        Admin, AdminAnswer, AdminAudit, AdminCommand, AdminDrain, AdminLog, AdminReset, AdminSchedules, AdminTarget,
        AdminTasks, Doctor, Filter, Nodes, NodesAction, OneNode, OneTask, SomeTasks, SomeTools,
    },
    ask::{
        arguments::{self, Taker},
        fields,
    },
    exit::{failure::Failure, result::Exit},
    output::{self, json_text::one_line},
};
use api::{Answer, Api, task_path};
use inquire::{Confirm, InquireError};
use longhaul_admin_api::{
    ActionReport, AnswerBody, AuditLines, AuditQuery, DrainQuery, DrainReport, NodesView, StatsView, TaskDetails,
    TaskPage, TaskQuery, ToolView, UpstreamPause, UpstreamView, labels_text, to_url,
};
use longhaul_client::Form;
use longhaul_core::ToolPattern;
use serde_json::{Map, json, value::to_raw_value};
use std::{path::Path, process::ExitCode, time::Duration};

/// How long a server that has just been started may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) async fn run(admin: &Admin) -> ExitCode {
    let of = match &admin.command {
        AdminCommand::Tasks(AdminTasks { of, .. })
        | AdminCommand::Audit(AdminAudit { of, .. })
        | AdminCommand::Task(OneTask { of, .. })
        | AdminCommand::Log(AdminLog {
            one: OneTask { of, .. },
            ..
        })
        | AdminCommand::Cancel(SomeTasks { of, .. })
        | AdminCommand::Retry(SomeTasks { of, .. })
        | AdminCommand::Reset(AdminReset {
            one: OneTask { of, .. },
            ..
        })
        | AdminCommand::Release(SomeTasks { of, .. })
        | AdminCommand::Raise(OneTask { of, .. })
        | AdminCommand::Delete(SomeTasks { of, .. })
        | AdminCommand::Answer(AdminAnswer { of, .. })
        | AdminCommand::Schedules(AdminSchedules { of, .. })
        | AdminCommand::Pause(SomeTools { of, .. })
        | AdminCommand::Resume(SomeTools { of, .. })
        | AdminCommand::Tools(of)
        | AdminCommand::Upstreams(of)
        | AdminCommand::Principals(of)
        | AdminCommand::Stats(of)
        | AdminCommand::Top(of)
        | AdminCommand::Drain(AdminDrain { of, .. })
        | AdminCommand::Doctor(of) => of,
    };
    exit_code(operate(&admin.command).await, of.json)
}

/// Whether the server of this data directory answers its operators, and so all.
pub(crate) async fn answers(data_dir: &Path) -> bool {
    let of = AdminTarget {
        target: data_dir.display().to_string(),
        data_dir: None,
        key_file: None,
        json: false,
    };
    let Ok(api) = Api::of_directory(&of, data_dir, of.target.clone()) else {
        return false;
    };
    match api.within(ANSWER_TIMEOUT).get::<StatsView>("/api/stats").await {
        Ok(_) => true,
        // Its database may be away.
        Err(failure) => failure.kind() == "store",
    }
}

/// Runs `longhaul doctor`.
pub(crate) async fn doctor(args: &Doctor) -> ExitCode {
    exit_code(doctor::run_first(args).await, args.json)
}

/// Runs `longhaul nodes`.
pub(crate) async fn nodes(args: &Nodes) -> ExitCode {
    match (&args.action, &args.of) {
        (Some(NodesAction::GiveUp(one)), _) => exit_code(give_up(one).await, one.of.json),
        (Some(NodesAction::Cordon(one)), _) => exit_code(cordon(one).await, one.of.json),
        (Some(NodesAction::Uncordon(one)), _) => exit_code(uncordon(one).await, one.of.json),
        (None, Some(of)) => exit_code(list_nodes(of).await, of.json),
        (None, None) => Failure::usage("which server? `longhaul nodes FILE`")
            .report(false)
            .into(),
    }
}

async fn list_nodes(of: &AdminTarget) -> Result<Exit, Failure> {
    let found = Api::of(of)?.get("/api/nodes").await?;
    shown(of, &found, |found: &NodesView| show::nodes(&found.nodes, show::width()))
}

async fn act_on_node(OneNode { of, node }: &OneNode, action: &str, done: String) -> Result<Exit, Failure> {
    let report = Api::of(of)?.post(&format!("/api/nodes/{node}/{action}")).await?;
    shown(of, &report, |_: &ActionReport| done)
}

async fn give_up(one: &OneNode) -> Result<Exit, Failure> {
    let done = format!(
        "the host of node {} is given up: what is bound to it ends as lost, or is retried. Commands of it may still run there, beside their retries, until \
         a server is started on that host again",
        one.node
    );
    act_on_node(one, "give-up", done).await
}

async fn cordon(one: &OneNode) -> Result<Exit, Failure> {
    let done = format!(
        "node {} begins nothing until it is uncordoned, or started again. What runs there runs on",
        one.node
    );
    act_on_node(one, "cordon", done).await
}

async fn uncordon(one: &OneNode) -> Result<Exit, Failure> {
    act_on_node(one, "uncordon", format!("node {} begins work again", one.node)).await
}

fn exit_code(outcome: Result<Exit, Failure>, json: bool) -> ExitCode {
    match outcome {
        Ok(exit) if exit == Exit::Answered && !output::is_written() => Exit::NotWritten,
        Ok(exit) => exit,
        Err(failure) => failure.report(json),
    }
    .into()
}

async fn operate(command: &AdminCommand) -> Result<Exit, Failure> {
    match command {
        AdminCommand::Tasks(wanted) => tasks(wanted).await,
        AdminCommand::Task(one) => {
            let (api, id) = found(&one.of, &one.id).await?;
            let task = api.get(&task_path(&id)?).await?;
            shown(&one.of, &task, show::task)
        }
        AdminCommand::Log(asked) => log::run(asked).await,
        AdminCommand::Cancel(some) => act_on(some, "cancel", "is asked to stop").await,
        AdminCommand::Retry(some) => act_on(some, "retry", "is made again").await,
        AdminCommand::Reset(args) => reset::run(args).await,
        AdminCommand::Release(some) => act_on(some, "release", "is tried again").await,
        AdminCommand::Raise(one) => act(&one.of, &one.id, "raise", "is the first of its queue").await,
        AdminCommand::Delete(some) => match one_of(some)? {
            None => bulk::run(some, "delete").await,
            Some(part) => {
                let (api, id) = found(&some.of, part).await?;
                let done = api.delete(&task_path(&id)?).await?;
                shown(&some.of, &done, |_: &ActionReport| format!("{id} is deleted"))
            }
        },
        AdminCommand::Answer(args) => answer(args).await,
        AdminCommand::Pause(some) => set_paused(some, "pause").await,
        AdminCommand::Resume(some) => set_paused(some, "resume").await,
        AdminCommand::Tools(of) => {
            let tools = Api::of(of)?.get("/api/tools").await?;
            shown(of, &tools, |tools: &Vec<_>| show::tools(tools, show::width()))
        }
        AdminCommand::Schedules(asked) => schedules::run(asked).await,
        AdminCommand::Audit(wanted) => {
            let query = AuditQuery {
                task: wanted.task.clone().unwrap_or_default(),
                principal: wanted.principal.clone().unwrap_or_default(),
                action: wanted.action.clone().unwrap_or_default(),
                outcome: wanted.outcome.clone().unwrap_or_default(),
                limit: wanted.limit.to_string(),
            };
            let path = format!("/api/audit?{}", to_url(&query));
            let found = Api::of(&wanted.of)?.get(&path).await?;
            shown(&wanted.of, &found, |found: &AuditLines<_>| {
                show::audit(&found.lines, show::width())
            })
        }
        AdminCommand::Upstreams(of) => {
            let upstreams = Api::of(of)?.get("/api/upstreams").await?;
            shown(of, &upstreams, |upstreams: &Vec<_>| {
                show::upstreams(upstreams, show::width())
            })
        }
        AdminCommand::Principals(of) => {
            let found = Api::of(of)?.get("/api/principals").await?;
            shown(of, &found, |found| show::principals(found, show::width()))
        }
        AdminCommand::Stats(of) => shown(of, &Api::of(of)?.get("/api/stats").await?, show::stats),
        AdminCommand::Top(of) => top::run(&Api::of(of)?, of.json).await,
        AdminCommand::Drain(AdminDrain { of, timeout }) => {
            let timeout = timeout.map_or_else(String::new, |millis| format!("{millis}ms"));
            let path = format!("/api/drain?{}", to_url(&DrainQuery { timeout }));
            let done = Api::of(of)?.post(&path).await?;
            shown(of, &done, |done: &DrainReport| {
                let stops = "the server stops: calls that run have 5 seconds to finish, tasks resume at the next start";
                match done.timeout_ms.unwrap_or_default() {
                    0 => stops.to_owned(),
                    timeout => format!(
                        "the server begins nothing more; what runs has {} to end. Then {stops}",
                        longhaul_core::format_duration(timeout)
                    ),
                }
            })
        }
        AdminCommand::Doctor(of) => doctor::run(of).await,
    }
}

/// A page with as many tasks as are wanted: the server looks at a part of all tasks for each answer.
async fn full_page(api: &Api, mut query: TaskQuery) -> Result<Answer<TaskPage>, Failure> {
    let (mut all, mut json) = (TaskPage::default(), Vec::new());
    loop {
        let Answer { read: page, json: part } = api.get::<TaskPage>(&format!("/api/tasks?{}", to_url(&query))).await?;
        json.extend(part["tasks"].as_array().into_iter().flatten().cloned());
        let wanted: usize = query.limit.parse().unwrap_or_default();
        let missing = wanted.saturating_sub(page.tasks.len());
        all.tasks.extend(page.tasks);
        all.next = page.next;
        all.hint = page.hint.filter(|_| all.tasks.is_empty());
        match &all.next {
            Some(next) if missing > 0 => (query.after, query.limit) = (next.clone(), missing.to_string()),
            _ => break,
        }
    }
    let mut whole = json!({"tasks": json});
    for (name, value) in [("next", &all.next), ("hint", &all.hint)] {
        if let Some(value) = value {
            whole[name] = value.as_str().into();
        }
    }
    Ok(Answer {
        json: whole.into(),
        read: all,
    })
}

/// Prints an answer.
fn shown<T>(of: &AdminTarget, answer: &Answer<T>, text: impl FnOnce(&T) -> String) -> Result<Exit, Failure> {
    match of.json {
        true => output::json_line(&one_line(answer.json.as_json().as_str())),
        false => output::text(&text(&answer.read)),
    }
    Ok(Exit::Answered)
}

/// Asks before something is changed.
fn confirmed(question: &str) -> Result<bool, Failure> {
    match Confirm::new(question).with_default(false).prompt() {
        Ok(agreed) => Ok(agreed),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => Ok(false),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// The server and the whole id of a task.
async fn found(of: &AdminTarget, part: &str) -> Result<(Api, String), Failure> {
    let api = Api::of(of)?;
    let id = api.whole_id(part).await?;
    Ok((api, id))
}

impl Filter {
    fn query(&self) -> TaskQuery {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        TaskQuery {
            state: given(&self.state),
            tool: given(&self.tool),
            upstream: given(&self.upstream),
            principal: given(&self.principal),
            origin: given(&self.origin),
            parent: given(&self.parent),
            label: labels_text(&self.labels),
            asks: if self.asks { "yes".to_owned() } else { String::new() },
            text: given(&self.text),
            older: given(&self.older),
            younger: given(&self.younger),
            ..TaskQuery::default()
        }
    }

    /// Says how a principal is named, if nothing was found of one that is named otherwise.
    fn explain_principal(&self) {
        let principal = self.principal.as_deref().unwrap_or_default();
        if !principal.is_empty() && !principal.contains(':') {
            output::note(&format!(
                "a principal is named as lists show it: key:{principal} for an API key"
            ));
        }
    }
}

async fn tasks(wanted: &AdminTasks) -> Result<Exit, Failure> {
    let query = TaskQuery {
        order: if wanted.oldest {
            "oldest".to_owned()
        } else {
            String::new()
        },
        after: wanted.after.clone().unwrap_or_default(),
        limit: wanted.limit.clone(),
        ..wanted.filter.query()
    };
    let page = full_page(&Api::of(&wanted.of)?, query).await?;
    let exit = shown(&wanted.of, &page, |page| show::tasks(&page.tasks, show::width()));
    if wanted.of.json {
        return exit;
    }
    if page.read.tasks.is_empty() {
        wanted.filter.explain_principal();
        if let Some(hint) = &page.read.hint {
            output::note(hint);
        }
    }
    if let Some(next) = &page.read.next {
        output::note(&format!("there may be more: --after {next}"));
    }
    exit
}

/// The one task that is meant, unless all that the filter finds are.
fn one_of(some: &SomeTasks) -> Result<Option<&str>, Failure> {
    if some.id.is_some() && some.filter.query() != TaskQuery::default() {
        return Err(Failure::usage(
            "a filter is for many tasks: give --all in place of the id",
        ));
    }
    Ok(some.id.as_deref())
}

async fn act_on(some: &SomeTasks, action: &str, words: &str) -> Result<Exit, Failure> {
    match one_of(some)? {
        Some(part) => act(&some.of, part, action, words).await,
        None => bulk::run(some, action).await,
    }
}

async fn act(of: &AdminTarget, part: &str, action: &str, words: &str) -> Result<Exit, Failure> {
    let (api, id) = found(of, part).await?;
    let done = api.post(&format!("{}/{action}", task_path(&id)?)).await?;
    shown(of, &done, |done: &ActionReport| match &done.task {
        // The id alone, for scripts.
        Some(new) => {
            output::note(&format!("{id} {words} as"));
            new.clone()
        }
        None => format!("{id} {words}"),
    })
}

/// Pauses or resumes the tools that fit one of the patterns. Nothing is done if one of them fits none.
async fn set_paused(some: &SomeTools, action: &str) -> Result<Exit, Failure> {
    let api = Api::of(&some.of)?;
    if let Some(upstream) = &some.upstream {
        let upstreams: Vec<UpstreamView> = api.get("/api/upstreams").await?.read;
        let names: Vec<&str> = upstreams.iter().map(|upstream| &*upstream.name).collect();
        let path = format!("/api/upstreams/{}/{action}", percent_encode(upstream));
        // The server also knows the pauses of those that are not configured any more.
        let done = match api.post(&path).await {
            Err(failure) if failure.kind() == "not_found" => {
                return Err(Failure::usage(match names[..] {
                    [] => format!("there is no upstream `{upstream}`: this server is no gateway"),
                    _ => format!(
                        "there is no upstream `{upstream}`; the upstreams are {}",
                        names.join(", ")
                    ),
                }));
            }
            done => done?,
        };
        return shown(&some.of, &done, |done: &UpstreamPause| match &done.tools[..] {
            [] => format!("{action}d: {upstream}, which offers no tools now"),
            tools => format!("{action}d: {}", tools.join(", ")),
        });
    }
    let tools: Vec<ToolView> = api.get("/api/tools").await?.read;
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let fits_none = |pattern: &&ToolPattern| !names.iter().any(|name| pattern.matches(name));
    if let Some(pattern) = some.tools.iter().find(fits_none) {
        return Err(Failure::usage(format!(
            "no tool fits `{pattern}`; the tools are {}",
            names.join(", ")
        )));
    }
    let mut done = Vec::new();
    for name in names {
        if some.tools.iter().any(|pattern| pattern.matches(name)) {
            let path = percent_encode(name);
            api.post::<ActionReport>(&format!("/api/tools/{path}/{action}")).await?;
            done.push(name);
        }
    }
    match some.of.json {
        true => output::json_line(&json!({"tools": done})),
        false => output::text(&format!("{action}d: {}", done.join(", "))),
    }
    Ok(Exit::Answered)
}

/// A name as one part of a path.
fn percent_encode(name: &str) -> String {
    let part = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(part).collect()
}

async fn answer(args: &AdminAnswer) -> Result<Exit, Failure> {
    let api = Api::of(&args.of)?;
    let id = api.whole_id(&args.id).await?;
    let path = task_path(&id)?;
    let questions = api.get::<TaskDetails>(&path).await?.read.questions;
    let keys = || {
        let keys = questions.iter().map(|question| &*question.key);
        keys.collect::<Vec<_>>().join(", ")
    };
    let question = match (&args.question, &questions[..]) {
        (_, []) => return Err(Failure::refused(format!("{id} asks nothing"))),
        (None, [one]) => one,
        (None, _) => {
            return Err(Failure::usage(format!(
                "{id} asks several questions; name one with --question: {}",
                keys()
            )));
        }
        (Some(key), _) => {
            let found = questions.iter().find(|question| question.key == *key);
            found.ok_or_else(|| Failure::usage(format!("{id} does not ask {key}; its questions: {}", keys())))?
        }
    };
    let form = Form::of_params(&question.params.to_string()).unwrap_or_else(|| Ok(Form::default()));
    let fields = form.as_ref().map(fields::of_form).unwrap_or_default();
    if args.words.is_empty() && !args.accept && !args.decline && !args.cancel {
        let asked = question.params["message"].as_str().unwrap_or_default();
        let fields: String = fields.iter().map(|field| format!("\n  {field}")).collect();
        let values = if fields.is_empty() {
            ""
        } else {
            "name=value for these, "
        };
        return Err(Failure::usage(format!(
            "{id} asks: {asked}{fields}\nanswer with {values}--accept, --decline or --cancel; nothing was answered"
        )));
    }
    let answer = if args.decline {
        json!({"action": "decline"})
    } else if args.cancel {
        json!({"action": "cancel"})
    } else {
        let words = arguments::parse(&args.words).map_err(Failure::usage)?;
        let form = form.map_err(|invalid| Failure::usage(format!("{invalid}; it can only be declined")))?;
        let content = arguments::fit(words, Map::new(), &json!(form), Taker::Question).map_err(Failure::usage)?;
        form.check(&content)
            .map_err(|mistakes| Failure::usage(format!("{mistakes}; nothing was answered")))?;
        json!({"action": "accept", "content": content})
    };
    let body = AnswerBody {
        key: question.key.clone(),
        answer: to_raw_value(&answer).map_err(Failure::usage)?,
    };
    let done = api.post_body(&format!("{path}/answer"), &body).await?;
    let said = match (args.decline, args.cancel) {
        (true, _) => "the question is declined",
        (_, true) => "the question is cancelled",
        _ => "it has the answer",
    };
    shown(&args.of, &done, |_: &ActionReport| format!("{id}: {said}"))
}
