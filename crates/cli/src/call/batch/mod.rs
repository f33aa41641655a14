//! `longhaul call --batch`: the calls of a file, several at once.

mod bars;
mod file;
mod line;
mod open_questions;
mod tally;

use crate::{
    args,
    call::{listings, record},
    exit::{failure::Failure, interrupt::Interrupt, result::Exit},
    output,
    servers::{self, Server, notice::with_notice},
};
use bars::Bars;
use file::BatchFile;
use futures_util::{StreamExt, stream};
use longhaul_client::{Client, RecordedCall, RequestError};
use longhaul_core::approximate_duration;
use longhaul_ledger::BatchRun;
use open_questions::OpenQuestions;
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tally::{ASKING, Tally};

/// The lines that a message names.
const MOST_SHOWN: usize = 10;

/// Checks every line of the file, and then makes the calls. Results are printed in the order in which the calls end.
pub(crate) async fn run(call: &args::Call, file: &Path) -> Result<Exit, Failure> {
    let (server, words) = servers::choose(&call.server, &call.words)?;
    let tool = match words {
        [] => None,
        [tool] => Some(tool.as_str()),
        [_, more, ..] => {
            return Err(Failure::usage(format!(
                "with --batch all arguments are in the file; `{more}` is one too many"
            )));
        }
    };
    let journal = record::for_calls(call.unrecorded).await?;
    // A question leaves its task waiting for `longhaul answer`.
    let open = Arc::new(OpenQuestions::default());
    let connection = server.connection(|options| options.inputs = Some(open.clone()))?;
    let listed = async {
        let (tools, unread) = connection.list_readable_tools().await;
        if let Some(error) = unread {
            if tools.is_empty() {
                return Err(error);
            }
            output::note(&format!("{}: {error}", listings::MORE_TOOLS));
        }
        Ok((tools, connection.server().await?.takes_idempotency_keys()))
    };
    let listed = with_notice(connection.address(), listed).await;
    let client = record::client(&server, connection.clone(), journal.clone());
    let (tools, takes_keys) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            let keyed = record::by_key(&server, &client).await;
            let may_have_run = record::may_have_run_before(&keyed, tool, None);
            return Err(Failure::from(error).with_run(may_have_run));
        }
    };
    let mut lines = BatchFile::open(file, &tools, &server, tool, takes_keys)?;
    let total = lines.check()?;
    let path = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let is_new = call.repeat == Some(args::Repeat::All);
    let run = match &journal {
        Some(journal) => journal.begin_batch(&client, &path.to_string_lossy(), is_new).await,
        None => Ok(None),
    };
    let run = run.map_err(record::not_recorded)?;
    if let Some(begun_at) = run.as_ref().and_then(BatchRun::continues) {
        let twice = match call.repeat {
            Some(args::Repeat::Unknown) => "only calls of unknown outcome are made twice",
            _ => "no call of it is made twice",
        };
        output::note(&format!(
            "this continues the run of {} that began {} ago: {twice} (for a new run with all calls: --repeat all)",
            file.display(),
            approximate_duration(record::age(begun_at))
        ));
    }
    // Equal lines of one run are different calls, so only calls from before the run are repeated.
    let begun_at = run.as_ref().and_then(BatchRun::continues);
    let mut earlier = client.calls().await.unwrap_or_default();
    earlier.retain(|call| begun_at.is_none_or(|begun_at| call.begun_at < begun_at));
    let batch = Batch {
        server: &server,
        run,
        repeat: call.repeat,
        takes_keys,
        unclear: Mutex::default(),
        earlier,
        by_key: record::by_key(&server, &client).await,
        answered_again: AtomicUsize::new(0),
        repeated: AtomicUsize::new(0),
        client,
        open,
        bars: Bars::new(total),
        is_stopped: AtomicBool::new(false),
    };
    let (exit, is_over) = batch.call_all(lines, total, call.concurrency.into()).await;
    if let (Some(run), true) = (batch.run, is_over)
        && let Err(error) = run.finish().await
    {
        record::warn(&error);
    }
    batch.client.close().await;
    Ok(match output::is_written() {
        true => exit,
        false => Exit::NotWritten,
    })
}

