//! An upstream in a process of its own, whose tool asks, reports, logs and changes a resource for each caller while it does so for another.

use longhaul::{
    Capability, Error, Field, Form, LogLevel, Principal, Resource, Server, TaskContext, TaskPolicy, Tool, ToolResult,
    auth::{AuthDecision, Authenticator, Identity, Permissions, RequestHead},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// Those who call it.
pub(crate) const CALLERS: [&str; 2] = ["ann", "bob"];
/// The variable with the folder of an upstream: by it, this program knows what it is.
const FOLDER: &str = "UPSTREAM_FOLDER";
/// The variable that is set if it serves over HTTP.
const HTTP: &str = "UPSTREAM_HTTP";
/// The upstream is this program. The test harness writes to standard output, so the upstream writes to a copy of it.
const SCRIPT: &str =
    "exec 3>&1 1>&2; exec \"$0\" --exact talking_upstream::an_upstream --ignored --nocapture 2>/dev/null";

/// Who shows a token is the user of its name.
struct ByToken;

impl Authenticator for ByToken {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        let shown = head.headers.get("authorization").and_then(|shown| shown.to_str().ok());
        let user = shown.and_then(|shown| shown.strip_prefix("Bearer "));
        let principal = Principal::named(format!("user:{}", user.unwrap_or("nobody")));
        AuthDecision::Known(Ok(Arc::new(Identity::verified(principal, Permissions::all()))))
    }
}

#[derive(Deserialize)]
struct Words {
    /// Whose call it is.
    caller: String,
    /// The calls of a round run at the same time.
    round: u32,
}

/// Returns when the other caller has called, too.
#[expect(clippy::disallowed_methods, reason = "another process gives no sign")]
async fn meet(folder: &Path, words: &Words) -> std::io::Result<()> {
    let sign = |caller: &str| folder.join(format!("{}-{caller}", words.round));
    fs::write(sign(&words.caller), "")?;
    while !CALLERS.iter().all(|caller| sign(caller).exists()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Says everything that an upstream can say to a client, with the caller's name in it.
async fn talk(cx: TaskContext, folder: PathBuf, words: Value) -> ToolResult<String> {
    let words: Words = serde_json::from_value(words).map_err(|error| Error::new(error.to_string()))?;
    let caller = &words.caller;
    meet(&folder, &words)
        .await
        .map_err(|error| Error::new(error.to_string()))?;
    cx.report(1, 3, format!("progress of {caller}")).await?;
    cx.log(LogLevel::Info, format!("message of {caller}")).await?;
    cx.server()
        .resource_updated_for(cx.principal(), format!("note://{caller}"));
    let answer = match cx.capabilities().has(Capability::ElicitationForm) {
        true => {
            let form = Form::new().field("who", Field::text());
            cx.elicit_form(format!("question of {caller}"), form).await?["who"].clone()
        }
        false => json!("nobody"),
    };
    cx.report(2, 3, format!("more progress of {caller}")).await?;
    cx.log(LogLevel::Info, format!("last message of {caller}")).await?;
    Ok(format!(
        "{caller} was answered by {}",
        answer.as_str().unwrap_or_default()
    ))
}

fn server(folder: &Path) -> Server {
    let folder = folder.to_owned();
    let tool = Tool::new("talk", move |cx: TaskContext, words: Value| {
        talk(cx, folder.clone(), words)
    });
    let tool = tool.input_schema(json!({"type": "object"})).task(TaskPolicy::Optional);
    CALLERS
        .iter()
        .fold(Server::new("talking", "1.0.0").tool(tool), |server, caller| {
            server.resource(Resource::text(format!("note://{caller}"), "a note"))
        })
}

/// No test: what [`TalkingUpstream`] and [`command`] start. It ends with its standard input.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is started by other tests"]
async fn an_upstream() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    if env::var_os(HTTP).is_none() {
        let server = server(folder).start().await.unwrap();
        let output = tokio::fs::OpenOptions::new().write(true).open("/dev/fd/3").await;
        server.serve_lines(tokio::io::stdin(), output.unwrap()).await.unwrap();
        // Reading standard input cannot be given up.
        std::process::exit(0);
    }
    let server = server(folder).authenticator(ByToken).start().await.unwrap();
    let listener = server.listen("127.0.0.1:0").await.unwrap();
    fs::write(folder.join("url.new"), listener.url()).unwrap();
    fs::rename(folder.join("url.new"), folder.join("url")).unwrap();
    let end = std::thread::Builder::new().spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    drop(end);
    listener.serve_until(std::future::pending()).await;
}

/// What starts one over stdio, as in a configuration.
pub(crate) fn command(folder: &Path) -> String {
    let program = env::current_exe().unwrap();
    format!("command = [\"sh\", \"-c\", {SCRIPT:?}, {program:?}]\nenv = {{ {FOLDER} = {folder:?} }}\n")
}

/// One over HTTP, which ends with the test.
pub(crate) struct TalkingUpstream {
    child: Child,
    pub(crate) url: String,
}

impl TalkingUpstream {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).arg(env::current_exe().unwrap());
        command.env(FOLDER, folder).env(HTTP, "yes").env_remove("NEXTEST");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        crate::support::until("the upstream", || {
            url = fs::read_to_string(folder.join("url")).unwrap_or_default();
            !url.is_empty()
        });
        Self { child, url }
    }
}

impl Drop for TalkingUpstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
