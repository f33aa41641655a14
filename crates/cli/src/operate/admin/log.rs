//! `longhaul admin log`.

use super::{
    api::{Answer, Api, task_path},
    found,
};
use crate::{
    args::AdminLog,
    exit::{failure::Failure, result::Exit},
    output::{self, json_text::one_line},
};
use longhaul_admin_api::{LogPart, TaskDetails};
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use std::time::Duration;

/// Bytes of a log in one request.
const PART: u64 = 1 << 20;
/// Between two looks at a log that is followed.
const ROUND: Duration = Duration::from_secs(1);

/// Prints the log, and with `--follow` also what is added to it, until the task ends.
pub(super) async fn run(asked: &AdminLog) -> Result<Exit, Failure> {
    let of = &asked.one.of;
    let (api, id) = found(of, &asked.one.id).await?;
    let log = Log {
        api,
        path: task_path(&id)?,
        attempt: asked.attempt,
        follows: asked.follow,
        json: of.json,
    };
    match asked.follow {
        true => log.follow().await,
        false => {
            log.print_from(&mut 0).await?;
            Ok(Exit::Answered)
        }
    }
}

struct Log {
    api: Api,
    /// The address of its task.
    path: String,
    attempt: Option<u32>,
    follows: bool,
    json: bool,
}

impl Log {
    async fn follow(&self) -> Result<Exit, Failure> {
        let (mut offset, mut is_retrying) = (0, false);
        loop {
            match self.print_on(&mut offset).await {
                Ok(Some(state)) => {
                    output::note(&format!("the task has {state}"));
                    return Ok(Exit::Answered);
                }
                Ok(None) if !output::is_written() => return Ok(Exit::Answered),
                Ok(None) => is_retrying = false,
                // The server was there: it may be started again.
                Err(failure) if ["unreachable", "store"].contains(&failure.kind()) => {
                    if !is_retrying {
                        output::note(&format!("{failure}; trying again"));
                    }
                    is_retrying = true;
                }
                Err(failure) => return Err(failure),
            }
            SystemClock.sleep(ROUND).await;
        }
    }

    /// Prints what was added, and returns how the task has ended, if it has.
    async fn print_on(&self, offset: &mut u64) -> Result<Option<String>, Failure> {
        // In this order: when it has ended, nothing is added to its log.
        let task: TaskDetails = self.api.get(&self.path).await?.read;
        let ended = task.task.ended_at.is_some();
        match self.print_from(offset).await {
            Ok(()) => {}
            // One that has not begun has no log yet.
            Err(failure) if failure.kind() == "not_found" && !ended => {}
            Err(failure) => return Err(failure),
        }
        let state = match &*task.task.state {
            "cancelled" => "been cancelled",
            state => state,
        };
        Ok(ended.then(|| state.to_owned()))
    }

    /// Prints the log from there to its end.
    async fn print_from(&self, offset: &mut u64) -> Result<(), Failure> {
        loop {
            let attempt = self
                .attempt
                .map(|attempt| format!("&attempt={attempt}"))
                .unwrap_or_default();
            let path = format!("{}/log?offset={offset}&limit={PART}{attempt}", self.path);
            let part: Answer<LogPart> = self.api.get(&path).await?;
            let LogPart { next, total, .. } = part.read;
            if total < *offset {
                // That of another attempt, which begins anew.
                *offset = 0;
                continue;
            }
            if !self.follows || next > *offset {
                match self.json {
                    true => output::json_line(&one_line(part.json.as_json().as_str())),
                    false => output::part(&part.read.text),
                }
            }
            if next <= *offset || next >= total || output::has_failed() {
                *offset = next.max(*offset);
                return Ok(());
            }
            *offset = next;
        }
    }
}
