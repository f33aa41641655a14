//! Notifications of clients that the server's author wants to know of.

use super::custom_method::object;
use crate::admission::caller::Caller;
use longhaul_core::Principal;
use longhaul_runtime::{Engine, RequestContext};
use longhaul_wire::{Method, RpcError, jsonrpc::Notification};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many handlers of notifications may run at once for one principal. Beyond that, its next notification waits to be taken.
const MOST_RUNNING: usize = 64;

/// Starts the author's handler of a notification, if there is one. It does not hold up the messages that come after it.
///
/// # Errors
/// −32602 if `_meta` is malformed.
pub(super) async fn pass_to_author(
    engine: &Engine,
    slots: &NotificationSlots,
    caller: &Caller,
    notification: &Notification<'_>,
) -> Result<(), RpcError> {
    let author = Arc::clone(&engine.catalog().snapshot().author);
    let known = author.notifications.get(&*notification.method);
    let fallback = || (author.fallback_notification.as_ref()).filter(|_| !Method::is_known(&notification.method));
    let Some(handler) = known.or_else(fallback).cloned() else {
        return Ok(());
    };
    let requestor = Arc::new(caller.requestor(notification.params()?.meta()?)?);
    let ports = engine.ports().clone();
    let cx = RequestContext::without_channel(caller.owner(), requestor, ports);
    let (method, params) = (notification.method.to_string(), object(notification.raw_params()));
    let permit = slots.take(caller.principal()).await;
    engine.spawn(async move {
        handler.handle(method, params, cx).await;
        drop(permit);
    });
    Ok(())
}

/// Bounds the running handlers of each principal.
#[derive(Default)]
pub(super) struct NotificationSlots(Mutex<HashMap<Principal, Weak<Semaphore>>>);

impl NotificationSlots {
    /// Waits for a slot; `None` cannot occur, since no semaphore is closed.
    async fn take(&self, principal: &Principal) -> Option<OwnedSemaphorePermit> {
        let slots = self.of(principal);
        slots.acquire_owned().await.ok()
    }

    fn of(&self, principal: &Principal) -> Arc<Semaphore> {
        let mut table = self.0.lock();
        if let Some(slots) = table.get(principal).and_then(Weak::upgrade) {
            return slots;
        }
        table.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(MOST_RUNNING));
        table.insert(principal.clone(), Arc::downgrade(&slots));
        slots
    }
}
