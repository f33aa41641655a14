//! Puts the questions of a plain call to the client that waits for it.

use super::{BlockingCall, CallHold, OnResponse, store_failed};
use crate::{
    admission::request::AdmittedRequest,
    interaction::{
        check_answer,
        exchange::{FinalResponse, ResponderEvent},
        legacy::desk::Delivery,
        rounds::{LIFETIME, Round, RoundState, call_ended},
    },
};
use longhaul_core::{AnsweredBy, Input, InputKey, Json};
use longhaul_wire::{RpcError, legacy::input_request::LegacyInputRequest};
use std::collections::{BTreeMap, BTreeSet};

/// How the questions of a call reach its client, and which have.
pub(crate) enum QuestionChannel {
    /// In the response to its request, which it sends again with the answers.
    Rounds(Answers),
    /// As requests of ours.
    Requests(LegacyRequests),
    /// Not at all: without a session there is no way for it to answer, and without streams none to ask it.
    Nobody,
}

/// Requests of ours to a legacy client.
#[derive(Default)]
pub(crate) struct LegacyRequests {
    /// By the keys of the questions that were open at the last read.
    open: BTreeMap<InputKey, Delivery>,
    /// Those of questions that are no longer open.
    closed: Vec<Delivery>,
}

/// A modern client's answers in this request, and its position in a series of rounds.
pub(crate) struct Answers {
    round: Round,
    /// To the questions of the round before.
    by_key: BTreeMap<InputKey, Json>,
    /// To the question of this name, when there was no round before.
    by_name: BTreeMap<String, Json>,
}

impl QuestionChannel {
    /// How the sender of a request can be asked; `round` is its place in a series, if it is a modern one.
    pub(crate) fn of(request: &AdmittedRequest<'_>, round: Option<Round>) -> Self {
        match round {
            Some(round) => Self::in_rounds(round),
            None if request.caller.session_to_ask().is_some() => Self::Requests(LegacyRequests::default()),
            None => Self::Nobody,
        }
    }

    pub(crate) fn in_rounds(round: Round) -> Self {
        Self::Rounds(Answers::of(round))
    }

    /// Records which questions are still open.
    pub(super) fn keep(&mut self, still_open: &[Input]) {
        if let Self::Requests(LegacyRequests { open, closed }) = self {
            let settled = open.extract_if(.., |key, _| still_open.iter().all(|input| input.key != *key));
            closed.extend(settled.map(|(_, delivery)| delivery));
        }
    }

    /// The cancellation of the next request whose question was closed by something other than its response.
    pub(super) fn withdraw(&mut self) -> Option<ResponderEvent> {
        let Self::Requests(LegacyRequests { closed, .. }) = self else {
            return None;
        };
        let taken_back = std::iter::from_fn(|| closed.pop()).find_map(Delivery::take_back);
        taken_back.map(ResponderEvent::Notification)
    }
}

impl Answers {
    fn of(mut round: Round) -> Self {
        let mut by_name = std::mem::take(&mut round.answers);
        let mut by_key = BTreeMap::new();
        if let Some(RoundState::Call { asked, .. }) = &round.state {
            let to_asked = asked.iter().filter_map(|(name, key)| {
                let answer = by_name.remove(name)?;
                Some((InputKey::named(key.as_str()), answer))
            });
            by_key.extend(to_asked);
            // The rest answers no question that was asked.
            by_name.clear();
        }
        Self { round, by_key, by_name }
    }

    /// The answer to a question, if it is here.
    fn to(&self, input: &Input) -> Option<&Json> {
        let named = || self.by_name.get(name_of(input));
        self.by_key.get(&input.key).or_else(named)
    }

    /// Removes an answer once it is written: a question that is asked again is a new one.
    fn remove(&mut self, input: &Input) {
        if self.by_key.remove(&input.key).is_none() {
            self.by_name.remove(name_of(input));
        }
    }
}

fn name_of(input: &Input) -> &str {
    input.name.as_deref().unwrap_or(input.key.as_str())
}

