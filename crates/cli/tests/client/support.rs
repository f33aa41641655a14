//! A server in this process, and the command run against it.

pub(crate) use crate::assertions::*;
use longhaul::{
    Json, Message, Prompt, Resource, ResourceTemplate, Server, TaskContext, TaskPolicy, Tool, ToolResult,
    schemars::JsonSchema,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tokio::sync::watch;

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "longhaul::schemars")]
struct Appointment {
    /// On which day.
    #[schemars(extend("format" = "date"))]
    day: String,
    #[schemars(range(max = 9))]
    people: Option<u32>,
}

/// A form with each kind of field. Its schema is written by hand, since the titles of choices have no derive.
#[derive(Debug, Serialize, Deserialize)]
struct Shipment {
    target: String,
    copies: Option<u32>,
    notify: Option<bool>,
}

impl JsonSchema for Shipment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Shipment".into()
    }

    fn json_schema(_: &mut longhaul::schemars::SchemaGenerator) -> longhaul::schemars::Schema {
        longhaul::schemars::json_schema!({
            "type": "object",
            "required": ["target"],
            "properties": {
                "target": {
                    "type": "string",
                    "title": "Target",
                    "oneOf": [{"const": "dev", "title": "Development"}, {"const": "prod", "title": "Production"}],
                },
                "copies": {"type": "integer", "title": "Copies", "description": "how many", "minimum": 1, "maximum": 5},
                "notify": {"type": "boolean", "title": "Notify", "description": "send a mail"},
            },
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "longhaul::schemars")]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "longhaul::schemars")]
struct Review {
    language: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(crate = "longhaul::schemars")]
struct User {
    id: u64,
}

/// A server over HTTP, to the end of this process.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) home: TempDir,
    /// Whether `late` may ask.
    pub(crate) may_ask: watch::Sender<bool>,
}

/// Tools: `book` asks for a date, `late` does so once it may, `pair` asks twice, `echo` answers at once, `fail` fails, `wait` and `pack` never end,
/// `ship` asks with a form.
pub(crate) fn served() -> Served {
    let book = Tool::durable("book", async |cx: TaskContext| -> ToolResult<String> {
        let answer: Appointment = cx.elicit("When?").key("when").await?;
        Ok(format!("booked for {}", answer.day))
    });
    let (may_ask, asks) = watch::channel(false);
    let late = Tool::new("late", move |cx: TaskContext| {
        let mut asks = asks.clone();
        async move {
            asks.wait_for(|may_ask| *may_ask)
                .await
                .map_err(|_| "the test has ended")?;
            let answer: Appointment = cx.elicit("When?").await?;
            ToolResult::Ok(format!("booked for {}", answer.day))
        }
    });
    let pair = Tool::new("pair", async |cx: TaskContext| -> ToolResult<String> {
        let (one, two) = tokio::join!(
            cx.elicit::<Appointment>("First?").key("one"),
            cx.elicit::<Appointment>("Second?").key("two")
        );
        Ok(format!("{} {}", one?.day, two?.day))
    });
    let echo = Tool::new("echo", async |echo: Echo| echo.text).task(TaskPolicy::Never);
    let wait = Tool::new("wait", async |cx: TaskContext| -> ToolResult<String> {
        Err(cx.cancelled().await.into())
    });
    let ship = Tool::durable("ship", async |cx: TaskContext| -> ToolResult<String> {
        let shipment: Shipment = cx.elicit("Where to?").key("where").await?;
        Ok(format!("shipped: {shipment:?}"))
    });
    let pack = Tool::new("pack", async |cx: TaskContext| -> ToolResult<String> {
        cx.status("packing 3/10").await?;
        std::future::pending().await
    });
    let fail = Tool::new("fail", async || -> ToolResult<String> {
        Err("it does not work".into())
    });
    let prompt = Prompt::new("review", async |given: Review| {
        Message::user(format!("Review this {}.", given.language))
    });
    let server = Server::new("client-tests", "1")
        .tool(book)
        .tool(late.task(TaskPolicy::Always))
        .tool(pair.task(TaskPolicy::Always))
        .tool(echo)
        .tool(fail)
        .tool(wait.task(TaskPolicy::Always))
        .tool(ship)
        .tool(pack.task(TaskPolicy::Always))
        .prompt(prompt.complete_from("language", ["rust", "ruby", "zig"]))
        .resource(Resource::text("docs://readme", "Read me.").name("readme"))
        .resource(Resource::new("docs://bytes", async || vec![0u8, 255, 10]))
        .template(
            ResourceTemplate::new("users://{id}", async |user: User| Json(user))
                .complete_from("id", ["12", "13", "20"]),
        );
    let mut served = Served::new(server);
    served.may_ask = may_ask;
    served
}

/// A server, and the commands that are run with it as the default one.
pub(crate) trait Shell {
    /// The folder of the configuration and of the journal.
    fn home(&self) -> &TempDir;

