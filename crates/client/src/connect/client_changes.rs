//! What a client tells a connected server that has changed: its roots and its log level.

use crate::{Connection, LogLevel, RequestError, connect::era, options::params_text::members_of};
use longhaul_core::{JsonMembers, ParsedJson};
use longhaul_wire::Method;
use serde_json::Map;

impl Connection {
    /// Asks for log messages of `level` and above from now on, if [`Options::logging`](crate::Options::logging) says who gets them: a modern server with each request, a legacy one that
    /// declares logging at once. Connections whose options have clones of the same [`Logging`](crate::Logging) share the level.
    ///
    /// # Errors
    /// Any [`RequestError`] of a legacy server that is connected. One that is not is asked when it is.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), RequestError> {
        let Some(logging) = &self.options().logging else {
            return Ok(());
        };
        let has_changed = logging.set_level(level);
        let Some(era) = self
            .known_era()
            .await
            .filter(|era| has_changed && era.legacy().is_some())
        else {
            return Ok(());
        };
        if era.server().capabilities["logging"].is_object() {
            let params = Map::from_iter([("level".to_owned(), level.as_str().into())]);
            self.request(Method::LoggingSetLevel, params).await?;
        }
        Ok(())
    }

    /// Tells a legacy server that is connected that the roots have changed: see [`InputHandler::roots_change`](crate::InputHandler::roots_change).
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn roots_changed(&self) -> Result<(), RequestError> {
        match self.known_era().await.filter(|era| era.legacy().is_some()) {
            Some(era) => {
                let message = era::build_message(Method::RootsListChanged.as_str(), None, Map::new());
                self.send_message(&era, message).await.map(drop)
            }
            None => Ok(()),
        }
    }

    /// Sends a notification that MCP does not define. Connects if there is no connection.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`], and nothing is sent, if `params` is not an object.
    pub async fn notify(&self, method: &str, params: impl Into<ParsedJson>) -> Result<(), RequestError> {
        let params: ParsedJson = params.into();
        if !(params.is_object() || params.is_null()) {
            return Err(RequestError::Invalid("params must be an object".to_owned()));
        }
        let written = members_of(params.as_json());
        let era = self.era().await?;
        let message = era::build_written(method, None, Map::new(), &written, &JsonMembers::new());
        self.send_message(&era, message).await.map(drop)
    }
}
