//! The API of a server that is operated.

use crate::{
    args::AdminTarget,
    config::{self, DataDirConfig},
    exit::failure::Failure,
    machine::served_file,
    output::{self, shell_word::shell_word},
    servers::is_on_this_machine,
};
use longhaul_admin::AdminSocket;
use longhaul_admin_api::{ErrorBody, ErrorReason, TaskPage};
use longhaul_client::SystemClock;
use longhaul_core::{Clock as _, Json, ParsedJson};
use longhaul_private_dir::SocketPath;
use reqwest::{Client, Method, StatusCode};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::{
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The variable with the admin key.
const KEY: &str = "LONGHAUL_ADMIN_KEY";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take, also to a request that changes something, which may have much to do.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// After this the user is told what is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// What to do about a server that does not answer.
pub(super) const HANGS: &str = "it may have been stopped (SIGSTOP), or hang: look at its log, and end it with SIGKILL: nothing acknowledged is lost. Then start it";
/// Tasks among which a part of an id is looked for.
const LATEST: &str = "/api/tasks?limit=500";
/// A shorter part of an id would be an accident.
const SHORTEST: usize = 6;

/// What the server answers.
pub(super) struct Answer<T> {
    /// As it is written, also what this release does not know.
    pub(super) json: ParsedJson,
    /// What this release reads of it.
    pub(super) read: T,
}

/// A connection to it.
pub(super) struct Api {
    client: Client,
    base: String,
    key: Option<String>,
    /// What it is called in messages.
    name: String,
    /// How long each answer may take, for who says by themselves that there is none.
    timeout: Option<Duration>,
    /// What to do if it does not run, behind what is said of that.
    start: String,
    /// What the client connects to, if it is a socket.
    _socket: Option<SocketPath>,
}

impl Api {
    /// Of the server that is named: by its URL, or by the socket in its data directory.
    pub(super) fn of(of: &AdminTarget) -> Result<Self, Failure> {
        if of.target.contains("://") {
            return Self::at_url(of);
        }
        match data_dir(of) {
            Some(data_dir) => Self::of_directory(of, &data_dir, of.target.clone()),
            None => {
                let config = configured(of)?;
                config.warn_of_problems(Path::new(&of.target));
                Self::of_configured(of, &config)
            }
        }
    }

    pub(super) fn of_configured(of: &AdminTarget, config: &DataDirConfig) -> Result<Self, Failure> {
        Self::of_directory(of, &config.data_dir, config.name.clone())
    }

    /// Of the server that owns this data directory.
    pub(super) fn of_directory(of: &AdminTarget, data_dir: &Path, name: String) -> Result<Self, Failure> {
        let socket = data_dir.join(AdminSocket::NAME);
        if let Err(error) = fs::symlink_metadata(&socket)
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Err(Failure::refused(format!(
                "{}: {error}; run this as the server's user, or use the URL of its [admin] address with its key",
                socket.display()
            ))
            .of_kind("unauthorized"));
        }
        if !socket.exists() {
            return Err(Failure::no_server(format!(
                "no server runs for `{name}`: there is no {}{}",
                socket.display(),
                start_hint(of)
            )));
        }
        let socket = SocketPath::of(&socket).map_err(Failure::usage)?;
        let client = builder()
            .unix_socket(socket.as_path())
            .build()
            .map_err(Failure::usage)?;
        Ok(Self {
            client,
            base: "http://localhost".to_owned(),
            key: key(of)?,
            name,
            timeout: None,
            start: start_hint(of),
            _socket: Some(socket),
        })
    }

    fn at_url(of: &AdminTarget) -> Result<Self, Failure> {
        let base = of.target.trim_end_matches('/').to_owned();
        Ok(Self {
            client: match is_on_this_machine(&base) {
                // A proxy must not see the key of a server on this machine.
                true => builder().no_proxy(),
                false => builder(),
            }
            .build()
            .map_err(Failure::usage)?,
            name: base.clone(),
            base,
            timeout: None,
            start: start_hint(of),
            _socket: None,
            key: key(of)?,
        })
    }

    /// With another limit for each answer, and without advice on a server that does not answer.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.request(Method::GET, path, None).await
    }

    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.request(Method::POST, path, None).await
    }

    pub(super) async fn post_body<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        let body = serde_json::to_string(body).map_err(Failure::usage)?;
        self.request(Method::POST, path, Some(body)).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.request(Method::DELETE, path, None).await
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer<T>, Failure> {
        let timeout = self.timeout.unwrap_or(match method {
            Method::GET => READ_TIMEOUT,
            _ => CHANGE_TIMEOUT,
        });
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .timeout(timeout);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let answered = async {
            let answer = request.send().await?;
            let status = answer.status();
            Ok::<_, reqwest::Error>((status, answer.text().await?))
        };
        let answered = tokio::select! {
            answered = answered => answered,
            never = self.say_that_it_waits() => match never {},
        };
        let (status, text) = answered.map_err(|error| {
            Failure::no_server(match self.timeout {
                None if error.is_timeout() && !error.is_connect() => {
                    format!("{}: no answer within {} s: {HANGS}", self.name, timeout.as_secs())
                }
                None if error.is_connect() => {
                    format!("no server runs for {}: {}{}", self.name, innermost(&error), self.start)
                }
                _ => format!("{}: {}", self.name, innermost(&error)),
            })
        })?;
        let other = |why: String| {
            Failure::no_server(format!(
                "{}{path} is not the API of a Longhaul server: {why}",
                self.base
            ))
        };
        let Ok(json) = Json::parse(&text) else {
            return Err(other(format!("it answers {status}")));
        };
        if !status.is_success() {
            return Err(refusal(status, &json));
        }
        let read = serde_json::from_str(json.as_str()).map_err(|error| other(error.to_string()))?;
        Ok(Answer {
            json: json.into(),
            read,
        })
    }

    /// Once the server has not answered for a while.
    async fn say_that_it_waits(&self) -> Infallible {
        if self.timeout.is_none() {
            SystemClock.sleep(SILENCE).await;
            output::note(&format!("waiting for {} to answer", self.name));
        }
        std::future::pending().await
    }

    /// The whole id of a task of which a part is named.
    pub(super) async fn whole_id(&self, part: &str) -> Result<String, Failure> {
        let path = task_path(part)?;
        match self.get::<IgnoredAny>(&path).await {
            Ok(_) => return Ok(part.to_owned()),
            Err(failure) if failure.kind() != "not_found" => return Err(failure),
            Err(_) if part.len() < SHORTEST => {
                return Err(Failure::usage(format!(
                    "{part} may be a part of the ids of several tasks: give at least {SHORTEST} characters of one, or the whole id"
                )));
            }
            Err(_) => {}
        }
        let latest: Answer<TaskPage> = self.get(LATEST).await?;
        let ids = latest.read.tasks.into_iter().map(|task| task.id);
        let found: Vec<String> = ids.filter(|id| id.contains(part)).collect();
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => Err(Failure::refused(format!(
                "no task has the id {part}, and none of the latest 500 has it in its id"
            ))
            .of_kind("not_found")),
            [..] => Err(Failure::usage(format!(
                "several tasks have {part} in their ids:\n  {}",
                found.join("\n  ")
            ))),
        }
    }
}

