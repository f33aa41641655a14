//! Relays the messages of one client to the owner of a data directory, and goes on with another owner when that one has exited.

use longhaul_core::{BYTE_ORDER_MARK, Millis};
use longhaul_server::stdio::HANDOFF_NOTIFICATION;
use longhaul_wire::{Message, RequestId, RpcError};
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::UnixStream,
};

/// The ids of requests that are made again begin so.
const AGAIN: &str = "longhaul-again-";

/// The side that closed the connection first.
pub(super) enum RelayEnd {
    ByClient,
    ByOwner,
}

/// Lines of the client. What was read of one is kept when reading is given up.
pub(super) struct Input<R> {
    reader: R,
    line: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
        }
    }

    /// Waits for the next line. `false` at the end.
    pub(super) async fn is_next(&mut self) -> bool {
        if !self.line.ends_with(b"\n") {
            let _ = self.reader.read_until(b'\n', &mut self.line).await;
        }
        !self.line.is_empty()
    }

    /// The next line with its end, without a byte order mark; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.line.ends_with(b"\n") {
            self.reader.read_until(b'\n', &mut self.line).await?;
        }
        let mut line = std::mem::take(&mut self.line);
        if line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}

/// What the client has said to an owner that another one has to know.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<RelayState>,
    /// What each owner is told before anything else.
    preface: Option<String>,
}

#[derive(Default)]
struct RelayState {
    /// The ids of requests without a response, as JSON.
    open: BTreeSet<String>,
    /// The `initialize` request, and its id.
    initialize: Option<(String, Vec<u8>)>,
    initialized: Option<Vec<u8>>,
    /// The requests that set something for the session: its log level, and the resources it is subscribed to, by what they set.
    settings: BTreeMap<String, Vec<u8>>,
    /// Whether the owner has sent something.
    was_heard: bool,
}

impl RelayState {
    /// Keeps a request that sets something for the session.
    fn set(&mut self, method: &str, line: &[u8]) {
        let is_unsubscription = method == "resources/unsubscribe";
        if method == "logging/setLevel" {
            self.settings.insert(method.to_owned(), line.to_owned());
        } else if is_unsubscription || method == "resources/subscribe" {
            let request: Value = serde_json::from_slice(line).unwrap_or_default();
            let key = format!("resource {}", request["params"]["uri"]);
            match is_unsubscription {
                true => drop(self.settings.remove(&key)),
                false => drop(self.settings.insert(key, line.to_owned())),
            }
        }
    }
}

impl Session {
    /// One whose calls are handed off after so many milliseconds, and never with 0; else as the server is configured.
    pub(super) fn new(handoff: Option<Millis>) -> Self {
        let preface = handoff.map(|millis| {
            let params = json!({"millis": millis});
            let notification = json!({"jsonrpc": "2.0", "method": HANDOFF_NOTIFICATION, "params": params});
            format!("{notification}\n")
        });
        Self {
            preface,
            ..Self::default()
        }
    }

