//! `initialize` (legacy): settles a revision and begins a session that its id carries.

use super::server_discover::features;
use crate::{admission::caller, dispatch::Call, response::Answer, session::Session, transport::front::Front};
use longhaul_wire::{RpcError, Version, jsonrpc::write_result, legacy};
use std::sync::Arc;

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let wish = call.params.initialize()?;
    let version = Version::negotiate(&wish.protocol_version);
    let abilities = caller::abilities(&wish.capabilities);
    let ports = front.engine.ports();
    let session = Session::begin(
        version,
        abilities,
        front.principal.clone(),
        wish.client_info,
        ports.clock.now(),
        &*ports.entropy,
    );
    let mut text = String::new();
    write_result(&mut text, call.id, |out| {
        legacy::handshake::write_initialize(out, version, &features(front), &front.identity);
    });
    Ok(Answer::Session {
        text,
        session: Box::new(session),
    })
}