impl BlockingCall {
    /// Sends the open questions to the client: as requests, one by one, or all of them in the response.
    pub(super) async fn ask(&mut self) -> Result<Option<ResponderEvent>, RpcError> {
        let clock = &self.calls.engine.ports().clock;
        match &mut self.questions {
            // An admitted call runs to its end, and its sender is asked nothing more.
            _ if self.sender.has_ended(clock.wall()) => {
                let input = self.open[0].clone();
                self.refuse(
                    input,
                    "The client cannot be asked: its credentials have expired or were revoked",
                )
                .await
            }
            QuestionChannel::Requests(sent) => {
                let Some(input) = self.open.iter().find(|input| !sent.open.contains_key(&input.key)) else {
                    return Ok(None);
                };
                let task = self.waiting.id();
                let id = self.calls.interaction.sessions.replies.delivery_id(task, &input.key);
                let put = self.calls.interaction.desk.put(LegacyInputRequest {
                    id: &id,
                    request: input.request.as_str(),
                    task: None,
                    client_task: None,
                });
                match put {
                    Ok((delivery, text)) => {
                        sent.open.insert(input.key.clone(), delivery);
                        Ok(Some(ResponderEvent::Request(text)))
                    }
                    Err(error) => {
                        let input = input.clone();
                        self.refuse(input, error.message()).await
                    }
                }
            }
            QuestionChannel::Nobody => {
                let input = self.open[0].clone();
                self.refuse(input, "The client cannot be asked without a session and a stream")
                    .await
            }
            QuestionChannel::Rounds(_) => self.round().await,
        }
    }

    /// Refuses a question for the client, which cannot be asked.
    async fn refuse(&mut self, input: Input, why: &str) -> Result<Option<ResponderEvent>, RpcError> {
        let engine = &self.calls.engine;
        let written = engine.refuse_question(self.waiting.id(), input.key.clone(), why).await;
        written.map_err(store_failed)?;
        self.open.retain(|open| open.key != input.key);
        Ok(None)
    }

    /// Gives the call the answers that came with this request; what is open then is asked with its response.
    async fn round(&mut self) -> Result<Option<ResponderEvent>, RpcError> {
        let QuestionChannel::Rounds(answers) = &mut self.questions else {
            return Ok(None);
        };
        let answered: Vec<&Input> = self.open.iter().filter(|input| answers.to(input).is_some()).collect();
        // All of them are checked before any is written: a request is refused as a whole.
        for input in &answered {
            if let Some(answer) = answers.to(input) {
                check_answer(&input.request, answer)?;
            }
        }
        if answered.is_empty() {
            return Box::pin(self.ask_round())
                .await
                .map(|response| Some(ResponderEvent::Response(response)));
        }
        self.stale = true;
        let answered: Vec<Input> = answered.into_iter().cloned().collect();
        for input in answered {
            let Some(answer) = answers.to(&input).cloned() else {
                continue;
            };
            let engine = &self.calls.engine;
            let written = engine
                .answer_question(self.waiting.id(), input.key.clone(), answer, AnsweredBy::Client)
                .await;
            written.map_err(store_failed)?;
            answers.remove(&input);
        }
        self.open.clear();
        Ok(None)
    }

    async fn ask_round(&mut self) -> Result<FinalResponse, RpcError> {
        let (QuestionChannel::Rounds(answers), CallHold::Request(hold)) = (&self.questions, &mut self.hold) else {
            return Err(call_ended());
        };
        let until = self.calls.engine.ports().clock.now().plus(LIFETIME);
        if !hold.ask(until).await.map_err(store_failed)? {
            return Err(call_ended());
        }
        let shown = shown(&self.open);
        let state = RoundState::Call {
            task: self.waiting.id().as_str().to_owned(),
            asked: shown
                .iter()
                .map(|(name, input)| (name.clone(), input.key.as_str().to_owned()))
                .collect(),
        };
        let questions = shown
            .iter()
            .map(|(name, input)| (name.as_str(), input.request.as_str()));
        let response = answers
            .round
            .ask(&self.calls.interaction, &self.id, questions, &state)?;
        self.on_response = OnResponse::Keep;
        Ok(response)
    }
}

/// Questions by the names they are shown under: their author's, or else their key; each once.
fn shown(open: &[Input]) -> Vec<(String, &Input)> {
    let mut used = BTreeSet::new();
    let mut names = Vec::with_capacity(open.len());
    for input in open {
        let key = input.key.as_str();
        let more = (2..).map(|nth| format!("{key}-{nth}"));
        let own = [name_of(input), key].map(str::to_owned).into_iter();
        // The names never run out.
        let name = own.chain(more).find(|name| !used.contains(name)).unwrap_or_default();
        used.insert(name.clone());
        names.push((name, input));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{InputState, UnixMillis};

    fn input(nth: u32, name: Option<&str>) -> Input {
        Input {
            key: InputKey::nth(nth),
            name: name.map(Into::into),
            request: Json::trusted("{}"),
            state: InputState::Open,
            asked_at: UnixMillis(0),
            settled_at: None,
            answered_by: None,
        }
    }

    #[test]
    fn every_question_is_shown_under_a_name_of_its_own() {
        let open = [
            input(1, Some("who")),
            input(2, Some("in-3")),
            input(3, None),
            input(4, Some("who")),
            input(5, None),
        ];
        let names: Vec<String> = shown(&open).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["who", "in-3", "in-3-2", "in-4", "in-5"]);
    }
}