    /// Relays until one side closes. All that the owner has sent is passed on.
    pub(super) async fn relay<R: AsyncBufRead + Unpin>(
        &self,
        input: &mut Input<R>,
        output: &mut (impl AsyncWrite + Unpin),
        owner: BufReader<UnixStream>,
    ) -> RelayEnd {
        let (read, mut to_owner) = tokio::io::split(owner);
        let mut from_owner = BufReader::new(read);
        let up = async {
            while let Ok(Some(line)) = input.next().await {
                self.sends(&line);
                // If the owner is gone, its last responses must still be read.
                if to_owner.write_all(&line).await.is_err() || to_owner.flush().await.is_err() {
                    // The next owner gets it.
                    self.withdraw(&line);
                    input.line = line;
                    return std::future::pending().await;
                }
            }
            let _ = to_owner.shutdown().await;
        };
        let down = async {
            let mut line = Vec::new();
            loop {
                line.clear();
                match from_owner.read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return RelayEnd::ByOwner,
                    Ok(_) if line.ends_with(b"\n") => self.receives(&line),
                    // The rest of a message that the owner did not write to its end.
                    Ok(_) => return RelayEnd::ByOwner,
                }
                let is_last = from_owner.buffer().is_empty();
                let written = async {
                    output.write_all(&line).await?;
                    if is_last { output.flush().await } else { Ok(()) }
                };
                if written.await.is_err() {
                    return RelayEnd::ByClient;
                }
            }
        };
        tokio::pin!(down);
        tokio::select! {
            () = up => {
                down.await;
                RelayEnd::ByClient
            }
            end = &mut down => end,
        }
    }

    fn sends(&self, line: &[u8]) {
        let mut state = self.state.lock();
        match Message::parse(line.trim_ascii()) {
            Ok(Message::Request(request)) => {
                let id = request.id.as_json().to_owned();
                state.open.insert(id.clone());
                if request.method == "initialize" {
                    (state.initialize, state.initialized) = (Some((id, line.to_owned())), None);
                    state.settings.clear();
                } else {
                    state.set(&request.method, line);
                }
            }
            Ok(Message::Notification(sent)) if sent.method == "notifications/initialized" => {
                state.initialized = Some(line.to_owned());
            }
            _ => {}
        }
    }

    /// What the owner has not received is not open there.
    fn withdraw(&self, line: &[u8]) {
        if let Ok(Message::Request(request)) = Message::parse(line.trim_ascii()) {
            self.state.lock().open.remove(request.id.as_json());
        }
    }

    /// Whether the owner has sent something since this was asked last.
    pub(super) fn takes_heard(&self) -> bool {
        std::mem::take(&mut self.state.lock().was_heard)
    }

    fn receives(&self, line: &[u8]) {
        self.state.lock().was_heard = true;
        if let Ok(Message::Response(response)) = Message::parse(line.trim_ascii())
            && let Some(id) = response.id
        {
            self.state.lock().open.remove(id.as_json());
        }
    }

    /// Answers the requests that the owner has not answered.
    ///
    /// # Errors
    /// The client does not read.
    pub(super) async fn fail_open(&self, output: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let open = {
            let mut state = self.state.lock();
            let begins = state.initialize.as_ref().map(|(id, _)| id.clone());
            let (kept, failed) = std::mem::take(&mut state.open)
                .into_iter()
                .partition(|id| Some(id) == begins.as_ref());
            state.open = kept;
            let failed: BTreeSet<String> = failed;
            failed
        };
        for id in open {
            let error = RpcError::connection_lost(
                "The server has exited before it answered: it is not known whether the request was carried out. Tasks that it has made go on when it is started again",
            );
            let mut text = String::new();
            let Ok(id) = serde_json::from_str::<&RawValue>(&id) else {
                continue;
            };
            error.write_response(&mut text, RequestId::from_raw(id));
            text.push('\n');
            output.write_all(text.as_bytes()).await?;
        }
        output.flush().await
    }

    /// Answers the next request of the client, for which there is no owner.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) async fn refuse<R: AsyncBufRead + Unpin>(
        &self,
        input: &mut Input<R>,
        output: &mut (impl AsyncWrite + Unpin),
        why: &dyn std::error::Error,
    ) -> io::Result<()> {
        let line = input.next().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.sends(&line);
        if let Ok(Message::Request(request)) = Message::parse(line.trim_ascii()) {
            self.state.lock().open.remove(request.id.as_json());
            let error = RpcError::internal(format!("The server has exited, and cannot be started again: {why}"));
            let mut text = String::new();
            error.write_response(&mut text, Some(request.id));
            text.push('\n');
            output.write_all(text.as_bytes()).await?;
        }
        output.flush().await
    }

    /// Begins the session of the client at another owner, and sets it as it was. The answers are not passed on: the client has some. What else the owner sends
    /// meanwhile is.
    ///
    /// # Errors
    /// That owner has exited, too, or the client does not read.
    pub(super) async fn begin_again(
        &self,
        owner: &mut BufReader<UnixStream>,
        output: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        if let Some(preface) = &self.preface {
            owner.write_all(preface.as_bytes()).await?;
        }
        let (initialize, initialized, settings, is_open) = {
            let state = self.state.lock();
            let Some((id, line)) = state.initialize.clone() else {
                return Ok(());
            };
            let is_open = state.open.contains(&id);
            let settings: Vec<Vec<u8>> = state.settings.values().cloned().collect();
            ((id, line), state.initialized.clone(), settings, is_open)
        };
        let (id, line) = initialize;
        owner.write_all(&line).await?;
        if is_open {
            return Ok(());
        }
        answered(owner, &id, output).await?;
        if let Some(line) = initialized {
            owner.write_all(&line).await?;
        }
        // One that the owner refuses now is not set.
        for (nth, line) in settings.iter().enumerate() {
            let Ok(mut request) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            request["id"] = format!("{AGAIN}{nth}").into();
            owner.write_all(format!("{request}\n").as_bytes()).await?;
            answered(owner, &request["id"].to_string(), output).await?;
        }
        output.flush().await
    }
}

