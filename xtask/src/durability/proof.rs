//! Checks the order of system calls.
//!
//! A task's row contains its id as text, so the write-ahead log shows in which transaction it was written. An acknowledgement is
//! in order if the log was synced between that transaction's last frame and the acknowledgement's first byte: the sync began after
//! the one and ended before the other.
//!
//! A plain call is in order if nothing was written to the log and nothing synced between its request and its answer: it is kept in memory.

use super::{Acknowledgements, trace::Call};
use std::collections::{HashMap, HashSet};

/// The length of a frame's header, which is written separately from the page.
const FRAME_HEADER: usize = 24;
/// These bytes of the header are zero unless the frame is the last of its transaction.
const COMMIT_FIELD: std::ops::Range<usize> = 4..8;

/// The result of the check.
pub(super) struct Proof {
    /// How many acknowledgements were checked.
    pub(super) all: usize,
    /// How many plain calls were checked.
    pub(super) plain: usize,
    /// Acknowledgements that were sent too early or are not in the trace.
    pub(super) early: Vec<String>,
    /// Plain calls during which something was written or synced, or that are not in the trace.
    pub(super) wrote: Vec<String>,
    /// How many syncs of the log there were.
    pub(super) syncs: usize,
}

/// Checks every acknowledgement and every plain call.
pub(super) fn judge(calls: &[Call], acknowledged: &Acknowledgements) -> Proof {
    let Acknowledgements {
        created,
        cancelled,
        promoted,
        plain,
    } = acknowledged;
    let log = Log::of(calls, created.iter().chain(promoted));
    let created = (created.iter()).filter(|task| !is_covered(&log, task, 0, first_sent(calls, task)));
    let promoted = (promoted.iter()).filter(|task| !all_is_covered(&log, task, first_sent(calls, task)));
    let cancelled = cancelled.iter().filter(|task| {
        let asked = request_to_cancel(calls, task);
        let answered = asked.and_then(|asked| next_answer(calls, asked));
        !asked.is_some_and(|asked| is_covered(&log, task, asked.end, answered))
    });
    let early = created.map(|task| format!("the creation of {task}"));
    let early = early
        .chain(promoted.map(|task| format!("the promotion of {task}")))
        .chain(cancelled.map(|task| format!("the cancellation of {task}")))
        .collect();
    let wrote = (plain.iter()).filter(|token| !writes_nothing(&log, calls, token));
    Proof {
        all: acknowledged.all(),
        plain: plain.len(),
        early,
        wrote: wrote.cloned().collect(),
        syncs: log.syncs.len(),
    }
}

/// Whether the task's changes since `since` were on disk before `answer` began.
fn is_covered(log: &Log, task: &str, since: usize, answer: Option<&Call>) -> bool {
    let written = log.written(task, since);
    let synced = written
        .and_then(|frame| log.committed(frame))
        .and_then(|commit| log.synced(commit));
    synced.zip(answer).is_some_and(|(synced, answer)| synced < answer.begin)
}

/// Whether the log contained the task, and everything in it was on disk, before `answer` began. For clients that make one call at a time.
fn all_is_covered(log: &Log, task: &str, answer: Option<&Call>) -> bool {
    let Some(answer) = answer.filter(|_| log.written(task, 0).is_some()) else {
        return false;
    };
    let before = (log.frames.iter()).take_while(|frame| frame.end < answer.begin);
    let synced = before.last().and_then(|frame| log.synced(frame.end));
    synced.is_some_and(|synced| synced < answer.begin)
}

/// Whether nothing was written or synced between the request of the plain call with this token and its answer. For calls during which nothing else runs.
fn writes_nothing(log: &Log, calls: &[Call], token: &str) -> bool {
    let asked = (calls.iter()).find(|call| is_socket(call) && !is_sent(call) && holds(&call.data, token));
    let (Some(asked), Some(answer)) = (asked, first_sent(calls, token)) else {
        return false;
    };
    let meanwhile = |begin: usize, end: usize| end > asked.end && begin < answer.begin;
    !log.frames.iter().any(|frame| meanwhile(frame.begin, frame.end))
        && !log.syncs.iter().any(|sync| meanwhile(sync.begin, sync.end))
}

/// The first response that contains the name.
fn first_sent<'a>(calls: &'a [Call], name: &str) -> Option<&'a Call> {
    calls.iter().find(|call| is_sent(call) && holds(&call.data, name))
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

/// The writes and syncs of the write-ahead log. One thread writes it, so its frames do not overlap.
struct Log {
    frames: Vec<Frame>,
    /// The frames that contain a name: a task's id or a call's token.
    names: HashMap<String, Vec<usize>>,
    syncs: Vec<Sync>,
}

