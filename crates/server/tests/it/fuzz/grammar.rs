//! Requests that are valid until something is damaged in them.

use super::{
    json::{ByteDamage, Damage, Json, Junk, Rarely},
    offers::{PROMPT, RESOURCE, TEMPLATE},
    tools::{ACTS, TOOLS},
};
use crate::request::{CAPABILITIES_KEY, TASKS, VERSION_KEY};
use bolero::{TypeGenerator, generator::produce};
use serde_json::{Value, json};

/// What a client does, step by step.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct Scene {
    #[generator(produce::<Vec<_>>().with().len(1..6usize))]
    pub(super) steps: Vec<DamagedRequest>,
}

/// Which generation the steps are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, TypeGenerator)]
pub(super) enum Family {
    Legacy,
    Modern,
}

/// A request, and what is wrong with it.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct DamagedRequest {
    pub(super) request: Request,
    pub(super) id: Id,
    pub(super) sender: Sender,
    #[generator(produce::<Vec<_>>().with().len(0..3usize))]
    pub(super) damage: Vec<Damage>,
    pub(super) headers: Rarely<HeaderDamage>,
    pub(super) bytes: Rarely<ByteDamage>,
    pub(super) spread: bool,
}

#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Id {
    Number(i64),
    Text(String),
    Odd(u8),
    /// As in a notification.
    None,
}

/// What the sender declares about itself.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct Sender {
    pub(super) declares_tasks: bool,
    pub(super) declares_legacy_tasks: bool,
    pub(super) can_be_asked: bool,
    pub(super) takes_stream: bool,
    pub(super) progress_token: Option<Id>,
    /// A legacy client that omits its session.
    pub(super) sessionless: bool,
}

#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Request {
    Call {
        tool: u8,
        act: u8,
        extra: Option<Junk>,
        /// A legacy client's request for a task.
        task: Option<Option<u32>>,
        /// The state and answers of a modern retry.
        round: Rarely<Round>,
    },
    Get(Task),
    Result(Task),
    Cancel(Task),
    Update(Task, Answers),
    List(Option<Junk>),
    /// The index of the revision.
    Initialize(u8),
    Bare(Bare),
    Read(Uri),
    Watch(Uri),
    Unwatch(Uri),
    Prompt {
        is_known: bool,
        what: Junk,
    },
    Complete {
        of_prompt: bool,
        value: Junk,
        context: Option<Junk>,
    },
    Level(Level),
    Listen {
        task: Task,
        lists: bool,
    },
    CallOff(Id),
    Respond(Answers),
    Unknown(String),
}

/// A request without params.
#[derive(Debug, Clone, Copy, TypeGenerator)]
pub(super) enum Bare {
    Ping,
    Discover,
    Tools,
    Resources,
    Templates,
    Prompts,
    Initialized,
}

/// A task: one that was made in this scene, or any.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Task {
    Made(u8),
    Any(String),
}

#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Uri {
    LogOf(Task),
    Fixed,
    Word(String),
    Any(String),
}

#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum Level {
    Warning,
    Any(Junk),
}

/// Another round of a call.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct Round {
    answers: Answers,
    #[generator(produce::<Vec<_>>().with().len(0..3usize))]
    state: Vec<ByteDamage>,
}

/// Answers to the questions that were seen.
#[derive(Debug, Clone, TypeGenerator)]
pub(super) struct Answers {
    which: u8,
    kind: AnswerKind,
}

#[derive(Debug, Clone, TypeGenerator)]
enum AnswerKind {
    Accept(Option<Junk>),
    Decline,
    Odd(Junk),
}

#[derive(Debug, Clone, TypeGenerator)]
pub(super) enum HeaderDamage {
    Drop(u8),
    Repeat(u8),
    Replace(u8, Vec<u8>),
}

/// What earlier steps have returned.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) tasks: Vec<String>,
    pub(super) session: Option<String>,
    pub(super) cursor: Option<String>,
    /// Keys of questions.
    pub(super) questions: Vec<String>,
    /// The ids under which a legacy client was asked.
    pub(super) asked: Vec<String>,
    /// Of the last round.
    pub(super) state: Option<String>,
}