/// Waits for the response to a request of this id, and passes on what comes before.
async fn answered(
    owner: &mut BufReader<UnixStream>,
    id: &str,
    output: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if owner.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Ok(Message::Response(response)) = Message::parse(line.trim_ascii())
            && response.id.is_some_and(|of| of.as_json() == id)
        {
            return Ok(());
        }
        output.write_all(&line).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn failed(session: &Session) -> String {
        let mut output = Vec::new();
        session.fail_open(&mut output).await.unwrap();
        String::from_utf8(output).unwrap()
    }

    #[tokio::test]
    async fn requests_without_an_answer_are_answered_once_and_initialize_is_kept() {
        let session = Session::default();
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
            "no message",
        ] {
            session.sends(line.as_bytes());
        }
        session.receives(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        let answered = failed(&session).await;
        assert!(
            answered.contains(r#""id":"1""#) && answered.lines().count() == 1,
            "{answered}"
        );
        assert_eq!(failed(&session).await, "");
        assert!(session.state.lock().open.contains("1"));
    }

    /// The new owner answers each request, and sends a message of its own before; what has been undone is not set again.
    #[tokio::test]
    async fn the_session_is_set_as_before_at_another_owner() {
        let session = Session::default();
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:1"}}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a:2"}}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":"resources/unsubscribe","params":{"uri":"a:1"}}"#,
        ] {
            session.sends(format!("{line}\n").as_bytes());
        }
        session.state.lock().open.clear();
        let (near, far) = UnixStream::pair().unwrap();
        let owner = async {
            let (read, mut write) = far.into_split();
            let (mut read, mut seen) = (BufReader::new(read).lines(), Vec::new());
            while let Some(line) = read.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"].is_null() {
                    continue;
                }
                let answer = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": {}});
                let method = &message["method"];
                let before = serde_json::json!({"jsonrpc": "2.0", "method": "x", "params": {"before": method}});
                write
                    .write_all(format!("{before}\n{answer}\n").as_bytes())
                    .await
                    .unwrap();
                seen.push((message["method"].clone(), message["params"].to_string()));
            }
            seen
        };
        let again = async {
            let mut near = BufReader::new(near);
            let mut output = Vec::new();
            session.begin_again(&mut near, &mut output).await.unwrap();
            String::from_utf8(output).unwrap()
        };
        let (seen, passed_on) = tokio::join!(owner, again);
        let passed_on: Vec<&str> = passed_on.lines().collect();
        assert!(
            passed_on.len() == 3 && passed_on.iter().all(|line| line.contains("before")),
            "{passed_on:?}"
        );
        let seen: Vec<String> = seen
            .into_iter()
            .map(|(method, params)| format!("{method} {params}"))
            .collect();
        assert_eq!(
            seen,
            [
                r#""initialize" {}"#,
                r#""logging/setLevel" {"level":"debug"}"#,
                r#""resources/subscribe" {"uri":"a:2"}"#
            ]
        );
    }
}