/// How the server is started that does not run, behind what is said of that.
fn start_hint(of: &AdminTarget) -> String {
    match Path::new(&of.target).is_file() {
        true => format!("; start it with `longhaul serve {}`", shell_word(&of.target)),
        false if of.target.contains("://") && !is_on_this_machine(&of.target) => String::new(),
        false => "; start it with `longhaul serve FILE`, or the program that it is a part of".to_owned(),
    }
}

/// The data directory, if one is named in place of a configuration.
pub(super) fn data_dir(of: &AdminTarget) -> Option<PathBuf> {
    let named = PathBuf::from(&of.target);
    named.is_dir().then_some(named)
}

/// The data directory of the server whose configuration file is named. Fails if a server of another file runs there.
pub(super) fn configured(of: &AdminTarget) -> Result<DataDirConfig, Failure> {
    let file = Path::new(&of.target);
    let config = config::load_for_data_dir(file, of.data_dir.as_deref()).map_err(Failure::usage)?;
    served_file::check(file, &config.data_dir).map_err(Failure::usage)?;
    Ok(config)
}

/// The address of a task, and of what belongs to it.
pub(super) fn task_path(id: &str) -> Result<String, Failure> {
    let is_id = !id.is_empty()
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    match is_id {
        true => Ok(format!("/api/tasks/{id}")),
        false => Err(Failure::usage(format!("{id:?} cannot be the id of a task"))),
    }
}

/// The admin key that is given, if one is.
fn key(of: &AdminTarget) -> Result<Option<String>, Failure> {
    let key = match &of.key_file {
        Some(file) => {
            let text = longhaul_private_dir::read_named_text(file);
            Some(text.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?)
        }
        None => std::env::var(KEY).ok(),
    };
    Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()))
}

fn builder() -> reqwest::ClientBuilder {
    longhaul_client::install_tls_provider();
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
}

/// The reason without those that only say where it was met.
fn innermost(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

fn refusal(status: StatusCode, json: &Json) -> Failure {
    let ErrorReason { kind, message } = serde_json::from_str::<ErrorBody>(json.as_str())
        .unwrap_or_default()
        .error;
    let message = match message.is_empty() {
        true => "the server gives no reason".to_owned(),
        false => message,
    };
    match status {
        StatusCode::BAD_REQUEST => Failure::usage(message),
        StatusCode::UNAUTHORIZED => Failure::refused(format!(
            "{message}; give its file with --key-file, or the key in {KEY}. It is in admin.key in the server's data directory"
        ))
        .of_kind("unauthorized"),
        StatusCode::NOT_FOUND => Failure::refused(message).of_kind("not_found"),
        StatusCode::SERVICE_UNAVAILABLE if kind == "store" => Failure::no_server(message).of_kind("store"),
        StatusCode::SERVICE_UNAVAILABLE => Failure::no_server(message),
        _ => Failure::refused(message).of_kind("not_now"),
    }
}