impl Known {
    /// Learns from a response, except tasks.
    pub(super) fn learn(&mut self, response: &Value) {
        let result = &response["result"];
        if let Some(cursor) = result["nextCursor"].as_str() {
            self.cursor = Some(cursor.to_owned());
        }
        if let Some(state) = result["requestState"].as_str() {
            self.state = Some(state.to_owned());
        }
        let questions = result["inputRequests"].as_object();
        self.questions
            .extend(questions.into_iter().flat_map(|map| map.keys().cloned()));
    }
}

/// The request as bytes.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

const VERSIONS: [&str; 5] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2031-01-01"];

impl DamagedRequest {
    pub(super) fn write(&self, family: Family, known: &Known) -> Sent {
        let mut message = self.message(family, known);
        let mut headers = self.headers(family, known);
        for damage in &self.damage {
            damage.apply(&mut message);
        }
        let mut text = String::new();
        message.write(&mut text, if self.spread { " \n" } else { "" });
        let mut body = text.into_bytes();
        if let Some(damage) = &self.bytes.0 {
            damage.apply(&mut body);
        }
        if let Some(damage) = &self.headers.0 {
            damage.apply(&mut headers);
        }
        Sent { headers, body }
    }

    fn message(&self, family: Family, known: &Known) -> Json {
        let mut message = Json::object([("jsonrpc", Json::string("2.0"))]);
        if let Request::Respond(answers) = &self.request {
            let id = answers.asked(known).or(self.id.json());
            id.into_iter().for_each(|id| message.set("id", id));
            message.set("result", answers.json());
            return message;
        }
        if let Some(id) = self.id.json() {
            message.set("id", id);
        }
        let mut params = self.request.params(known);
        if let Some(meta) = self.meta(family) {
            params.set("_meta", meta);
        }
        message.set("method", Json::string(self.request.method()));
        message.set("params", params);
        message
    }

    fn meta(&self, family: Family) -> Option<Json> {
        let token = self.sender.progress_token.as_ref().and_then(Id::json);
        let mut meta = match family {
            Family::Modern => {
                let declared = self.sender.modern_capabilities();
                Json::object([(VERSION_KEY, Json::string("2026-07-28")), (CAPABILITIES_KEY, declared)])
            }
            Family::Legacy => {
                token.as_ref()?;
                Json::object([])
            }
        };
        if let Some(token) = token {
            meta.set("progressToken", token);
        }
        Some(meta)
    }

    fn headers(&self, family: Family, known: &Known) -> Vec<(String, Vec<u8>)> {
        let accept = if self.sender.takes_stream {
            "application/json, text/event-stream"
        } else {
            "application/json"
        };
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", accept.to_owned()),
        ];
        match family {
            Family::Modern => {
                headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
                headers.push(("mcp-method", self.request.method().to_owned()));
                if let Some(name) = self.request.name(known) {
                    headers.push(("mcp-name", longhaul_wire::header::encode_value(&name).into_owned()));
                }
            }
            Family::Legacy => {
                if let Some(session) = &known.session {
                    headers.push(("mcp-protocol-version", "2025-11-25".to_owned()));
                    if !self.sender.sessionless {
                        headers.push(("mcp-session-id", session.clone()));
                    }
                }
            }
        }
        let owned = |(name, value): (&str, String)| (name.to_owned(), value.into_bytes());
        headers.into_iter().map(owned).collect()
    }
}

impl Request {
    fn method(&self) -> &str {
        match self {
            Self::Call { .. } => "tools/call",
            Self::Get(_) => "tasks/get",
            Self::Result(_) => "tasks/result",
            Self::Cancel(_) => "tasks/cancel",
            Self::Update(..) => "tasks/update",
            Self::List(_) => "tasks/list",
            Self::Initialize(_) => "initialize",
            Self::Bare(Bare::Ping) => "ping",
            Self::Bare(Bare::Discover) => "server/discover",
            Self::Bare(Bare::Tools) => "tools/list",
            Self::Bare(Bare::Resources) => "resources/list",
            Self::Bare(Bare::Templates) => "resources/templates/list",
            Self::Bare(Bare::Prompts) => "prompts/list",
            Self::Bare(Bare::Initialized) => "notifications/initialized",
            Self::Read(_) => "resources/read",
            Self::Watch(_) => "resources/subscribe",
            Self::Unwatch(_) => "resources/unsubscribe",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
            Self::Level(_) => "logging/setLevel",
            Self::Listen { .. } => "subscriptions/listen",
            Self::CallOff(_) => "notifications/cancelled",
            Self::Respond(_) => "",
            Self::Unknown(method) => method,
        }
    }

