//! Multi-round-trip requests of modern clients: the request is answered with questions, and sent again
//! with the answers.
//!
//! The questions come either from a handler, which is run again from its start with all answers so far, carried in the signed [`RoundState`]; or
//! from a plain call, which waits in the store, and which the state only names. Answers that come without the state of an earlier
//! round answer the questions of these names, if they are asked.

mod state;

pub(crate) use state::{Binding, RoundState};

use crate::{
    admission::request::AdmittedRequest,
    interaction::{Interaction, exchange::FinalResponse},
    response::OwnedRequestId,
};
use longhaul_core::{Json, Millis};
use longhaul_wire::{
    Generation, Method, RpcError, jsonrpc::write_result, modern::input_required, params::InputResponses,
};
use std::collections::BTreeMap;

/// How long a client may take for a round: 15 minutes.
pub(crate) const LIFETIME: Millis = 15 * 60 * 1_000;

/// What is needed of a request that can be answered with questions.
pub(crate) struct RoundRequest<'a> {
    pub(crate) method: Method,
    /// The tool's or prompt's name, or the resource's URI.
    pub(crate) target: &'a str,
    pub(crate) arguments: Option<Json>,
    pub(crate) answers: &'a InputResponses<'a>,
    pub(crate) state: Option<&'a str>,
}

/// A request's place in a series of rounds.
pub(crate) struct Round {
    binding: Binding,
    /// Where the last round left off, if there was one.
    pub(crate) state: Option<RoundState>,
    /// The answers that came with this request, by name.
    pub(crate) answers: BTreeMap<String, Json>,
}

impl Round {
    /// What a modern request carries from the round before; `None` for a legacy one.
    ///
    /// # Errors
    /// As [`RoundState::open`].
    pub(crate) fn of(
        interaction: &Interaction,
        request: &AdmittedRequest<'_>,
        asked: RoundRequest<'_>,
    ) -> Result<Option<Self>, RpcError> {
        if request.caller.generation == Generation::Legacy {
            return Ok(None);
        }
        let binding = Binding {
            principal: request.caller.principal().clone(),
            method: asked.method,
            target: asked.target.to_owned(),
            arguments: asked.arguments,
        };
        let now = interaction.engine.ports().clock.now();
        let open = |text| RoundState::open(text, &interaction.round_states, &binding, now);
        let state = asked.state.map(open).transpose()?;
        let answers = asked
            .answers
            .iter()
            .map(|(name, answer)| (name.to_string(), Json::from(*answer)));
        Ok(Some(Self {
            answers: answers.collect(),
            binding,
            state,
        }))
    }

    /// The same request without anything of an earlier round.
    pub(crate) fn anew(&self) -> Self {
        Self {
            binding: self.binding.clone(),
            state: None,
            answers: BTreeMap::new(),
        }
    }

    /// Whether it continues a plain call.
    pub(crate) fn is_of_a_call(&self) -> bool {
        matches!(self.state, Some(RoundState::Call { .. }))
    }

    /// The response to `id` that asks `questions`, by name, and carries `state` to the next round.
    ///
    /// # Errors
    /// −32602 if the state is so large that it may not fit into a request.
    pub(crate) fn ask<'a>(
        &self,
        interaction: &Interaction,
        id: &OwnedRequestId,
        questions: impl IntoIterator<Item = (&'a str, &'a str)>,
        state: &RoundState,
    ) -> Result<FinalResponse, RpcError> {
        let until = interaction.engine.ports().clock.now().plus(LIFETIME);
        let state = state.sign(&interaction.round_states, &self.binding, until);
        let most = interaction.admission.max_body / 2;
        if state.len() > most {
            return Err(RpcError::invalid_params(format!(
                "The answers so far are too large to be carried on in a requestState of {most} characters: answer more briefly"
            )));
        }
        let mut text = String::new();
        write_result(&mut text, id.get(), |out| {
            input_required::write(out, questions, Some(&state), &interaction.server_info);
        });
        Ok(FinalResponse::of(text))
    }
}

/// The call of a retry was cancelled, or its outcome is no longer kept.
pub(crate) fn call_ended() -> RpcError {
    RpcError::invalid_params("The call that params.requestState belongs to is no longer there: call again, without it")
}
