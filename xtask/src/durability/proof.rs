//! From system calls to a verdict.
//!
//! A task's row carries its id in clear, so the write-ahead log shows in which transaction it was written. An acknowledgement is
//! in order if, between that transaction's last frame and the acknowledgement's first byte, the log was synced: begun after the
//! one, ended before the other.

use super::{Acknowledged, trace::Call};
use std::collections::{HashMap, HashSet};

/// A frame of the log begins with a header of this many bytes, written apart from the page.
const FRAME_HEADER: usize = 24;
/// Bytes 4 to 8 of it: zero unless the frame is the last of its transaction.
const COMMIT_FIELD: std::ops::Range<usize> = 4..8;

/// What a trace shows.
pub(super) struct Proof {
    /// Acknowledgements looked at.
    pub(super) all: usize,
    /// Those that left too early, or of which the trace shows no trace.
    pub(super) early: Vec<String>,
    /// Syncs of the log.
    pub(super) syncs: usize,
}

/// Judges every acknowledgement.
pub(super) fn judge(calls: &[Call], acknowledged: &Acknowledged) -> Proof {
    let log = Log::of(calls, &acknowledged.created);
    let created = acknowledged
        .created
        .iter()
        .filter(|task| !is_covered(&log, task, 0, answer_to_create(calls, task)));
    let cancelled = acknowledged.cancelled.iter().filter(|task| {
        let asked = request_to_cancel(calls, task);
        let answered = asked.and_then(|asked| next_answer(calls, asked));
        !asked.is_some_and(|asked| is_covered(&log, task, asked.end, answered))
    });
    let early = created.map(|task| format!("the creation of {task}"));
    let early = early
        .chain(cancelled.map(|task| format!("the cancellation of {task}")))
        .collect();
    Proof {
        all: acknowledged.created.len() + acknowledged.cancelled.len(),
        early,
        syncs: log.syncs.len(),
    }
}

/// Whether what was written about the task since `since` was on disk before `answer` began.
fn is_covered(log: &Log, task: &str, since: usize, answer: Option<&Call>) -> bool {
    let written = log.written(task, since);
    let synced = written
        .and_then(|frame| log.committed(frame))
        .and_then(|commit| log.synced(commit));
    synced.zip(answer).is_some_and(|(synced, answer)| synced < answer.begin)
}

/// The first thing any client heard of the task.
fn answer_to_create<'a>(calls: &'a [Call], task: &str) -> Option<&'a Call> {
    calls.iter().find(|call| is_sent(call) && holds(&call.data, task))
}

fn request_to_cancel<'a>(calls: &'a [Call], task: &str) -> Option<&'a Call> {
    calls
        .iter()
        .find(|call| is_socket(call) && !is_sent(call) && holds(&call.data, task) && holds(&call.data, "tasks/cancel"))
}

fn next_answer<'a>(calls: &'a [Call], request: &Call) -> Option<&'a Call> {
    calls
        .iter()
        .find(|call| call.begin > request.end && call.target == request.target && is_sent(call))
}

fn is_socket(call: &Call) -> bool {
    call.target.starts_with("socket:")
}

fn is_sent(call: &Call) -> bool {
    is_socket(call) && matches!(call.name.as_str(), "write" | "writev" | "sendto" | "sendmsg")
}

