//! Requests of someone else, forwarded.

use crate::{
    CallOptions, Connection, Observer, RequestError, call::report_progress, era::Era, origin::Origin, request::Request,
};
use longhaul_core::Json;
use longhaul_wire::jsonrpc::Notification;
use serde_json::{Map, Value};

impl Connection {
    /// Sends a request that may take long, such as `prompts/get` or `resources/read`, and returns its result as the server wrote it. What the server asks goes
    /// to [`Options::inputs`](crate::Options::inputs), with the [number](CallOptions::source) of the request. There is no timeout but
    /// [`Options::call_timeout`](crate::Options::call_timeout). Dropping the future cancels the request.
    ///
    /// Of the options only `source` and `meta` are used. For tools there is [`call_tool`](Self::call_tool).
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn forward(
        &self,
        method: &str,
        params: &Map<String, Value>,
        options: &CallOptions,
        on_event: Observer<'_>,
    ) -> Result<Json, RequestError> {
        let build = |_: &Era| {
            let mut params = params.clone();
            if !options.meta.is_empty() {
                params.insert("_meta".to_owned(), options.meta.clone().into());
            }
            Request {
                timeout: self.options().call_timeout,
                wants_progress: true,
                source: options.source,
                ..Request::new(method, params)
            }
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
