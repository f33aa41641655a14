//! The files that a task has left.

use crate::{
    args,
    call::record::NamedTask,
    exit::{failure::Failure, result::Exit},
    output::{self, amounts::count, pace::Pace},
    servers::notice::with_notice,
};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_client::{Artifact, ArtifactChunk, ArtifactList, RequestError, SystemClock, TaskHandle};
use longhaul_core::Clock;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

/// The code with which a server says that it has failed, for example since the files are on a host that is away.
const INTERNAL_ERROR: i32 = -32603;
const STDOUT: &str = "-";

/// Lists the files, or downloads the one of this name.
pub(super) async fn run(
    named: &NamedTask,
    task: &TaskHandle,
    name: Option<&str>,
    args: &args::Task,
) -> Result<Exit, Failure> {
    let list = match with_notice(task.connection().address(), task.artifacts(args.attempt)).await {
        Ok(list) => list,
        Err(error) => return Err(no_artifacts(task, error).await),
    };
    let Some(name) = name else {
        print(task, &list, args.json);
        return Ok(Exit::Answered);
    };
    let artifact = find(&list, name).ok_or_else(|| {
        let command = named.server.task_line("task", task.id(), &["--artifact"]);
        Failure::refused(format!("the task has no file {name:?}. These are there:\n  {command}"))
    })?;
    let target = Target::of(artifact, args.output.as_deref())?;
    download(task, artifact, &target, args).await
}

fn print(task: &TaskHandle, list: &ArtifactList, json: bool) {
    if json {
        let mut line = json!(list);
        line["taskId"] = json!(task.id());
        return output::json_line(&line);
    }
    let width = list
        .artifacts
        .iter()
        .map(|one| one.size.to_string().len())
        .max()
        .unwrap_or(0);
    let line = |one: &Artifact| {
        let name = output::plain(&one.name, "");
        format!("{:>width$}  {}  {name}\n", one.size, one.sha256)
    };
    output::text(&list.artifacts.iter().map(line).collect::<String>());
    if list.artifacts.is_empty() {
        output::note("the task has left no files");
    }
    for note in list.problems.iter().chain(&list.notes) {
        output::note(note);
    }
}

/// Why there are none. Of a task that the server knows, it refuses the files alone.
async fn no_artifacts(task: &TaskHandle, error: RequestError) -> Failure {
    let is_refused = matches!(&error, RequestError::Rpc(failure) if failure.code != INTERNAL_ERROR);
    match is_refused && task.get().await.is_ok() {
        true => Failure::refused(
            "the task has no files: only commands of Longhaul servers leave some, if their tool has `artifacts`, and once they have ended"
                .to_owned(),
        ),
        false => error.into(),
    }
}

/// The file of this name, or the only one with this last part of its name.
fn find<'a>(list: &'a ArtifactList, name: &str) -> Option<&'a Artifact> {
    let mut all = list.artifacts.iter();
    all.find(|one| one.name == name).or_else(|| {
        let mut ending = list.artifacts.iter().filter(|one| last_part(&one.name) == name);
        ending.next().filter(|_| ending.next().is_none())
    })
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Where a file is written to.
enum Target {
    Stdout,
    File(PathBuf),
}

impl Target {
    fn of(artifact: &Artifact, asked: Option<&Path>) -> Result<Self, Failure> {
        // The name comes from the server: only its last part counts, and nothing in it that a terminal or a shell takes for more.
        let file_name = output::plain(last_part(&artifact.name), "").replace('\0', " ");
        let is_name = !matches!(&*file_name, "" | "." | "..");
        match asked {
            Some(path) if path == Path::new(STDOUT) => Ok(Self::Stdout),
            Some(folder) if folder.is_dir() && is_name => Ok(Self::File(folder.join(file_name))),
            Some(path) => Ok(Self::File(path.to_owned())),
            None if !is_name => Err(Failure::usage("say with -o what to call the file")),
            None if Path::new(&*file_name).exists() => Err(Failure::usage(format!(
                "{file_name} is there already: say with -o what to call the file, or -o {file_name} to replace it"
            ))),
            None => Ok(Self::File(file_name.into())),
        }
    }
}

