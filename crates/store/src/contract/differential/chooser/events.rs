//! Which events a change has, and under which fence; which confirmations a new task asks for.

use super::{Chooser, NAMES};
use longhaul_core::{
    AttemptEnd, Block, BlockReason, CancelMode, ConfirmBy, Confirmation, Event, Fence, InputKey, Json, NodeId, Outcome,
    Progress, RpcFailure, State, StopReason, Task, UnixMillis,
};
use std::sync::Arc;

impl Chooser {
    /// Mostly the right one.
    pub(super) fn fence(&mut self, task: Option<&Task>, events: &[Event]) -> Option<Fence> {
        let right = task.and_then(Task::active_attempt).map(|attempt| attempt.fence());
        match self.rng.u32(0..20) {
            0 => None,
            1 => right.map(|fence| Fence {
                epoch: fence.epoch.wrapping_sub(1),
                ..fence
            }),
            2 => right.map(|fence| Fence {
                node: NodeId(fence.node.0 - 1),
                ..fence
            }),
            3 => Some(Fence {
                node: NodeId(self.node),
                epoch: 1,
            }),
            _ => right.filter(|_| events.iter().any(Event::needs_fence)),
        }
    }

    pub(super) fn event(&mut self, task: Option<&Task>, asked: &mut u32) -> Event {
        match task {
            Some(task) if self.rng.bool() => self.fitting_event(task, asked),
            _ => self.any_event(task, asked),
        }
    }

    /// What would keep the task alive and moving.
    pub(super) fn fitting_event(&mut self, task: &Task, asked: &mut u32) -> Event {
        match (task.state, task.open_inputs.is_empty(), self.rng.u32(0..4)) {
            (State::Queued, _, 0) => Event::Abandoned(self.outcome()),
            (_, _, 3) if !task.is_done() && task.journaled > 0 && self.rng.bool() => self.child_ended(Some(task)),
            (State::Queued, _, 1) => self.raised(),
            (State::Queued, ..) => Event::Claimed {
                node: NodeId(self.node),
                host: self.host(),
            },
            (State::Running, _, 3) => Event::Journaled(self.entry(Some(task))),
            (State::Suspended, false, 0) if !task.awaits_confirmation() => Event::TimerFired,
            (State::Suspended, false, 0) | (_, false, 1) => Event::InputAnswered {
                key: self.open_key(Some(task)),
                answer: self.answer(),
                by: self.answered_by(),
            },
            (_, false, 2) => Event::InputWithdrawn {
                key: self.open_key(Some(task)),
            },
            (State::Running, _, 0) if self.one_in(3) => Event::AttemptEnded(self.blocked()),
            (State::Running, _, 0) => self.suspended(task),
            (State::Running, ..) => {
                *asked += 1;
                Event::InputRequested {
                    key: InputKey::nth(*asked),
                    name: self.rng.bool().then(|| Arc::from(self.pick(&NAMES))),
                    request: self.json("request"),
                }
            }
            (State::Suspended, ..) => Event::TimerFired,
            (State::Blocked, ..) => match self.rng.u32(0..6) {
                0 => Event::BlockedTimedOut,
                1 => Event::TimerFired,
                _ => self.unblocked(),
            },
            (State::Done(_), ..) => Event::AttemptEnded(self.attempt_end()),
        }
    }

    pub(super) fn any_event(&mut self, task: Option<&Task>, asked: &mut u32) -> Event {
        match self.rng.u32(0..100) {
            0..3 => Event::Claimed {
                node: NodeId(self.node),
                host: self.host(),
            },
            3 => Event::Adopted {
                node: NodeId(self.node),
            },
            4 => Event::Reclaimed {
                node: NodeId(self.node),
            },
            5..15 => Event::Started,
            15..27 => Event::Reported {
                status: self.rng.bool().then(|| Arc::from("line \0 of output")),
                progress: self.rng.bool().then(|| Progress {
                    current: self.rng.f64(),
                    total: self.rng.bool().then_some(7.0),
                }),
            },
            27..40 => {
                *asked += u32::from(!self.one_in(10));
                Event::InputRequested {
                    key: InputKey::nth(*asked),
                    name: self.rng.bool().then(|| Arc::from(self.pick(&NAMES))),
                    request: self.json("request"),
                }
            }
            40..52 => Event::InputAnswered {
                key: self.open_key(task),
                answer: self.answer(),
                by: self.answered_by(),
            },
            52..56 => Event::InputWithdrawn {
                key: self.open_key(task),
            },
            56..64 => Event::Journaled(self.entry(task)),
            64..68 => self.child_ended(task),
            68..69 => Event::TimerFired,
            69..70 => self.unblocked(),
            70..72 => self.raised(),
            72..82 => Event::AttemptEnded(self.attempt_end()),
            82..85 => Event::CancelRequested(self.pick(&[CancelMode::AtOnce, CancelMode::Cooperative])),
            85..88 => Event::DeadlinePassed,
            88..91 => Event::QueueTimedOut,
            91..95 => Event::Promoted,
            95..97 => Event::Abandoned(self.outcome()),
            97..98 => Event::RetryAwaited {
                until: UnixMillis(self.now + self.rng.i64(-500..5_000)),
            },
            _ => Event::TtlExtended {
                until: UnixMillis(self.now + self.rng.i64(-500..100_000)),
            },
        }
    }

