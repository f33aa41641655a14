//! Three processes on one file, against a model in a few lines. They take turns; `processes` lets them run at the same time.

use crate::support::{HOUR, ManualClock, SERVER, new_call, open_with, session, task};
use longhaul_client::{Asked, CallFilter, CallId, CallState, Finished, JournalError, NewCall, TaskRef, TaskStatus};
use longhaul_core::Json;
use longhaul_ledger::ClientJournal;
use proptest::{collection::vec, option, prelude::*};
use std::{collections::BTreeMap, sync::Arc};

const PROCESSES: usize = 3;
/// No more calls than one write deletes, so that the model need not know in which order they go.
const CALLS: usize = 14;

#[derive(Debug, Clone)]
enum Op {
    Begin { session: Option<u8>, is_keyed: bool },
    EnterSession { session: u8 },
    Acknowledge { task: u8, session: Option<u8> },
    NoteInputRequired,
    Finish,
    MarkUnknown,
    Settle,
    MarkLost,
    Claim,
    Release,
    Ask { key: u8 },
    RecordAnswer { key: u8, answer: u8 },
    AnswerAccepted { key: u8 },
    AnswerRefused { key: u8 },
    ReleaseQuestion { key: u8 },
    Restart,
    Pass { hours: u16 },
}

/// What a process does to a call. Of calls there are fewer than this number may be.
type Turn = (usize, usize, Op);

fn turn() -> impl Strategy<Value = Turn> {
    let session = || option::weighted(0.4, 0..2_u8);
    let key = || 0..2_u8;
    let op = prop_oneof![
        4 => (session(), any::<bool>()).prop_map(|(session, is_keyed)| Op::Begin { session, is_keyed }),
        2 => (0..2_u8).prop_map(|session| Op::EnterSession { session }),
        4 => (0..2_u8, session()).prop_map(|(task, session)| Op::Acknowledge { task, session }),
        1 => Just(Op::NoteInputRequired),
        2 => Just(Op::Finish),
        1 => Just(Op::MarkUnknown),
        2 => Just(Op::Settle),
        1 => Just(Op::MarkLost),
        3 => Just(Op::Claim),
        1 => Just(Op::Release),
        4 => key().prop_map(|key| Op::Ask { key }),
        3 => (key(), 0..2_u8).prop_map(|(key, answer)| Op::RecordAnswer { key, answer }),
        1 => key().prop_map(|key| Op::AnswerAccepted { key }),
        1 => key().prop_map(|key| Op::AnswerRefused { key }),
        1 => key().prop_map(|key| Op::ReleaseQuestion { key }),
        3 => Just(Op::Restart),
        1 => (1..800_u16).prop_map(|hours| Op::Pass { hours }),
    ];
    (0..PROCESSES, 0..6_usize, op)
}

/// A run of a process: its number, and how often it was started before.
type Run = (usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Intent,
    Task,
    Unknown,
    Lost,
    Finished,
}

#[derive(Debug, Clone)]
enum Question {
    Asked,
    Answered(u8),
    Accepted,
}

#[derive(Debug, Clone)]
struct Call {
    state: State,
    is_keyed: bool,
    begun_at: i64,
    holder: Option<Run>,
    task: Option<u8>,
    session: Option<u8>,
    asks: bool,
    questions: BTreeMap<u8, (Question, Option<Run>)>,
    delete_at: Option<i64>,
}

impl Call {
    fn end(&mut self, state: State, delete_at: i64) {
        self.state = state;
        self.questions.clear();
        self.delete_at = Some(delete_at);
    }
}

/// What the operation returned, in one form for all of them.
type Returned = Result<String, &'static str>;

#[derive(Default)]
struct Model {
    now: i64,
    starts: [usize; PROCESSES],
    calls: BTreeMap<i64, Call>,
    begun: i64,
}

impl Model {
    fn is_alive(&self, (process, start): Run) -> bool {
        self.starts[process] == start
    }

    /// What every write does first.
    fn delete_due(&mut self) {
        let now = self.now;
        self.calls.retain(|_, call| call.delete_at.is_none_or(|at| at > now));
    }