    /// What `Mcp-Name` mirrors.
    fn name(&self, known: &Known) -> Option<String> {
        match self {
            Self::Call { tool, .. } => Some(tool_name(*tool).to_owned()),
            Self::Get(task) | Self::Cancel(task) | Self::Update(task, _) => Some(task.id(known)),
            Self::Read(uri) => Some(uri.text(known)),
            Self::Prompt { is_known, .. } => Some(prompt_name(*is_known).to_owned()),
            _ => None,
        }
    }

    fn params(&self, known: &Known) -> Json {
        let of_task = |task: &Task| Json::object([("taskId", Json::string(&task.id(known)))]);
        match self {
            Self::Call {
                tool,
                act,
                extra,
                task,
                round,
            } => {
                let act = ACTS[usize::from(*act) % ACTS.len()];
                let mut arguments = Json::object([("act", Json::string(act))]);
                if let Some(extra) = extra {
                    arguments.set("extra", extra.json());
                }
                let mut params = Json::object([("name", Json::string(tool_name(*tool))), ("arguments", arguments)]);
                if let Some(ttl) = task {
                    let ttl = ttl.map(|ttl| ("ttl", Json::number(ttl)));
                    params.set("task", Json::object(ttl));
                }
                if let Some(round) = &round.0 {
                    round.join(&mut params, known);
                }
                params
            }
            Self::Get(task) | Self::Result(task) | Self::Cancel(task) => of_task(task),
            Self::Update(task, answers) => {
                let mut params = of_task(task);
                params.set("inputResponses", answers.by_key(known));
                params
            }
            Self::List(cursor) => match (cursor, &known.cursor) {
                (Some(junk), _) => Json::object([("cursor", junk.json())]),
                (None, Some(cursor)) => Json::object([("cursor", Json::string(cursor))]),
                (None, None) => Json::object([]),
            },
            Self::Initialize(version) => {
                let version = Json::string(VERSIONS[usize::from(*version) % VERSIONS.len()]);
                let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
                let [capabilities, client] = [capabilities, json!({"name": "fuzz", "version": "1"})].map(Json::of);
                let members = [("capabilities", capabilities), ("clientInfo", client)];
                Json::object([("protocolVersion", version)].into_iter().chain(members))
            }
            Self::Read(uri) | Self::Watch(uri) | Self::Unwatch(uri) => {
                Json::object([("uri", Json::string(&uri.text(known)))])
            }
            Self::Prompt { is_known, what } => Json::object([
                ("name", Json::string(prompt_name(*is_known))),
                ("arguments", Json::object([("what", what.json())])),
            ]),
            Self::Complete {
                of_prompt,
                value,
                context,
            } => completion(*of_prompt, value, context.as_ref()),
            Self::Level(Level::Warning) => Json::object([("level", Json::string("warning"))]),
            Self::Level(Level::Any(junk)) => Json::object([("level", junk.json())]),
            Self::Listen { task, lists } => {
                let mut wanted = Json::object([("taskIds", Json::Text(format!("[{}]", json!(task.id(known)))))]);
                if *lists {
                    wanted.set("toolsListChanged", Json::Text("true".to_owned()));
                }
                Json::object([("notifications", wanted)])
            }
            Self::CallOff(id) => Json::object(id.json().map(|id| ("requestId", id))),
            Self::Bare(_) | Self::Respond(_) | Self::Unknown(_) => Json::object([]),
        }
    }
}

fn prompt_name(is_known: bool) -> &'static str {
    if is_known { PROMPT } else { "nobody's" }
}

fn completion(of_prompt: bool, value: &Junk, context: Option<&Junk>) -> Json {
    let (of, argument) = if of_prompt {
        (json!({"type": "ref/prompt", "name": PROMPT}), "what")
    } else {
        (json!({"type": "ref/resource", "uri": TEMPLATE}), "word")
    };
    let argument = Json::object([("name", Json::string(argument)), ("value", value.json())]);
    let mut params = Json::object([("ref", Json::of(of)), ("argument", argument)]);
    if let Some(junk) = context {
        let arguments = Json::object([("x", junk.json())]);
        params.set("context", Json::object([("arguments", arguments)]));
    }
    params
}