fn holds(data: &[u8], text: &str) -> bool {
    data.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A page in the log.
struct Frame {
    begin: usize,
    end: usize,
    commits: bool,
}

struct Sync {
    begin: usize,
    end: usize,
}

/// What happened to the write-ahead log. One thread writes it, so its frames come one after the other.
struct Log {
    frames: Vec<Frame>,
    /// By task: the frames that hold its id.
    tasks: HashMap<String, Vec<usize>>,
    syncs: Vec<Sync>,
}

impl Log {
    fn of(calls: &[Call], tasks: &[String]) -> Self {
        let known: HashSet<&[u8]> = tasks.iter().map(String::as_bytes).collect();
        let lengths: HashSet<usize> = known.iter().map(|task| task.len()).collect();
        let mut log = Self {
            frames: Vec::new(),
            tasks: HashMap::new(),
            syncs: Vec::new(),
        };
        let mut commits = false;
        for call in calls.iter().filter(|call| call.target.ends_with("-wal")) {
            match call.name.as_str() {
                "fdatasync" | "fsync" if call.succeeded => log.syncs.push(Sync {
                    begin: call.begin,
                    end: call.end,
                }),
                "write" | "pwrite64" if call.data.len() == FRAME_HEADER => {
                    commits = call.data[COMMIT_FIELD].iter().any(|byte| *byte != 0);
                }
                "write" | "pwrite64" if call.data.len() > FRAME_HEADER => {
                    let nth = log.frames.len();
                    log.frames.push(Frame {
                        begin: call.begin,
                        end: call.end,
                        commits,
                    });
                    for found in lengths.iter().flat_map(|length| call.data.windows(*length)) {
                        if known.contains(found) {
                            let task = String::from_utf8_lossy(found).into_owned();
                            log.tasks.entry(task).or_default().push(nth);
                        }
                    }
                }
                _ => {}
            }
        }
        log
    }

    /// The first frame since a moment that holds the task.
    fn written(&self, task: &str, since: usize) -> Option<usize> {
        let frames = self.tasks.get(task)?;
        frames.iter().copied().find(|nth| self.frames[*nth].begin >= since)
    }

    /// When the transaction of a frame had been written whole.
    fn committed(&self, nth: usize) -> Option<usize> {
        self.frames[nth..]
            .iter()
            .find(|frame| frame.commits)
            .map(|frame| frame.end)
    }

    /// When the first sync that began after a moment had ended.
    fn synced(&self, since: usize) -> Option<usize> {
        self.syncs.iter().find(|sync| sync.begin > since).map(|sync| sync.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace in shorthand: what is done to what, one call a moment.
    fn early(story: &[(&str, &str, &[u8])]) -> usize {
        let call = |(moment, (name, target, data)): (usize, &(&str, &str, &[u8]))| Call {
            name: (*name).to_owned(),
            target: (*target).to_owned(),
            data: data.to_vec(),
            begin: moment,
            end: moment,
            succeeded: true,
        };
        let calls: Vec<_> = story.iter().enumerate().map(call).collect();
        let acknowledged = Acknowledged {
            created: vec!["TASK".to_owned()],
            cancelled: Vec::new(),
        };
        judge(&calls, &acknowledged).early.len()
    }

    const PLAIN: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", &[0; FRAME_HEADER]);
    const LAST: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", &[1; FRAME_HEADER]);
    const ROW: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", b"................................TASK....");
    const OTHER: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", b"........................................");
    const SYNC: (&str, &str, &[u8]) = ("fdatasync", "/d/x-wal", b"");
    const SYNC_ELSEWHERE: (&str, &str, &[u8]) = ("fdatasync", "/d/x", b"");
    const TELL: (&str, &str, &[u8]) = ("sendto", "socket:[1]", b"{TASK}");

    #[test]
    fn what_is_synced_first_is_in_order() {
        assert_eq!(early(&[LAST, ROW, SYNC, TELL]), 0);
        assert_eq!(early(&[PLAIN, ROW, LAST, OTHER, SYNC, LAST, ROW, TELL]), 0);
    }

    #[test]
    fn what_is_told_first_is_early() {
        assert_eq!(early(&[LAST, ROW, TELL, SYNC]), 1);
        assert_eq!(early(&[SYNC, LAST, ROW, TELL]), 1);
        assert_eq!(early(&[LAST, ROW, SYNC_ELSEWHERE, TELL]), 1);
        // A sync in the middle of a transaction covers nothing.
        assert_eq!(early(&[PLAIN, ROW, SYNC, LAST, OTHER, TELL, SYNC]), 1);
        assert_eq!(early(&[TELL]), 1);
        assert_eq!(early(&[LAST, ROW, SYNC]), 1);
    }
}
