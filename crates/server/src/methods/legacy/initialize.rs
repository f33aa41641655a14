//! `initialize` (legacy): negotiates a revision and starts a session that its id carries.

use crate::methods::Methods;
use crate::{admission::request::AdmittedRequest, catalog::features, response::Answer, session::Session};
use longhaul_wire::{RpcError, Version, jsonrpc::write_result, legacy};

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let params = request.params.initialize()?;
    let version = Version::negotiate(&params.protocol_version);
    let capabilities = params.capabilities;
    let ports = methods.engine.ports();
    let session = Session::begin(
        request.headers.is_some(),
        version,
        capabilities,
        request.caller.principal().clone(),
        params.client_info,
        ports.clock.now(),
        &*ports.entropy,
    )
    .relaying(params.relayed_capabilities.as_ref());
    let mut text = String::new();
    write_result(&mut text, request.id, |out| {
        legacy::handshake::write_initialize(
            out,
            version,
            &features::of(&methods.engine, &request.caller),
            &methods.described(request.caller.mode.handoff),
        );
    });
    Ok(Answer::Session {
        text,
        session: Box::new(session),
    })
}
