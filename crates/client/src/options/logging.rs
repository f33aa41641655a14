//! Log messages of servers.

use longhaul_core::{Json, LogLevel};
use longhaul_wire::{Method, jsonrpc::Notification};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::sync::Arc;

/// Which log messages servers are asked for, and who gets them: [`Options::logging`](crate::Options::logging).
///
/// A legacy server may send them at any time; a modern one only while it answers a request. The text is the server's, so do not trust it.
///
/// ```
/// use longhaul_client::{LogLevel, Logging, Options};
/// let mut options = Options::named("example", "1.0");
/// options.logging = Some(Logging::new(LogLevel::Info, |message| eprintln!("{}: {}", message.level.as_str(), message.data)));
/// ```
#[derive(Clone)]
pub struct Logging {
    level: Arc<Mutex<LogLevel>>,
    handler: Arc<dyn Fn(LogMessage) + Send + Sync>,
}

/// A log message of a server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// Its severity.
    pub level: LogLevel,
    /// The part of the server that it comes from.
    pub logger: Option<String>,
    /// What it says: often a text, but any JSON.
    pub data: Value,
    /// All of it, as the server wrote it.
    pub params: Json,
    /// The [number](crate::CallOptions::source) of the request on whose stream it came, if it has one.
    pub source: Option<u64>,
}

impl Logging {
    /// Asks for messages of `level` and above. The handler should return quickly, since the connection waits for it.
    pub fn new(level: LogLevel, handler: impl Fn(LogMessage) + Send + Sync + 'static) -> Self {
        Self {
            level: Arc::new(Mutex::new(level)),
            handler: Arc::new(handler),
        }
    }

    pub(crate) fn level(&self) -> LogLevel {
        *self.level.lock()
    }

    /// Returns whether it was another level before.
    pub(crate) fn set_level(&self, level: LogLevel) -> bool {
        std::mem::replace(&mut *self.level.lock(), level) != level
    }

    /// Passes a notification on, if it is a log message of a wanted level.
    pub(crate) fn notify(&self, notification: &Notification<'_>, source: Option<u64>) {
        #[derive(Deserialize)]
        struct Params<'a> {
            level: String,
            logger: Option<String>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        if notification.method != Method::LogMessage.as_str() {
            return;
        }
        let Some(written) = notification.raw_params() else {
            return;
        };
        let Ok(params) = serde_json::from_str::<Params<'_>>(written.get()) else {
            return;
        };
        // A number may be too large for a `Value`.
        let value = |data: &RawValue| serde_json::from_str(data.get()).unwrap_or_else(|_| data.get().into());
        match LogLevel::parse(&params.level) {
            Some(level) if level >= self.level() => (self.handler)(LogMessage {
                level,
                logger: params.logger,
                data: params.data.map(value).unwrap_or_default(),
                params: Json::from(written),
                source,
            }),
            _ => {}
        }
    }
}
