//! A release that outlives its process: it builds, asks whether to ship, waits for the release window, tests the build in a child task,
//! and publishes under an idempotency key.
//!
//! `release [--listen ADDR | --stdio] [--data-dir DIR]`. It works in the folder that `RELEASE_FOLDER` names, or in `release-work`: it
//! bundles what is in `src` there (a sample, if there is none) into `builds`, and publishes to `published`. Kill it wherever you like.

mod program;

use longhaul::{
    Json, NonRetryable, Server, StepError, TaskContext, Tool, ToolOutput, ToolResult,
    schemars::JsonSchema,
    time::{Timestamp, days},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::serve(server()).await
}

/// The server, working where `RELEASE_FOLDER` says.
pub fn server() -> Server {
    let folder = std::env::var_os("RELEASE_FOLDER");
    server_in(folder.map_or_else(|| "release-work".into(), PathBuf::from))
}

/// The server, working in this folder.
pub fn server_in(folder: impl Into<PathBuf>) -> Server {
    let workspace = Arc::new(Workspace { folder: folder.into() });
    let for_tests = Arc::clone(&workspace);
    let release = move |cx: TaskContext, args: Release| release(cx, args, Arc::clone(&workspace));
    let smoke_tests = move |cx: TaskContext, args: SmokeTests| smoke_tests(cx, args, Arc::clone(&for_tests));
    Server::new("release", env!("CARGO_PKG_VERSION"))
        .tool(Tool::durable("release", release))
        .tool(Tool::durable("smoke_tests", smoke_tests))
}

/// Builds a revision, asks whether to ship it, waits for the window, tests and publishes it.
#[derive(Deserialize, JsonSchema)]
struct Release {
    /// What to call it, as `1.4.0`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    rev: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether to ship it.
    approved: bool,
    /// When to publish; a time that has passed means at once.
    window: Timestamp,
}

async fn release(cx: TaskContext, args: Release, workspace: Arc<Workspace>) -> ToolResult {
    let build = cx.step("build", async || workspace.build(&args.rev)).await?;
    cx.status(format!("built {} of {} files", build.id, build.files))
        .await?;

    let ship: Approval = cx.elicit(format!("Ship {}?", build.id)).within(days(3)).await?;
    if !ship.approved {
        return Ok(ToolOutput::text("declined"));
    }
    cx.sleep_until(ship.window).await?;

    let smoke = cx.call("smoke_tests", json!({"build": build.id})).await?;

    let key = cx.idempotency_key("publish");
    let publish = async || workspace.publish(&args.rev, &build, &key);
    let artefact = cx
        .step("publish", publish)
        .max_attempts(5)
        .idempotency_key(&*key)
        .await?;
    ToolOutput::json(&json!({"artefact": artefact, "smoke": smoke}))
}

/// Tests a build.
#[derive(Deserialize, JsonSchema)]
struct SmokeTests {
    /// Its id.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    build: String,
}

#[derive(Serialize, JsonSchema)]
struct Report {
    /// How many files were looked at.
    files: usize,
    /// How many lines they have in all.
    lines: usize,
}

async fn smoke_tests(cx: TaskContext, args: SmokeTests, workspace: Arc<Workspace>) -> ToolResult<Json<Report>> {
    let names = cx.step("unpack", async || workspace.unpack(&args.build)).await?;
    let mut lines = 0;
    for (nth, name) in names.iter().enumerate() {
        lines += cx.step("test", async || workspace.test(&args.build, name)).await?;
        cx.progress(nth + 1, names.len()).await?;
    }
    Ok(Json(Report {
        files: names.len(),
        lines,
    }))
}

/// The result of a build, as the journal records it.
#[derive(Serialize, Deserialize)]
struct Build {
    id: String,
    files: usize,
}

/// The folder that holds the sources, the builds and what was published.
struct Workspace {
    folder: PathBuf,
}

/// The work of the steps. Each may run a second time, if the process dies before its result is recorded.
impl Workspace {
    /// Copies the sources into a folder named by a hash of their content, so that a second run makes the same folder.
    fn build(&self, rev: &str) -> io::Result<Build> {
        let sources = self.sources()?;
        let mut hash = DefaultHasher::new();
        sources.hash(&mut hash);
        let id = format!("{rev}-{:016x}", hash.finish());
        let build = self.builds().join(&id);
        fs::create_dir_all(&build)?;
        for (name, text) in &sources {
            fs::write(build.join(name), text)?;
        }
        let files = sources.len();
        Ok(Build { id, files })
    }

    /// Name and content of each file, sorted by name, because the order of a directory is not fixed.
    fn sources(&self) -> io::Result<Vec<(String, String)>> {
        let folder = self.folder.join("src");
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("greeting.txt"), "Hello!\n")?;
            fs::write(folder.join("verse.txt"), "Long is the haul,\nand sure the arrival.\n")?;
        }
        names(&folder)?
            .into_iter()
            .map(|name| Ok((name.clone(), fs::read_to_string(folder.join(name))?)))
            .collect()
    }

    /// The names of a build's files.
    fn unpack(&self, build: &str) -> Result<Vec<String>, StepError> {
        match names(&self.builds().join(build)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(NonRetryable(format!("there is no build {build:?}")).into())
            }
            names => Ok(names?),
        }
    }

    /// Tests a file of a build: it must not be empty. Returns how many lines it has.
    fn test(&self, build: &str, name: &str) -> Result<usize, StepError> {
        let text = fs::read_to_string(self.builds().join(build).join(name))?;
        match text.lines().count() {
            0 => Err(NonRetryable(format!("{name} is empty")).into()),
            lines => Ok(lines),
        }
    }

    /// Publishes a build as a revision, once: the published file begins with the key and is never replaced. Calling it again with the same key
    /// changes nothing and returns the same path.
    fn publish(&self, rev: &str, build: &Build, key: &str) -> Result<PathBuf, StepError> {
        let published = self.folder.join("published");
        fs::create_dir_all(&published)?;
        let artefact = published.join(format!("{rev}.txt"));
        let prepared = published.join(format!(".{}", key.replace(':', "-")));
        fs::write(&prepared, self.artefact(build, key)?)?;
        // A hard link is atomic and never replaces an existing file.
        let linked = fs::hard_link(&prepared, &artefact);
        fs::remove_file(&prepared)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match fs::read_to_string(&artefact)?.lines().next() == Some(key) {
                    true => Ok(artefact),
                    false => Err(NonRetryable(format!("{rev} is published already, by another release")).into()),
                }
            }
            linked => Ok(linked.map(|()| artefact)?),
        }
    }

    /// The key, and then all files of a build.
    fn artefact(&self, build: &Build, key: &str) -> io::Result<String> {
        let folder = self.builds().join(&build.id);
        let mut artefact = format!("{key}\n");
        for name in names(&folder)? {
            artefact += &format!("--- {name}\n{}", fs::read_to_string(folder.join(&name))?);
        }
        Ok(artefact)
    }

    fn builds(&self) -> PathBuf {
        self.folder.join("builds")
    }
}

/// The names of a folder's files, in order.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
