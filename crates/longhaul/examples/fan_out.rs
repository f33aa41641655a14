//! Work that fans out: a task for each file of a folder counts its words, three at a time. If a file cannot be counted, the user is asked
//! whether to leave it out; no answer within a minute means yes.
//!
//! `fan_out [--listen ADDR | --stdio] [--data-dir DIR]`.

mod program;

use longhaul::{
    CallError, Capability, Error, Json, Server, TaskContext, Tool, ToolResult, schemars::JsonSchema, time::minutes,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs, io,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::serve(server()).await
}

/// The server.
pub fn server() -> Server {
    Server::new("fan_out", env!("CARGO_PKG_VERSION"))
        .tool(Tool::durable("survey", survey))
        .tool(Tool::durable("count_words", count_words).read_only())
}

/// Counts the words of all files of a folder.
#[derive(Deserialize, JsonSchema)]
struct Survey {
    /// Where the files are.
    folder: PathBuf,
}

#[derive(Serialize, JsonSchema)]
struct SurveyResult {
    /// How many words there are in all.
    words: usize,
    /// Which files were not counted.
    left_out: Vec<PathBuf>,
}

#[derive(Deserialize, JsonSchema)]
struct Consent {
    /// Whether to go on without them.
    leave_out: bool,
}

async fn survey(cx: TaskContext, args: Survey) -> ToolResult<Json<SurveyResult>> {
    // In a step, because the folder may hold other files when the function is replayed.
    let files = cx.step("list", async || list(&args.folder)).await?;

    let counted = AtomicUsize::new(0);
    let branches = files.iter().map(|file| {
        let (counted, all) = (&counted, files.len());
        // Each branch must use its own context: the journal tells the branches apart by it.
        move |cx: TaskContext| async move {
            let words = count(&cx, file).await?;
            cx.progress(counted.fetch_add(1, Ordering::Relaxed) + 1, all);
            Ok::<_, Error>(words)
        }
    });
    let counts = cx.join(branches).limit(3).all().await?;

    let missing = files.iter().zip(&counts).filter(|(_, words)| words.is_none());
    let left_out: Vec<_> = missing.map(|(file, _)| file.clone()).collect();
    if !left_out.is_empty() && !leave_out(&cx, left_out.len()).await? {
        return Err(Error::new("not all files could be counted"));
    }
    let words = counts.into_iter().flatten().sum();
    Ok(Json(SurveyResult { words, left_out }))
}

/// How many words a file has, counted by a task of its own; `None` if that failed.
async fn count(cx: &TaskContext, file: &PathBuf) -> ToolResult<Option<usize>> {
    match cx.call("count_words", json!({"file": file})).await {
        Ok(counted) => {
            let words = counted.json::<WordCount>()?.words;
            cx.emit(format!("{} has {words} words", file.display())).await?;
            Ok(Some(words))
        }
        // Other errors say nothing about the file: for example, that the task is to stop.
        Err(CallError::Failed { why, .. }) => {
            cx.emit(format!("{} cannot be counted: {why}", file.display())).await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits a minute for the answer. Then the question is withdrawn, and the files are left out.
async fn leave_out(cx: &TaskContext, files: usize) -> ToolResult<bool> {
    // The client's capabilities are stored with the task, so they are the same in every attempt.
    if !cx.capabilities().has(Capability::ElicitationForm) {
        return Ok(true);
    }
    let question = format!("{files} of the files cannot be counted. Go on without?");
    let answer = async |cx: TaskContext| Ok(cx.elicit::<Consent>(question).await?.leave_out);
    let silence = async |cx: TaskContext| {
        cx.sleep(minutes(1)).await?;
        Ok::<_, Error>(true)
    };
    let (_, leave_out) = cx.select((answer, silence)).await?;
    leave_out
}

/// Counts the words of a file.
#[derive(Deserialize, JsonSchema)]
struct CountWords {
    /// Which one: a text in UTF-8.
    file: PathBuf,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct WordCount {
    words: usize,
}

/// It changes nothing, so it needs no steps: after a crash it runs again.
async fn count_words(args: CountWords) -> ToolResult<Json<WordCount>> {
    let words = fs::read_to_string(args.file)?.split_whitespace().count();
    Ok(Json(WordCount { words }))
}

/// The files of a folder, in the order of their names.
fn list(folder: &PathBuf) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.is_file());
    files.sort();
    Ok(files)
}