    /// It writes only if there is such a call.
    fn settle(&mut self) {
        let now = self.now;
        let is_abandoned = |call: &Call| {
            let may_be_sent = call.is_keyed && call.begun_at + 24 * HOUR > now;
            let is_held = call.holder.is_some_and(|holder| self.is_alive(holder));
            call.state == State::Intent && !may_be_sent && !is_held
        };
        let mut abandoned: Vec<i64> = Vec::new();
        abandoned.extend(
            self.calls
                .iter()
                .filter(|(_, call)| is_abandoned(call))
                .map(|(number, _)| number),
        );
        if abandoned.is_empty() {
            return;
        }
        self.delete_due();
        for number in abandoned {
            let call = self.calls.get_mut(&number).unwrap();
            call.end(State::Unknown, now + 24 * HOUR);
        }
    }

    fn run(&mut self, process: usize, number: i64, op: &Op) -> Returned {
        let run = (process, self.starts[process]);
        match op {
            Op::Restart => {
                self.starts[process] += 1;
                return Ok(String::new());
            }
            Op::Pass { hours } => {
                self.now += i64::from(*hours) * HOUR;
                return Ok(String::new());
            }
            Op::Settle => {
                self.settle();
                return Ok(String::new());
            }
            _ => self.delete_due(),
        }
        if let Op::Begin { session, is_keyed } = op {
            self.begun += 1;
            let call = Call {
                state: State::Intent,
                is_keyed: *is_keyed,
                begun_at: self.now,
                holder: Some(run),
                task: None,
                session: *session,
                asks: false,
                questions: BTreeMap::new(),
                delete_at: None,
            };
            self.calls.insert(self.begun, call);
            return Ok(self.begun.to_string());
        }
        let mut call = self.calls.get(&number).cloned().ok_or("unknown call")?;
        if let Op::Acknowledge { task, .. } = op
            && let Some(earlier) = self.same_task(number, &call, *task)
        {
            self.calls.remove(&number);
            return Ok(earlier.to_string());
        }
        let mut returned = self.change(&mut call, run, op)?;
        if let Op::Acknowledge { .. } = op {
            returned = number.to_string();
        }
        self.calls.insert(number, call);
        Ok(returned)
    }

    /// The live task of an earlier call with the same key, which is what an acknowledged call becomes.
    fn same_task(&mut self, number: i64, call: &Call, task: u8) -> Option<i64> {
        let is_same = |other: &Call| {
            let is_live = matches!(other.state, State::Task | State::Lost);
            is_live && other.task == Some(task) && other.is_keyed && call.is_keyed && call.task.is_none()
        };
        let mut others = self.calls.iter_mut();
        let (earlier, other) = others.find(|(other, call)| **other != number && is_same(call))?;
        (other.state, other.delete_at) = (State::Task, None);
        Some(*earlier)
    }

