//! The commands of the tests: each writes to a journal when it starts and ends, and its last line names its attempt. So what has run is known, whatever the
//! server says.

mod journal;
mod kind;
mod output;
mod worker;

use crate::{
    ledger::{Ledger, LedgerEntry},
    mcp::CallOutcome,
    rounds::violation::{Invariant, Violation},
    server::supervisors::CommandAttempt,
    site::Site,
};
pub use journal::{CommandJournal, CommandRun};
pub use kind::{CommandCall, CommandKind, CommandLoad};
pub use output::OutputCheck;
use serde_json::json;
use std::{collections::BTreeSet, fs, io, path::Path};
pub use worker::{WorkerArgs, run as work};

/// The ledger of calls of commands.
pub type CommandLedger = Ledger<CommandCall>;

/// Where commands write their journal.
pub const JOURNAL: &str = "side/journal";

/// Makes what the commands of a site need: a copy of this program, so that a build during the run does not replace it, and their journal.
pub fn prepare(site: &Site) -> io::Result<CommandJournal> {
    fs::create_dir_all(site.file("side/locks"))?;
    fs::copy("/proc/self/exe", site.file("worker"))?;
    CommandJournal::open(&site.write(JOURNAL, "")?)
}

/// The configuration of a server with these commands. `settings` are further lines of `[server]`.
pub fn configuration(site: &Site, data: &Path, load: CommandLoad, settings: &str) -> String {
    let mut text = format!(
        "[server]\nname = \"commands\"\nlisten = \"127.0.0.1:0\"\ndata_dir = '{}'\nmax_running = {}\n{settings}",
        data.display(),
        load.max_running()
    );
    for kind in CommandKind::ALL {
        text.push_str(&tool(kind, site));
    }
    text
}

fn tool(kind: CommandKind, site: &Site) -> String {
    let name = kind.name();
    let (worker, side) = (site.file("worker"), site.file("side"));
    let (worker, side) = (worker.display().to_string(), side.display().to_string());
    let mut command = vec![
        &*worker, "worker", "--side", &side, name, "{token}", "{millis}", "{bytes}",
    ];
    if kind == CommandKind::Stubborn {
        // An ignored signal stays ignored after exec, and the process stays a child of the supervisor.
        command.splice(0..0, ["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""]);
    }
    let extra = match kind {
        CommandKind::Retried => "retry = { attempts = 20, backoff = \"10ms\", on = [\"crash\"] }\n",
        CommandKind::Printing => "max_output = \"8KiB\"\nmax_log = \"64MiB\"\n",
        CommandKind::Chatty => "max_output = \"8KiB\"\nmax_log = \"256KiB\"\n",
        _ => "",
    };
    format!(
        "\n[[tool]]\nname = \"{name}\"\ndescription = \"{name}\"\ntask = \"optional\"\ncommand = {}\n\
         input = {{ token = {{ type = \"string\" }}, millis = {{ type = \"integer\" }}, bytes = {{ type = \"integer\" }} }}\n{extra}",
        json!(command)
    )
}

/// What a test has done to attempts.
#[derive(Default)]
pub struct Interventions {
    /// Attempts whose supervisor was killed.
    pub killed: BTreeSet<CommandAttempt>,
    /// Attempts that ran when a server was killed, and when the next one served.
    pub survived: BTreeSet<CommandAttempt>,
    /// Attempts whose supervisor was suspended over a restart, before it had started its command.
    pub late: BTreeSet<CommandAttempt>,
}

impl Interventions {
    fn kills(&self, task: &str) -> usize {
        self.killed.range(CommandAttempt::all_of(task)).count()
    }
}

/// Checks every outcome against the journal and the interventions. Counts the results of attempts that a later server has taken over.
pub fn check_outcomes(
    ledger: &CommandLedger,
    journal: &CommandJournal,
    done: &Interventions,
) -> (Vec<Violation>, usize) {
    let mut reattached = 0;
    let mut violations = Vec::new();
    for task in ledger.tasks() {
        let Some(entry) = ledger.entry(&task) else { continue };
        match origin_of(&task, &entry, journal, done.kills(&task) > 0) {
            Ok(attempt) => reattached += usize::from(attempt.is_some_and(|attempt| done.survived.contains(&attempt))),
            Err(violation) => violations.push(violation),
        }
        // It may run again only after a crash of its supervisor, and only if its tool has retries.
        let retries = match entry.call.kind {
            CommandKind::Retried => done.kills(&task),
            _ => 0,
        };
        let runs = journal.runs_of(&task);
        if runs > 1 + retries {
            let what = format!(
                "the command of task {task} was started {runs} times, and may be {} times",
                1 + retries
            );
            violations.push(Invariant::RUN_ONCE.violated(what));
        }
    }
    (violations, reattached)
}

/// The attempt that an outcome is the result of, if it is the result of one.
fn origin_of(
    task: &str,
    entry: &LedgerEntry<CommandCall>,
    journal: &CommandJournal,
    was_killed: bool,
) -> Result<Option<CommandAttempt>, Violation> {
    let CommandCall { kind, token } = &entry.call;
    match &entry.outcome {
        None | Some(CallOutcome::Cancelled) => Ok(None),
        Some(CallOutcome::Result { is_error, text }) if *is_error == (*kind == CommandKind::Failing) => {
            let has_run = |attempt: &CommandAttempt| {
                let run = journal.runs.get(attempt);
                run.is_some_and(|run| run.ended && run.token == *token)
            };
            let attempt = output::origin(task, &entry.call, text).filter(has_run);
            attempt.map(Some).ok_or_else(|| {
                let text: String = text.chars().take(200).collect();
                Invariant::OWN_RESULT.violated(format!("task {task} has the result of something else: {text:?}"))
            })
        }
        // Interrupted because the supervisor was killed, unless the tool has retries.
        Some(CallOutcome::Error { .. }) if *kind != CommandKind::Retried && was_killed => Ok(None),
        Some(outcome) => {
            let what = format!("task {task} ended as {outcome:?} because of a restart");
            Err(Invariant::NOTHING_LOST.violated(what))
        }
    }
}
