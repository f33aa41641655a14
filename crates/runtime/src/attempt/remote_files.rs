//! Files of attempts on other hosts, read by the servers there.

use crate::{
    Artifact, ArtifactChunk, ArtifactList, AttemptExit, LogChunk, LogError, LogRange, PastAttempt, engine::Inner,
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use longhaul_core::{
    HostId, TaskId, UnixMillis,
    store::{LeaseStatus, StoreError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::{sync::Arc, time::Duration};

/// The most of a file in one answer, which the store passes to all nodes.
const MOST_CARRIED: u64 = 256 << 10;
/// How long a server of another host may take to answer.
const LONGEST_ANSWER: Duration = Duration::from_secs(5);

/// What the attempts of a task have left cannot be read. The texts are for the server's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptFilesError {
    /// It is on the disk of another host, whose server does not answer, if it has one.
    #[error("it is on the host {}", .0.0)]
    OnHost(HostId),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The files of an attempt that are asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Files {
    task: String,
    /// The kind of its tool.
    kind: String,
    epoch: u32,
    part: Part,
}

#[derive(Debug, Serialize, Deserialize)]
enum Part {
    Log { offset: Option<u64>, limit: Option<u64> },
    Attempts { after: u32, limit: usize },
    Artifacts,
    Artifact { name: String, offset: u64, limit: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
enum FilesAnswer {
    Log(Option<CarriedLog>),
    Attempts(Vec<CarriedAttempt>),
    Artifacts(Option<ArtifactList>),
    Artifact(Option<CarriedArtifact>),
    /// It could not be read. The text is for the server's own log.
    Failed(String),
}

/// A [`LogChunk`] on its way.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedLog {
    text: String,
    offset: u64,
    next: u64,
    total: u64,
}

/// An [`ArtifactChunk`] on its way.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedArtifact {
    artifact: Artifact,
    offset: u64,
    /// In base64.
    bytes: String,
}

/// A [`PastAttempt`] on its way.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedAttempt {
    epoch: u32,
    began: Option<i64>,
    ended: Option<i64>,
    exit: Option<CarriedExit>,
    /// Earlier releases do not send it.
    #[serde(default)]
    succeeded: Option<bool>,
    #[serde(default)]
    timed_out: bool,
    #[serde(default)]
    last_line: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    pid: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
enum CarriedExit {
    Code(i32),
    Signal(String),
    NotStarted(String),
}

/// Answers other nodes until this one stops.
pub(crate) async fn answer_others(inner: Arc<Inner>) {
    let Some(mut questions) = inner.node.messages.take_questions() else {
        return;
    };
    while let Some(question) = questions.recv().await {
        let answering = Arc::clone(&inner);
        inner.node.spawn(async move {
            let found = find(&answering, &question.text).await;
            let found = found.unwrap_or_else(|LogError(why)| FilesAnswer::Failed(why));
            if let Ok(answer) = to_raw_value(&found) {
                answering.node.messages.answer(&question, answer);
            }
        });
    }
}

async fn find(inner: &Inner, question: &RawValue) -> Result<FilesAnswer, LogError> {
    let unreadable = |_| LogError("this server does not know the question: it has another release".to_owned());
    let Files {
        task,
        kind,
        epoch,
        part,
    } = serde_json::from_str(question.get()).map_err(unreadable)?;
    let task: TaskId = task.parse().map_err(|_| LogError("no task has this id".to_owned()))?;
    let provider = inner.provider(&kind);
    let provider = provider.ok_or_else(|| LogError(format!("this server has no tools of the kind `{kind}`")))?;
    match part {
        Part::Log { offset, limit } => {
            let read = provider.read_log(&task, epoch, LogRange { offset, limit }).await?;
            Ok(FilesAnswer::Log(read.map(Into::into)))
        }
        Part::Attempts { after, limit } => {
            let attempts = provider.attempts(&task, epoch, after, limit).await?;
            Ok(FilesAnswer::Attempts(attempts.into_iter().map(Into::into).collect()))
        }
        Part::Artifacts => Ok(FilesAnswer::Artifacts(provider.artifacts(&task, epoch).await?)),
        Part::Artifact { name, offset, limit } => {
            let read = provider.read_artifact(&task, epoch, &name, offset, limit).await?;
            Ok(FilesAnswer::Artifact(read.map(Into::into)))
        }
    }
}

/// Asks the server of `host`.
async fn ask(inner: &Inner, host: &HostId, files: &Files) -> Result<FilesAnswer, AttemptFilesError> {
    let nodes = inner.node.store.nodes().await?;
    let lives = |lease| matches!(lease, LeaseStatus::Held(left) if left > 0);
    let server = nodes.iter().find(|node| node.host == *host && lives(node.lease));
    let away = || AttemptFilesError::OnHost(host.clone());
    let server = server.ok_or_else(away)?;
    let question = to_raw_value(files).map_err(|error| LogError(error.to_string()))?;
    let answer = inner.node.messages.ask(server.node, question).wait();
    let answer = inner.node.ports.within(LONGEST_ANSWER, answer).await.ok_or_else(away)?;
    match serde_json::from_str(answer.get()) {
        Ok(FilesAnswer::Failed(why)) => Err(LogError(format!("at the server of its host: {why}")).into()),
        Ok(found) => Ok(found),
        Err(_) => Err(other_answer()),
    }
}

impl Files {
    /// Those of the attempt `epoch` of a task.
    pub(crate) fn of(task: &TaskId, kind: &str, epoch: u32) -> Self {
        Self {
            task: task.to_string(),
            kind: kind.to_owned(),
            epoch,
            part: Part::Attempts { after: 0, limit: 0 },
        }
    }

    /// A part of the attempt's log, on another host.
    pub(crate) async fn read_log(
        mut self,
        inner: &Inner,
        host: &HostId,
        range: LogRange,
    ) -> Result<Option<LogChunk>, AttemptFilesError> {
        let LogRange { offset, limit } = range;
        self.part = Part::Log { offset, limit };
        match ask(inner, host, &self).await? {
            FilesAnswer::Log(read) => Ok(read.map(Into::into)),
            _ => Err(other_answer()),
        }
    }

    /// What is known of the attempts up to this one, on another host.
    pub(crate) async fn attempts(
        mut self,
        inner: &Inner,
        host: &HostId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<PastAttempt>, AttemptFilesError> {
        self.part = Part::Attempts { after, limit };
        match ask(inner, host, &self).await? {
            FilesAnswer::Attempts(attempts) => Ok(attempts.into_iter().map(Into::into).collect()),
            _ => Err(other_answer()),
        }
    }
}

impl Files {
    /// What the attempt has left, on another host.
    pub(crate) async fn artifacts(
        mut self,
        inner: &Inner,
        host: &HostId,
    ) -> Result<Option<ArtifactList>, AttemptFilesError> {
        self.part = Part::Artifacts;
        match ask(inner, host, &self).await? {
            FilesAnswer::Artifacts(list) => Ok(list),
            _ => Err(other_answer()),
        }
    }

    /// A part of a file that the attempt has left, on another host.
    pub(crate) async fn read_artifact(
        mut self,
        inner: &Inner,
        host: &HostId,
        name: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Option<ArtifactChunk>, AttemptFilesError> {
        let (name, limit) = (name.to_owned(), limit.min(MOST_CARRIED));
        self.part = Part::Artifact { name, offset, limit };
        match ask(inner, host, &self).await? {
            FilesAnswer::Artifact(None) => Ok(None),
            FilesAnswer::Artifact(Some(carried)) => Ok(Some(carried.try_into()?)),
            _ => Err(other_answer()),
        }
    }
}

fn other_answer() -> AttemptFilesError {
    StoreError::Failed("another server has answered something else".to_owned()).into()
}

impl From<LogChunk> for CarriedLog {
    fn from(chunk: LogChunk) -> Self {
        let LogChunk {
            text,
            offset,
            next,
            total,
        } = chunk;
        Self {
            text,
            offset,
            next,
            total,
        }
    }
}

impl From<CarriedLog> for LogChunk {
    fn from(carried: CarriedLog) -> Self {
        let CarriedLog {
            text,
            offset,
            next,
            total,
        } = carried;
        Self {
            text,
            offset,
            next,
            total,
        }
    }
}

impl From<ArtifactChunk> for CarriedArtifact {
    fn from(chunk: ArtifactChunk) -> Self {
        Self {
            artifact: chunk.artifact,
            offset: chunk.offset,
            bytes: BASE64_STANDARD.encode(chunk.bytes),
        }
    }
}

impl TryFrom<CarriedArtifact> for ArtifactChunk {
    type Error = AttemptFilesError;

    fn try_from(carried: CarriedArtifact) -> Result<Self, AttemptFilesError> {
        Ok(Self {
            artifact: carried.artifact,
            offset: carried.offset,
            bytes: BASE64_STANDARD.decode(carried.bytes).map_err(|_| other_answer())?,
        })
    }
}

impl From<PastAttempt> for CarriedAttempt {
    fn from(attempt: PastAttempt) -> Self {
        Self {
            epoch: attempt.epoch,
            began: attempt.began.map(|at| at.0),
            ended: attempt.ended.map(|at| at.0),
            exit: attempt.exit.map(|exit| match exit {
                AttemptExit::Code(code) => CarriedExit::Code(code),
                AttemptExit::Signal(name) => CarriedExit::Signal(name),
                AttemptExit::NotStarted(why) => CarriedExit::NotStarted(why),
            }),
            succeeded: Some(attempt.succeeded),
            timed_out: attempt.timed_out,
            last_line: attempt.last_line,
            command: attempt.command,
            pid: attempt.pid,
        }
    }
}

impl From<CarriedAttempt> for PastAttempt {
    fn from(carried: CarriedAttempt) -> Self {
        Self {
            epoch: carried.epoch,
            began: carried.began.map(UnixMillis),
            ended: carried.ended.map(UnixMillis),
            succeeded: carried
                .succeeded
                .unwrap_or(matches!(carried.exit, Some(CarriedExit::Code(0)))),
            timed_out: carried.timed_out,
            exit: carried.exit.map(|exit| match exit {
                CarriedExit::Code(code) => AttemptExit::Code(code),
                CarriedExit::Signal(name) => AttemptExit::Signal(name),
                CarriedExit::NotStarted(why) => AttemptExit::NotStarted(why),
            }),
            last_line: carried.last_line,
            command: carried.command,
            pid: carried.pid,
        }
    }
}
