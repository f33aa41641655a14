//! Methods of a server's own.

use crate::{dispatch::Call, handler, response::Answer, transport::front::Front};
use longhaul_core::Json;
use longhaul_runtime::CustomMethod;
use longhaul_wire::{Generation, RpcError, legacy, modern};
use serde_json::value::RawValue;
use std::sync::Arc;

pub(crate) fn answer(
    front: &Arc<Front>,
    call: &Call<'_>,
    own: Arc<CustomMethod>,
    params: Option<&RawValue>,
) -> Result<Answer, RpcError> {
    let params = params.map_or_else(|| Json::trusted("{}"), Json::from);
    let (writer, generation) = (Arc::clone(front), call.caller.generation);
    handler::answer(
        front,
        call,
        None,
        Box::new(move |cx| Arc::clone(&own.handler).call(params, cx)),
        RpcError::invalid_params("There is nothing of this name"),
        Box::new(move |out, id, result| match generation {
            Generation::Legacy => legacy::result::write(out, id, result),
            Generation::Modern => modern::result::write(out, id, result, None, &writer.identity),
        }),
    )
}
