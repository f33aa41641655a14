//! `longhaul admin reset`: shows what is dropped, and asks first.

use super::{
    api::{Api, task_path},
    confirmed,
    show::entry,
    shown,
};
use crate::{
    args::AdminReset,
    exit::{failure::Failure, result::Exit},
    output,
};
use longhaul_admin_api::{ActionReport, EntryView, JournalPart, ResetBody};
use std::io::{self, IsTerminal};

pub(super) async fn run(args: &AdminReset) -> Result<Exit, Failure> {
    let api = Api::of(&args.one.of)?;
    let id = api.whole_id(&args.one.id).await?;
    let path = task_path(&id)?;
    let dropped = dropped(&api, &path, args.before).await?;
    if dropped.is_empty() {
        return Err(Failure::usage(format!(
            "the journal of {id} has no entry {}; see `longhaul admin task`",
            args.before
        )));
    }
    if !args.yes && !agreed(&dropped)? {
        output::note("nothing was changed");
        return Ok(Exit::Cancelled);
    }
    let body = ResetBody { before: args.before };
    let done = api.post_body(&format!("{path}/reset"), &body).await?;
    shown(&args.one.of, &done, |done: &ActionReport| {
        output::note(&format!("{id} is reset to before entry {}. The new task:", args.before));
        // The id alone, for scripts.
        done.task.clone().unwrap_or_default()
    })
}

/// The entries from this one on.
async fn dropped(api: &Api, path: &str, before: u32) -> Result<Vec<EntryView>, Failure> {
    let mut dropped = Vec::new();
    let mut after = before.saturating_sub(1);
    loop {
        let part: JournalPart = api.get(&format!("{path}/journal?after={after}")).await?.read;
        dropped.extend(part.entries);
        match part.next {
            Some(next) => after = next,
            None => return Ok(dropped),
        }
    }
}

fn agreed(dropped: &[EntryView]) -> Result<bool, Failure> {
    let lines: Vec<String> = dropped.iter().map(entry).collect();
    output::note(&format!(
        "These operations run again; what they have done outside stays done:\n  {}",
        lines.join("\n  ")
    ));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage("nothing was changed: --yes resets it without asking"));
    }
    confirmed("Reset the task? A task that waits is cancelled.")
}