fn tool_name(nth: u8) -> &'static str {
    TOOLS
        .get(usize::from(nth) % (TOOLS.len() + 1))
        .map_or("nobody's", |(name, _)| name)
}

impl Id {
    pub(super) fn json(&self) -> Option<Json> {
        const ODD: [&str; 8] = [
            "0",
            "-1",
            "123456789012345678901234567890",
            r#""""#,
            r#""a\u0062\/""#,
            "1.5",
            "null",
            "{}",
        ];
        match self {
            Self::Number(number) => Some(Json::number(*number)),
            Self::Text(text) => Some(Json::string(text)),
            Self::Odd(nth) => Some(Json::Text(ODD[usize::from(*nth) % ODD.len()].to_owned())),
            Self::None => None,
        }
    }
}

impl Sender {
    fn modern_capabilities(&self) -> Json {
        let mut capabilities = Json::object([]);
        if self.declares_tasks {
            capabilities.set("extensions", Json::object([(TASKS, Json::object([]))]));
        }
        if self.declares_legacy_tasks {
            capabilities.set("tasks", Json::object([]));
        }
        if self.can_be_asked {
            capabilities.set("elicitation", Json::object([("form", Json::object([]))]));
        }
        capabilities
    }
}

impl Task {
    fn id(&self, known: &Known) -> String {
        match self {
            Self::Made(nth) => (usize::from(*nth).checked_rem(known.tasks.len()))
                .map_or_else(|| "0".repeat(36), |nth| known.tasks[nth].clone()),
            Self::Any(text) => text.clone(),
        }
    }
}

impl Uri {
    fn text(&self, known: &Known) -> String {
        match self {
            Self::LogOf(task) => format!("longhaul://task/{}/log", task.id(known)),
            Self::Fixed => RESOURCE.to_owned(),
            Self::Word(word) => TEMPLATE.replace("{word}", word),
            Self::Any(text) => text.clone(),
        }
    }
}

impl Round {
    fn join(&self, params: &mut Json, known: &Known) {
        params.set("inputResponses", self.answers.by_key(known));
        if let Some(state) = &known.state {
            let bytes = ByteDamage::bend(&self.state, state.as_str());
            params.set("requestState", Json::string(&String::from_utf8_lossy(&bytes)));
        }
    }
}

impl Answers {
    /// The id of a question that a legacy client was asked.
    fn asked(&self, known: &Known) -> Option<Json> {
        let nth = usize::from(self.which).checked_rem(known.asked.len())?;
        Some(Json::string(&known.asked[nth]))
    }

    /// The answer, under the key of a question.
    fn by_key(&self, known: &Known) -> Json {
        let nth = usize::from(self.which).checked_rem(known.questions.len());
        let key = nth.map_or_else(|| "in-1".to_owned(), |nth| known.questions[nth].clone());
        Json::Object(vec![(key, self.json())])
    }

    fn json(&self) -> Json {
        match &self.kind {
            AnswerKind::Accept(junk) => {
                let mut answer = Json::object([("action", Json::string("accept")), ("content", Json::object([]))]);
                if let Some(junk) = junk {
                    answer.set("x-unknown", junk.json());
                }
                answer
            }
            AnswerKind::Decline => Json::object([("action", Json::string("decline"))]),
            AnswerKind::Odd(junk) => junk.json(),
        }
    }
}

impl HeaderDamage {
    fn apply(&self, headers: &mut Vec<(String, Vec<u8>)>) {
        // The first is the content type, without which nothing is read at all.
        let place = |nth: u8, headers: &[_]| 1 + usize::from(nth) % (headers.len() - 1);
        match self {
            Self::Drop(nth) => drop(headers.remove(place(*nth, headers))),
            Self::Repeat(nth) => headers.push(headers[place(*nth, headers)].clone()),
            Self::Replace(nth, value) => {
                let at = place(*nth, headers);
                headers[at].1.clone_from(value);
            }
        }
    }
}