impl Log {
    fn of<'a>(calls: &[Call], names: impl Iterator<Item = &'a String>) -> Self {
        let known: HashSet<&[u8]> = names.map(String::as_bytes).collect();
        let lengths: HashSet<usize> = known.iter().map(|name| name.len()).collect();
        let mut log = Self {
            frames: Vec::new(),
            names: HashMap::new(),
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
                            let name = String::from_utf8_lossy(found).into_owned();
                            log.names.entry(name).or_default().push(nth);
                        }
                    }
                }
                _ => {}
            }
        }
        log
    }

    /// The first frame since `since` that contains the name.
    fn written(&self, name: &str, since: usize) -> Option<usize> {
        let frames = self.names.get(name)?;
        frames.iter().copied().find(|nth| self.frames[*nth].begin >= since)
    }

    /// When the transaction of a frame was completely written.
    fn committed(&self, nth: usize) -> Option<usize> {
        self.frames[nth..]
            .iter()
            .find(|frame| frame.commits)
            .map(|frame| frame.end)
    }

    /// When the first sync that began after `since` ended.
    fn synced(&self, since: usize) -> Option<usize> {
        self.syncs.iter().find(|sync| sync.begin > since).map(|sync| sync.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace in shorthand: what is done to what, one call a moment.
    fn judged(story: &[(&str, &str, &[u8])], acknowledged: &Acknowledgements) -> Proof {
        let call = |(moment, (name, target, data)): (usize, &(&str, &str, &[u8]))| Call {
            name: (*name).to_owned(),
            target: (*target).to_owned(),
            data: data.to_vec(),
            begin: moment,
            end: moment,
            succeeded: true,
        };
        let calls: Vec<_> = story.iter().enumerate().map(call).collect();
        judge(&calls, acknowledged)
    }

    fn early(story: &[(&str, &str, &[u8])]) -> usize {
        let created = Acknowledgements {
            created: vec!["TASK".to_owned()],
            ..Acknowledgements::default()
        };
        judged(story, &created).early.len()
    }

    fn early_as_promoted(story: &[(&str, &str, &[u8])]) -> usize {
        let promoted = Acknowledgements {
            promoted: vec!["TASK".to_owned()],
            ..Acknowledgements::default()
        };
        judged(story, &promoted).early.len()
    }

    fn wrote(story: &[(&str, &str, &[u8])]) -> usize {
        let plain = Acknowledgements {
            plain: vec!["TASK".to_owned()],
            ..Acknowledgements::default()
        };
        judged(story, &plain).wrote.len()
    }

    const PLAIN: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", &[0; FRAME_HEADER]);
    const LAST: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", &[1; FRAME_HEADER]);
    const ROW: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", b"................................TASK....");
    const OTHER: (&str, &str, &[u8]) = ("pwrite64", "/d/x-wal", b"........................................");
    const SYNC: (&str, &str, &[u8]) = ("fdatasync", "/d/x-wal", b"");
    const SYNC_ELSEWHERE: (&str, &str, &[u8]) = ("fdatasync", "/d/x", b"");
    const ASK: (&str, &str, &[u8]) = ("recvfrom", "socket:[1]", b"{TASK}");
    const TELL: (&str, &str, &[u8]) = ("sendto", "socket:[1]", b"{TASK}");

    #[test]
    fn what_is_synced_first_is_in_order() {
        assert_eq!(early(&[LAST, ROW, SYNC, TELL]), 0);
        assert_eq!(early(&[PLAIN, ROW, LAST, OTHER, SYNC, LAST, ROW, TELL]), 0);
    }

    #[test]
    fn an_answer_before_the_sync_is_early() {
        assert_eq!(early(&[LAST, ROW, TELL, SYNC]), 1);
        assert_eq!(early(&[SYNC, LAST, ROW, TELL]), 1);
        assert_eq!(early(&[LAST, ROW, SYNC_ELSEWHERE, TELL]), 1);
        // A sync in the middle of a transaction covers nothing.
        assert_eq!(early(&[PLAIN, ROW, SYNC, LAST, OTHER, TELL, SYNC]), 1);
        assert_eq!(early(&[TELL]), 1);
        assert_eq!(early(&[LAST, ROW, SYNC]), 1);
    }

    #[test]
    fn a_promotion_needs_a_sync_of_its_own() {
        assert_eq!(early_as_promoted(&[LAST, ROW, SYNC, LAST, ROW, SYNC, TELL]), 0);
        assert_eq!(early_as_promoted(&[LAST, ROW, LAST, ROW, SYNC, TELL, LAST, OTHER]), 0);
        assert_eq!(early_as_promoted(&[LAST, ROW, SYNC, LAST, ROW, TELL, SYNC]), 1);
        assert_eq!(early_as_promoted(&[LAST, OTHER, SYNC, TELL]), 1);
    }

    #[test]
    fn a_plain_call_writes_nothing() {
        assert_eq!(wrote(&[SYNC, ASK, TELL, LAST, ROW, SYNC]), 0);
        assert_eq!(wrote(&[ASK, LAST, ROW, TELL]), 1);
        assert_eq!(wrote(&[ASK, LAST, OTHER, TELL]), 1);
        assert_eq!(wrote(&[ASK, SYNC, TELL]), 1);
        assert_eq!(wrote(&[ASK]), 1);
    }
}
