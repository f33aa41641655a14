//! `dev.longhaul/calls/cancel`: a call that was made under an idempotency key is cancelled by whoever knows the key. It goes on when its request ends, so nothing
//! else cancels it once its caller has gone. An extension of Longhaul, in both generations.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    response::{Answer, store_failed},
};
use longhaul_core::CancelMode;
use longhaul_wire::{Generation, RpcError, legacy, modern};

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let tool = request.params.call_tool()?.name;
    let Some(key) = request.meta.idempotency_key()? else {
        return Err(RpcError::invalid_params(
            "params._meta has no dev.longhaul/idempotency-key: it says which call to cancel",
        ));
    };
    let mode = match request.caller.generation {
        Generation::Legacy => CancelMode::AtOnce,
        Generation::Modern => CancelMode::Cooperative,
    };
    let principal = &request.caller.scope().principal;
    let cancelled = methods.engine.cancel_keyed(principal, &tool, &key, mode).await;
    let task = cancelled
        .map_err(store_failed)?
        .ok_or_else(|| RpcError::invalid_params("Call not found"))?;
    Ok(Answer::result(request.id, |out| match request.caller.generation {
        Generation::Legacy => legacy::tasks::write_call_status(out, &task),
        Generation::Modern => modern::tasks::write_call_status(out, &task, &methods.server_info),
    }))
}