    pub(super) fn confirmation(&mut self) -> Option<Confirmation> {
        self.one_in(8).then(|| Confirmation {
            by: self.pick(&[ConfirmBy::Client, ConfirmBy::Client, ConfirmBy::Operator]),
            request: self.json("confirm"),
            until: UnixMillis(self.now + self.rng.i64(-10..5_000)),
        })
    }

    /// Some of them confirm.
    pub(super) fn answer(&mut self) -> Json {
        match self.rng.u32(0..4) {
            0 => self.json("answer"),
            1 => Json::trusted(r#"{"action":"decline"}"#),
            _ => Json::trusted(r#"{"action":"accept","content":{}}"#),
        }
    }

    pub(super) fn outcome(&mut self) -> Outcome {
        match self.rng.u32(0..5) {
            0 => Outcome::Cancelled,
            1 => Outcome::tool_error("no"),
            2 => Outcome::RpcError(RpcFailure {
                code: self.rng.i32(..),
                message: "broken".into(),
                data: self.rng.bool().then(|| self.json("data")),
            }),
            _ => Outcome::result(self.json("content")),
        }
    }

    pub(super) fn suspended(&mut self, task: &Task) -> Event {
        Event::AttemptEnded(AttemptEnd::Suspended {
            until: self.rng.bool().then(|| UnixMillis(self.now + self.rng.i64(-10..600))),
            woken: task.woken.wrapping_sub(u32::from(self.one_in(4))),
        })
    }

    pub(super) fn blocked(&mut self) -> AttemptEnd {
        AttemptEnd::Blocked(Block {
            reason: self.pick(&[BlockReason::NonDeterminism, BlockReason::Poisoned]),
            failure: RpcFailure {
                code: self.rng.i32(..),
                message: self.json("why").as_str().into(),
                data: self.rng.bool().then(|| self.json("data")),
            },
            code: self.pick(&NAMES).into(),
            // Long enough for some of them to be unblocked before.
            retry_at: UnixMillis(self.now + self.rng.i64(-10..50_000)),
            until: UnixMillis(self.now + self.rng.i64(-10..100_000)),
        })
    }

    fn raised(&mut self) -> Event {
        Event::Raised {
            ready_at: UnixMillis(self.now - self.rng.i64(-10..5_000)),
        }
    }

    pub(super) fn unblocked(&mut self) -> Event {
        Event::Unblocked {
            ready_at: UnixMillis(self.now + self.rng.i64(-10..600)),
        }
    }

    pub(super) fn child_ended(&mut self, task: Option<&Task>) -> Event {
        let journaled = task.map_or(0, |task| task.journaled).max(1);
        Event::ChildEnded {
            entry: if self.one_in(6) {
                self.pick(&[0, journaled + 1])
            } else {
                self.rng.u32(1..=journaled)
            },
            value: self.json("child"),
        }
    }

    pub(super) fn open_key(&mut self, task: Option<&Task>) -> InputKey {
        let open = task.and_then(|task| self.rng.choice(&task.open_inputs)).cloned();
        open.filter(|_| !self.one_in(5)).unwrap_or_else(|| self.key())
    }

    pub(super) fn attempt_end(&mut self) -> AttemptEnd {
        match self.rng.u32(0..7) {
            6 => self.blocked(),
            0 => AttemptEnd::NeverStarted {
                retry_at: self.rng.bool().then(|| UnixMillis(self.now + self.rng.i64(-10..600))),
            },
            1 => AttemptEnd::Stopped(self.pick(&[StopReason::Cancel, StopReason::Deadline])),
            2 => AttemptEnd::Finished(self.outcome()),
            _ => AttemptEnd::Failed {
                outcome: self.outcome(),
                retry_at: (!self.one_in(4)).then(|| UnixMillis(self.now + self.rng.i64(-10..600))),
                asks_again: self.rng.bool(),
            },
        }
    }
}
