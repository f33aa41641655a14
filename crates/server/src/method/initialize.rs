//! `initialize` (legacy): settles a revision and begins a session that its id carries.

use crate::{
    answer::Answer,
    dispatch::Call,
    front::Front,
    session::{Abilities, Session},
};
use longhaul_wire::{RpcError, Version, envelope::write_result, legacy};
use std::sync::Arc;

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.initialize()?;
    let version = Version::negotiate(&wish.protocol_version);
    let abilities = Abilities {
        elicit_form: wish.capabilities.elicitation_form,
        elicit_url: wish.capabilities.elicitation_url,
        sampling: wish.capabilities.sampling,
    };
    let ports = front.engine.ports();
    let session = Session::begin(
        version,
        abilities,
        front.principal.clone(),
        ports.clock.now(),
        &*ports.entropy,
    );
    let mut text = String::new();
    write_result(&mut text, call.id, |out| {
        legacy::handshake::write_initialize(out, version, &super::discover::FEATURES, &front.identity);
    });
    Ok(Answer::Session {
        text,
        id: session.to_id(&front.sessions),
    })
}
