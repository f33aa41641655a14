//! `ping` (legacy).

use crate::methods::Methods;
use crate::{admission::request::AdmittedRequest, response::Answer};
use longhaul_wire::RpcError;

pub(crate) fn answer(_: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    Ok(Answer::empty(request.id))
}
