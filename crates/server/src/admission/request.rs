//! A request that was admitted, on its way to its method.

use super::caller::Caller;
use crate::audit::RequestAudit;
use longhaul_core::{SessionKey, TaskId};
use longhaul_wire::{Headers, Meta, Params, RequestId, RpcError};
use std::{net::IpAddr, sync::Arc};

/// An admitted request with its sender.
pub(crate) struct AdmittedRequest<'a> {
    pub(crate) id: RequestId<'a>,
    pub(crate) params: &'a Params<'a>,
    pub(crate) meta: &'a Meta<'a>,
    /// Those of its HTTP request.
    pub(crate) headers: Option<&'a Headers<'a>>,
    pub(crate) caller: Caller,
    /// The address that it came from, if it is asked for.
    pub(crate) address: Option<IpAddr>,
    /// The plain call that its sender comes back for: this is its `tools/call`, without the arguments.
    pub(crate) resumed_call: Option<&'a TaskId>,
    /// What the audit log is told of it.
    pub(crate) audit: Option<Arc<RequestAudit>>,
}

impl AdmittedRequest<'_> {
    /// The task it names. What cannot be an id is answered like an unknown one.
    ///
    /// # Errors
    /// −32602 if it names no task.
    pub(crate) fn task_id(&self) -> Result<TaskId, RpcError> {
        self.params.task_id()?.parse().map_err(|_| RpcError::task_not_found())
    }

    /// The session in which its sender can return on another connection, if it came over HTTP. Any other session is its connection.
    pub(crate) fn resumable_session(&self) -> Option<&SessionKey> {
        self.headers.and(self.caller.session_key())
    }
}