    fn url(&self) -> &str;

    fn command(&self, words: &[&str]) -> Command {
        let mut command = longhaul(words, self.home());
        command.env("LONGHAUL_SERVER", self.url());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that succeeds, and returns what is on standard output.
    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        exit(&self.run(words), 0)
    }

    /// Runs a command, and returns the JSON on standard output.
    #[track_caller]
    fn shown(&self, words: &[&str]) -> Value {
        json(&self.run(words))
    }

    /// The calls that are listed.
    #[track_caller]
    fn listed(&self, options: &[&str]) -> Vec<Value> {
        let mut listed = self.shown(&[&["tasks", "--json"], options].concat());
        serde_json::from_value(listed["calls"].take()).unwrap()
    }

    /// A file with these lines, for `--batch`.
    fn batch_file(&self, lines: &str) -> String {
        let file = self.home().path().join("calls.jsonl");
        std::fs::write(&file, lines).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

impl Shell for Served {
    fn home(&self) -> &TempDir {
        &self.home
    }

    fn url(&self) -> &str {
        &self.url
    }
}

/// A server in the test's own hands.
pub(crate) struct At {
    url: String,
    pub(crate) home: TempDir,
}

impl At {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            home: tempfile::tempdir().unwrap(),
        }
    }
}

impl Shell for At {
    fn home(&self) -> &TempDir {
        &self.home
    }

    fn url(&self) -> &str {
        &self.url
    }
}

impl Served {
    /// A server that is served over HTTP.
    pub(crate) fn new(server: Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (url, running, listening) = runtime.block_on(async {
            let running = server.start().await.unwrap();
            let listening = running.listen("127.0.0.1:0").await.unwrap();
            (listening.url().to_string(), running, listening)
        });
        let serving = std::thread::Builder::new().spawn(move || {
            let _running = running;
            runtime.block_on(listening.serve_until(std::future::pending()))
        });
        serving.unwrap();
        Self {
            url,
            home: tempfile::tempdir().unwrap(),
            may_ask: watch::channel(false).0,
        }
    }

    /// Calls a tool, and returns the id of its task.
    pub(crate) fn detach(&self, tool: &str) -> String {
        exit(&self.run(&["call", tool, "--detach"]), 0)
    }

    /// As [`detach`](Self::detach), at a server of 2025-11-25.
    pub(crate) fn detach_legacy(&self, tool: &str) -> String {
        exit(&self.run(&["call", tool, "--detach", "--era=legacy"]), 0)
    }

    /// Calls a tool of a server of 2025-11-25 that asks when the caller has gone, and waits until it does.
    pub(crate) fn detach_before_it_asks(&self) -> (String, Output) {
        let id = self.detach_legacy("late");
        self.may_ask.send_replace(true);
        let shown = self.asks_legacy(&id);
        (id, shown)
    }

    /// Waits until the legacy task asks, and returns how it is shown then.
    pub(crate) fn asks_legacy(&self, id: &str) -> Output {
        loop {
            let shown = self.run(&["task", id, "--era=legacy"]);
            if exit(&shown, 0).contains("status    asking") {
                return shown;
            }
            std::thread::yield_now();
        }
    }

    /// The recorded task that asks, if it is the only one.
    pub(crate) fn only_asking(&self) -> String {
        let listed = json(&self.run(&["tasks", "--json"]));
        let mut asking = listed["calls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["asks"] == true);
        let only = asking.next().unwrap()["taskId"].as_str().unwrap().to_owned();
        assert!(asking.next().is_none(), "{listed}");
        only
    }

    /// Waits until the status message of the task is this.
    pub(crate) fn says(&self, id: &str, message: &str) {
        while json(&self.run(&["task", id, "--json"]))["statusMessage"] != message {
            std::thread::yield_now();
        }
    }

    /// Waits until the task asks `count` questions, and returns how it is shown then.
    pub(crate) fn asks(&self, id: &str, count: usize) -> Value {
        loop {
            let shown = json(&self.run(&["task", id, "--json"]));
            if shown["inputRequests"].as_object().map_or(0, |asked| asked.len()) == count {
                return shown;
            }
            std::thread::yield_now();
        }
    }
}

pub(crate) fn longhaul(words: &[&str], home: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("LONGHAUL_SERVER")
        .env("XDG_CONFIG_HOME", home.path())
        .env("XDG_STATE_HOME", home.path());
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// What is on standard output, if the status is this.
#[track_caller]
pub(crate) fn exit(output: &Output, wanted: i32) -> String {
    assert_eq!(output.status.code(), Some(wanted), "{output:?}");
    stdout(output)
}

#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Runs the command with the server at `url` as the default one.
pub(crate) fn run_at(url: &str, home: &TempDir, words: &[&str]) -> Output {
    longhaul(words, home).env("LONGHAUL_SERVER", url).output().unwrap()
}
