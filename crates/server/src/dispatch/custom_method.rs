//! Methods that the server's author has defined.

use crate::{admission::request::AdmittedRequest, handler, interaction::Interaction, response::Answer};
use longhaul_core::Json;
use longhaul_runtime::CustomMethod;
use longhaul_wire::RpcError;
use serde_json::value::RawValue;
use std::sync::Arc;

pub(crate) fn call(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    own: Arc<CustomMethod>,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    let params = params.map_or_else(|| Json::trusted("{}"), Json::from);
    handler::answer_with(
        interaction,
        request,
        None,
        Box::new(move |cx| Arc::clone(&own.handler).call(params, cx)),
        RpcError::invalid_params("There is nothing of this name"),
        handler::result_writer(&interaction.identity, request.caller.generation),
    )
}