    fn change(&self, call: &mut Call, run: Run, op: &Op) -> Returned {
        let now = self.now;
        let in_other_hands =
            call.state == State::Intent && call.holder.is_some_and(|holder| holder != run && self.is_alive(holder));
        let open = matches!(call.state, State::Intent | State::Task);
        match op {
            Op::Acknowledge { task, session } => {
                match call.state {
                    State::Intent | State::Unknown => call.questions.clear(),
                    State::Finished if call.task.is_none() => {}
                    State::Task | State::Lost if call.task == Some(*task) => {}
                    _ => return Err("wrong state"),
                }
                (call.state, call.task, call.session, call.delete_at) = (State::Task, Some(*task), *session, None);
            }
            Op::EnterSession { session } if call.state == State::Intent && !in_other_hands => {
                call.session = Some(*session);
            }
            Op::NoteInputRequired if call.state == State::Task => call.asks = true,
            Op::Finish if call.state == State::Finished => {}
            Op::Finish if !in_other_hands => call.end(State::Finished, now + 24 * HOUR),
            Op::MarkUnknown if call.state == State::Unknown => {}
            Op::MarkUnknown if call.state == State::Intent && !in_other_hands => {
                call.end(State::Unknown, now + 24 * HOUR)
            }
            Op::MarkLost if call.state == State::Lost => {}
            Op::MarkLost if call.state == State::Task => call.end(State::Lost, now + 720 * HOUR),
            Op::Claim => {
                let claimed = call.state == State::Intent && call.holder.is_none_or(|holder| !self.is_alive(holder));
                if claimed {
                    call.holder = Some(run);
                }
                return Ok(claimed.to_string());
            }
            Op::Release if call.state == State::Intent && call.holder == Some(run) => call.holder = None,
            Op::Release => {}
            Op::Ask { key } if open => {
                let asked = match call.questions.get(key) {
                    None => Asked::First,
                    Some((Question::Accepted, _)) => return Ok(format!("{:?}", Asked::Accepted)),
                    Some((_, Some(holder))) if self.is_alive(*holder) => return Ok(format!("{:?}", Asked::Pending)),
                    Some((Question::Asked, _)) => Asked::First,
                    Some((Question::Answered(answer), _)) => Asked::Answered(answer_json(*answer)),
                };
                let question = call.questions.entry(*key).or_insert((Question::Asked, None));
                question.1 = Some(run);
                return Ok(format!("{asked:?}"));
            }
            Op::RecordAnswer { key, answer } if open => {
                let send = match call.questions.get(key) {
                    None | Some((Question::Asked, _)) => true,
                    Some((Question::Answered(before), holder)) => before == answer && *holder == Some(run),
                    Some((Question::Accepted, _)) => false,
                };
                if send {
                    call.questions.insert(*key, (Question::Answered(*answer), Some(run)));
                }
                return Ok(send.to_string());
            }
            Op::AnswerAccepted { key } => {
                if let Some(question) = call.questions.get_mut(key) {
                    *question = (Question::Accepted, None);
                }
            }
            Op::AnswerRefused { key } => {
                if let Some((Question::Answered(_), Some(holder))) = call.questions.get(key)
                    && *holder == run
                {
                    call.questions.remove(key);
                }
            }
            Op::ReleaseQuestion { key } => {
                if let Some((_, holder)) = call.questions.get_mut(key)
                    && *holder == Some(run)
                {
                    *holder = None;
                }
            }
            _ => return Err("wrong state"),
        }
        Ok(String::new())
    }

    /// The calls that are listed, the latest first.
    fn list(&self) -> Vec<String> {
        let listed = self.calls.iter().rev();
        let listed = listed.filter(|(_, call)| call.delete_at.is_none_or(|at| at > self.now));
        listed
            .map(|(number, call)| {
                let state = match call.state {
                    State::Intent if call.holder.is_some_and(|holder| self.is_alive(holder)) => "InFlight",
                    State::Intent => "Interrupted",
                    State::Task => "Task",
                    State::Unknown => "Unknown",
                    State::Lost => "Lost",
                    State::Finished => "Finished",
                };
                let is_open = matches!(call.state, State::Intent | State::Task);
                let is_asked = call
                    .questions
                    .values()
                    .any(|(question, _)| matches!(question, Question::Asked));
                let session = call.session.filter(|_| call.task.is_some());
                // Of a modern task, as these are, its status says whether it asks.
                let asks = is_open && (call.asks || (is_asked && call.task.is_none()));
                describe(*number, state, call.task.map(task_id), session.map(session_id), asks)
            })
            .collect()
    }

    fn sessions_in_use(&self) -> Vec<String> {
        let calls = self.calls.values();
        let in_use = calls.filter(|call| call.task.is_some() || matches!(call.state, State::Intent | State::Unknown));
        let mut sessions: Vec<String> = in_use.filter_map(|call| call.session).map(session_id).collect();
        sessions.sort();
        sessions.dedup();
        sessions
    }
}

fn describe(number: i64, state: &str, task: Option<String>, session: Option<String>, asks: bool) -> String {
    format!("{number} {state} {task:?} {session:?} {asks}")
}

fn task_id(task: u8) -> String {
    format!("task-{task}")
}

fn session_id(session: u8) -> String {
    format!("session-{session}")
}

fn answer_json(answer: u8) -> Json {
    Json::trusted(format!("{{\"answer\":{answer}}}"))
}