/// A run over the lines of a file.
struct Batch<'a> {
    server: &'a Server,
    client: Client,
    /// The run that this is, or continues, if it is recorded.
    run: Option<BatchRun>,
    repeat: Option<args::Repeat>,
    takes_keys: bool,
    /// The lines whose calls may have run, and for which there is no answer.
    unclear: Mutex<BTreeSet<usize>>,
    /// What is asked before there is a task, and what legacy servers ask.
    open: Arc<OpenQuestions>,
    bars: Bars,
    /// The calls that were unfinished before the run began.
    earlier: Vec<RecordedCall>,
    /// The lines that repeat one of them.
    repeated: AtomicUsize,
    /// The calls that were made before, by their idempotency keys.
    by_key: HashMap<String, Vec<RecordedCall>>,
    /// The lines that have got the answer of one of them, under a key of their own.
    answered_again: AtomicUsize,
    /// Whether the server cannot be reached, so nothing more is sent. One that is busy is waited for.
    is_stopped: AtomicBool,
}

/// The lines with these numbers, as far as a message names them.
fn named_lines<'a>(lines: impl ExactSizeIterator<Item = &'a usize>) -> String {
    let more = match lines.len().saturating_sub(MOST_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown: Vec<String> = lines.take(MOST_SHOWN).map(usize::to_string).collect();
    format!("line {}{more}", shown.join(", "))
}

impl Batch<'_> {
    /// Returns also whether all calls of the file have an outcome.
    async fn call_all(&self, lines: BatchFile<'_>, total: usize, concurrency: usize) -> (Exit, bool) {
        let mut interrupt = Interrupt::new();
        let mut tally = Tally::default();
        let has_own_keys = lines.has_own_keys();
        let lines = lines.take_while(|_| !self.is_stopped.load(Ordering::Relaxed));
        let mut calls = stream::iter(lines)
            .map(|(line, tool)| {
                let place = self.place(&line, tool);
                self.call(line, tool, place)
            })
            .buffer_unordered(concurrency);
        let interrupted = loop {
            tokio::select! {
                biased;
                exit = interrupt.pressed() => break Some(exit),
                ended = calls.next() => match ended {
                    Some(ended) => {
                        tally.add(&ended);
                        self.bars.ended(ended.line, ended.name, tally.ended, total, &tally.others());
                    }
                    None => break None,
                },
            }
        };
        drop(calls);
        self.bars.finish();
        output::note(&tally.summary(total));
        if let repeated @ 2.. = self.repeated.load(Ordering::Relaxed) {
            output::note(&format!("{repeated} lines repeat calls whose end was not seen"));
        }
        if let repeated @ 1.. = self.answered_again.load(Ordering::Relaxed) {
            output::note(&format!(
                "{repeated} of them have the idempotency keys of earlier calls, whose answers the server gives again while it knows the keys (\"repeated\": true)"
            ));
        }
        if interrupted.is_some() || tally.has(ASKING) {
            let goes_on = match self.server.ends_its_tasks() {
                true => "the server is stopped with this command; its tasks go on if it keeps them",
                false => "the tasks keep running",
            };
            let list = self.server.command_line("tasks", &[]);
            output::note(&format!("{goes_on}; to see them:\n  {list}"));
        }
        if !tally.unanswered.is_empty() {
            output::note(&format!(
                "unanswered: {}. Nobody is asked in a batch; make the call of such a line on a terminal, without --batch, to answer it",
                named_lines(tally.unanswered.iter())
            ));
        }
        let is_over = tally.is_over(total) && output::is_written();
        match (is_over, &self.run) {
            (false, Some(_)) => self.tell_how_to_continue(),
            (true, Some(_)) if tally.exit() != Exit::Answered => {
                let but = match has_own_keys {
                    true => {
                        ", except that under its own idempotency key a call gets its earlier answer while the server knows the key"
                    }
                    false => "",
                };
                output::note(&format!(
                    "each call has an outcome, so this run is over: the same command makes all calls again{but}"
                ));
            }
            _ => {}
        }
        (interrupted.unwrap_or_else(|| tally.exit()), is_over)
    }

    /// What to do about calls without an outcome.
    fn tell_how_to_continue(&self) {
        let without = match self.repeat {
            None => "",
            Some(_) => " without --repeat",
        };
        output::note(&format!(
            "the same command{without} continues this run: it makes the calls that were not made, and no call twice"
        ));
        let unclear = self.unclear.lock();
        if unclear.is_empty() {
            return;
        }
        output::note(&format!(
            "may have run, and not made again by itself: {}. Look at the server whether the work was done; --repeat unknown makes these calls again",
            named_lines(unclear.iter())
        ));
    }

    /// Sends nothing more if the server is not there. One that answers, with whatever error, may take the next line.
    fn stop_if_gone(&self, error: &RequestError) {
        let is_gone = matches!(
            error,
            RequestError::Unreachable { .. }
                | RequestError::NotStarted { .. }
                | RequestError::Certificate { .. }
                | RequestError::Setup(_)
                | RequestError::HandshakeFailed(_)
                | RequestError::UnsupportedRevisions { .. }
        );
        if is_gone {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
    }
}