async fn download(task: &TaskHandle, artifact: &Artifact, target: &Target, args: &args::Task) -> Result<Exit, Failure> {
    let Target::File(path) = target else {
        let mut part = Part::default();
        fetch(task, artifact, args.attempt, &mut part, |bytes| {
            output::bytes(bytes);
            Ok(())
        })
        .await?;
        return match part.is(artifact) {
            true => Ok(Exit::Answered),
            false => Err(damaged(artifact)),
        };
    };
    let partial = with_suffix(path, ".partial");
    let failed = |error: io::Error| Failure::refused(format!("{} cannot be written: {error}", partial.display()));
    loop {
        let (mut file, mut part) = Part::open(&partial, artifact).map_err(failed)?;
        let was_resumed = part.size > 0;
        if was_resumed {
            output::note(&format!("{} of {} bytes are there already", part.size, artifact.size));
        }
        fetch(task, artifact, args.attempt, &mut part, |bytes| {
            file.write_all(bytes).map_err(failed)
        })
        .await?;
        file.sync_all().map_err(failed)?;
        if part.is(artifact) {
            break;
        }
        std::fs::remove_file(&partial).map_err(failed)?;
        if !was_resumed {
            return Err(damaged(artifact));
        }
        output::note("what was there is not the beginning of this file; downloading all of it");
    }
    std::fs::rename(&partial, path).map_err(failed)?;
    let (shown, size) = (path.display().to_string(), artifact.size);
    if args.json {
        let line: Value = json!({"taskId": task.id(), "artifact": artifact.name, "file": shown, "size": size, "sha256": artifact.sha256});
        output::json_line(&line);
    } else {
        output::note(&format!(
            "{shown}: {}, SHA-256 {}",
            count(size, "byte"),
            artifact.sha256
        ));
    }
    Ok(Exit::Answered)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn damaged(artifact: &Artifact) -> Failure {
    Failure::refused(format!(
        "what the server has sent of {} has not the SHA-256 {} of the file",
        output::plain(&artifact.name, ""),
        artifact.sha256
    ))
}

/// What was read of a file so far.
#[derive(Default)]
struct Part {
    size: u64,
    digest: Sha256,
}

impl Part {
    /// Opens a file that an earlier download may have begun.
    fn open(path: &Path, artifact: &Artifact) -> io::Result<(File, Self)> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() > artifact.size {
            file.set_len(0)?;
        }
        let mut part = Self::default();
        let mut chunk = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                return Ok((file, part));
            }
            part.add(&chunk[..read]);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.digest.update(bytes);
    }

    fn is(&self, artifact: &Artifact) -> bool {
        let digest = self.digest.clone().finalize();
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.size == artifact.size && digits == artifact.sha256
    }
}

/// Reads the file on from what is there. A server that is away is asked again.
async fn fetch(
    task: &TaskHandle,
    artifact: &Artifact,
    attempt: Option<u32>,
    part: &mut Part,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bar = bar(artifact.size);
    let (mut pace, mut is_retrying) = (Pace::default(), false);
    while part.size < artifact.size && output::is_written() {
        bar.as_ref().inspect(|bar| bar.set_position(part.size));
        let read = task.read_artifact(&artifact.name, attempt, part.size);
        match with_notice(task.connection().address(), read).await {
            Ok(chunk) => {
                check(&chunk, artifact, part)?;
                write(&chunk.bytes)?;
                part.add(&chunk.bytes);
                (pace, is_retrying) = (Pace::default(), false);
            }
            Err(error) if error.is_transient() => {
                if !is_retrying {
                    output::note(&format!("{error}; retrying"));
                }
                is_retrying = true;
                SystemClock.sleep(pace.after(Err(&error))).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    bar.inspect(ProgressBar::finish_and_clear);
    Ok(())
}

/// Checks that a chunk continues the download and belongs to the same file.
fn check(chunk: &ArtifactChunk, artifact: &Artifact, part: &Part) -> Result<(), Failure> {
    let goes_on = chunk.next == part.size + chunk.bytes.len() as u64 && !chunk.bytes.is_empty();
    let is_same = chunk.sha256 == artifact.sha256 && chunk.total == artifact.size;
    match goes_on && is_same {
        true => Ok(()),
        false => Err(Failure::refused(
            "the file has changed on the server meanwhile: another attempt has begun. Run the command again".to_owned(),
        )),
    }
}

fn bar(size: u64) -> Option<ProgressBar> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    Some(ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
}