async fn run(journal: &ClientJournal, call: CallId, op: &Op) -> Returned {
    let key = |key: &u8| format!("key-{key}");
    let in_session = |id: &Option<u8>| id.map(|id| session(&session_id(id)));
    let nothing = |()| String::new();
    let returned = match op {
        Op::Begin { session, is_keyed } => {
            let call = NewCall {
                idempotency_key: is_keyed.then(|| "key".to_owned()),
                session: in_session(session),
                ..new_call("tool")
            };
            journal.begin(call).await.map(|call| call.number().to_string())
        }
        Op::Acknowledge { task: id, session } => {
            let task = TaskRef {
                session: in_session(session),
                ..task(&task_id(*id))
            };
            let acknowledged = journal.acknowledge(call, task).await;
            acknowledged.map(|call| call.number().to_string())
        }
        Op::EnterSession { session: id } => journal
            .enter_session(call, session(&session_id(*id)))
            .await
            .map(nothing),
        Op::NoteInputRequired => journal.note_status(call, TaskStatus::InputRequired).await.map(nothing),
        Op::Finish => journal.finish(call, Finished::Completed).await.map(nothing),
        Op::MarkUnknown => journal.mark_unknown(call, "a reason").await.map(nothing),
        Op::Settle => journal.settle_abandoned().await.map(nothing),
        Op::MarkLost => journal.mark_lost(call, "a reason").await.map(nothing),
        Op::Claim => journal.claim_unresolved(call).await.map(|claimed| claimed.to_string()),
        Op::Release => journal.release_call(call).await.map(nothing),
        Op::Ask { key: id } => journal.ask(call, key(id)).await.map(|asked| format!("{asked:?}")),
        Op::RecordAnswer { key: id, answer } => {
            let recorded = journal.record_answer(call, key(id), answer_json(*answer)).await;
            recorded.map(|send| send.to_string())
        }
        Op::AnswerAccepted { key: id } => journal.answer_accepted(call, key(id)).await.map(nothing),
        Op::AnswerRefused { key: id } => journal.answer_refused(call, key(id)).await.map(nothing),
        Op::ReleaseQuestion { key: id } => journal.release_question(call, key(id)).await.map(nothing),
        Op::Restart | Op::Pass { .. } => Ok(String::new()),
    };
    returned.map_err(|error| match error {
        JournalError::UnknownCall(_) => "unknown call",
        JournalError::WrongState { .. } => "wrong state",
        error => panic!("{op:?}: {error}"),
    })
}

async fn list(journal: &ClientJournal) -> Vec<String> {
    let calls = journal.list(CallFilter::default()).await.unwrap();
    let describe = |call: longhaul_client::RecordedCall| {
        let state = match call.state {
            CallState::InFlight => "InFlight",
            CallState::Interrupted => "Interrupted",
            CallState::Task => "Task",
            CallState::Unknown { .. } => "Unknown",
            CallState::Lost { .. } => "Lost",
            CallState::Finished(_) => "Finished",
            state => panic!("{state:?}"),
        };
        let session = call.task.as_ref().and_then(|task| task.session.as_ref());
        let session = session.map(|session| session.id.clone());
        let task = call.task.as_ref().map(|task| task.task_id.clone());
        describe(call.id.number(), state, task, session, call.asks)
    };
    calls.into_iter().map(describe).collect()
}

async fn agree(turns: &[Turn]) {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let mut journals = Vec::new();
    for _ in 0..PROCESSES {
        journals.push(open_with(directory.path(), &clock).await);
    }
    let mut model = Model::default();
    for (at, (process, call, op)) in turns.iter().enumerate() {
        if matches!(op, Op::Begin { .. }) && model.calls.len() >= CALLS {
            continue;
        }
        // One of the latest calls.
        let number = (model.begun - i64::try_from(*call).unwrap()).max(1);
        match op {
            Op::Pass { hours } => clock.pass(i64::from(*hours) * HOUR),
            Op::Restart => journals[*process] = open_with(directory.path(), &clock).await,
            _ => {}
        }
        let wanted = model.run(*process, number, op);
        let journal = &journals[*process];
        let returned = run(journal, CallId::from_number(number), op).await;
        assert_eq!(returned, wanted, "turn {at} of {turns:?}");
        // Another process sees the same.
        let journal = &journals[(at + 1) % PROCESSES];
        assert_eq!(list(journal).await, model.list(), "after turn {at} of {turns:?}");
        let mut in_use: Vec<String> = journal
            .sessions_in_use(SERVER)
            .await
            .unwrap()
            .into_iter()
            .map(|session| session.id)
            .collect();
        in_use.sort();
        assert_eq!(in_use, model.sessions_in_use(), "after turn {at} of {turns:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_processes_agree_with_the_model(turns in vec(turn(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(agree(&turns));
    }
}
