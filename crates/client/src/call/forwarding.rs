//! Requests of someone else, forwarded.

use crate::{
    CallOptions, Connection, Observer, RequestError,
    call::report_progress,
    connect::{
        era::Era,
        request::{Request, origin::Origin},
    },
};
use longhaul_core::{Json, JsonMembers};
use longhaul_wire::jsonrpc::Notification;
use serde_json::{Map, Value};

impl Connection {
    /// Sends a request that may take long, such as `prompts/get` or `resources/read`, and returns its result as the server wrote it. What the server asks goes
    /// to [`Options::inputs`](crate::Options::inputs), with the [number](CallOptions::source) of the request. There is no timeout but
    /// [`Options::call_timeout`](crate::Options::call_timeout). Dropping the future cancels the request.
    ///
    /// Of the options only `source` and `meta` are used; `params` are without `_meta`, and are sent as they are written. For tools there is [`call_tool`](Self::call_tool).
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn forward(
        &self,
        method: &str,
        params: &JsonMembers,
        options: &CallOptions,
        on_event: Observer<'_>,
    ) -> Result<Json, RequestError> {
        // Headers repeat some of them.
        let texts = params.iter().filter_map(|(name, written)| {
            let text: String = serde_json::from_str(written.as_str()).ok()?;
            Some((name.clone(), text.into()))
        });
        let texts: Map<String, Value> = texts.collect();
        let build = |_: &Era| Request {
            timeout: self.options().call_timeout,
            wants_progress: true,
            source: options.source,
            written: params.clone(),
            meta: options.meta.clone(),
            ..Request::new(method, texts.clone())
        };
        let on_notification = &mut |notification: Notification<'_>| report_progress(&notification, on_event);
        let origin = Origin {
            source: options.source,
            ..Origin::default()
        };
        let forwarded = self.exchange_rounds(build, on_notification, origin).await;
        forwarded.map(|(result, _)| result)
    }
}
