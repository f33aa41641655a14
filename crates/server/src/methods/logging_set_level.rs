//! `logging/setLevel` (legacy): from which level on a session hears log messages (U-08).

use crate::{dispatch::Call, response::Answer, transport::front::Front};
use longhaul_wire::RpcError;
use std::sync::Arc;

pub(super) fn answer(front: &Arc<Front>, call: &Call<'_>) -> Result<Answer, RpcError> {
    let level = call.params.set_level()?;
    // Without a session there is nobody to remember it for.
    if let Some(session) = call.caller.session() {
        front.legacy.wishes.set_level(session, level);
    }
    Ok(Answer::result(call.id, |out| out.push_str("{}")))
}
