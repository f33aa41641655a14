//! The server with durable tools that `cargo xtask crash --actions` kills while an operator acts on their tasks, and that `cargo xtask page` operates in a browser.
//!
//! `operated --data-dir DIR --word FILE --audit FILE [--admin ADDRESS]`. What `changed` and `crashes` do depends on a file, as if another version of them was deployed.

use longhaul::{
    Server, StepError, TaskContext, Tool, ToolResult,
    admin::AdminSettings,
    audit::{Audit, AuditEvent},
    schemars::JsonSchema,
    time::millis,
};
use serde::Deserialize;
use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::Arc,
};

/// Writes each event as a line.
struct ToFile(File);

impl Audit for ToFile {
    fn record(&self, event: &AuditEvent) {
        // The test misses the line.
        let _ = (&self.0).write_all(format!("{}\n", event.to_json()).as_bytes());
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    sure: bool,
}

/// Asks once.
async fn asks(cx: TaskContext) -> ToolResult<String> {
    let answer: Answer = cx.elicit("Are you sure?").key("sure").await?;
    Ok(format!("sure: {}", answer.sure))
}

/// Two steps.
async fn steps(cx: TaskContext) -> ToolResult<String> {
    let first: u32 = cx.step("first", async || Ok::<_, StepError>(1)).await?;
    let second: u32 = cx.step("second", async || Ok::<_, StepError>(2)).await?;
    Ok(format!("{first} {second}"))
}

/// Does a step that is named as the file says, before a question.
async fn changed(cx: TaskContext, word: Arc<PathBuf>) -> ToolResult<String> {
    let word = fs::read_to_string(&*word)?;
    let step: u32 = cx.step(word.trim(), async || Ok::<_, StepError>(1)).await?;
    let answer: Answer = cx.elicit("Are you sure?").key("sure").await?;
    Ok(format!("{step}, sure: {}", answer.sure))
}

/// Crashes after its first step, unless the file says `mended`.
async fn crashes(cx: TaskContext, word: Arc<PathBuf>) -> ToolResult<String> {
    let first: u32 = cx.step("first", async || Ok::<_, StepError>(1)).await?;
    let word = fs::read_to_string(&*word)?;
    assert_eq!(word.trim(), "mended", "there is no row for it");
    Ok(format!("{first}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut value = |flag: &str| match (arguments.next(), arguments.next()) {
        (Some(given), Some(value)) if given == flag => Ok(PathBuf::from(value)),
        _ => Err("operated --data-dir DIR --word FILE --audit FILE [--admin ADDRESS]"),
    };
    let (data_dir, word, audit) = (value("--data-dir")?, Arc::new(value("--word")?), value("--audit")?);
    let listen = match value("--admin") {
        Ok(address) => Some(address.to_string_lossy().parse()?),
        Err(_) => None,
    };
    let admin = AdminSettings {
        listen,
        ..AdminSettings::default()
    };
    let poison = Arc::clone(&word);
    let audit = OpenOptions::new().create(true).append(true).open(audit)?;
    Server::new("operated", env!("CARGO_PKG_VERSION"))
        .tool(Tool::durable("asks", asks))
        .tool(Tool::durable("steps", steps))
        .tool(Tool::durable("changed", move |cx: TaskContext| {
            changed(cx, Arc::clone(&word))
        }))
        .tool(Tool::durable("crashes", move |cx: TaskContext| {
            crashes(cx, Arc::clone(&poison))
        }))
        .suspend_after(millis(1))
        .audit(Arc::new(ToFile(audit)))
        .admin(admin)
        .data_dir(data_dir)
        .serve_http("127.0.0.1:0")
        .await?;
    Ok(())
}
