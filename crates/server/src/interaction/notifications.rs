//! Progress and log messages that go out before the response to a request. A client gets those that its request asks for.

use super::progress::HighestProgress;
use crate::{admission::request::AdmittedRequest, interaction::Interaction, response::OwnedRequestId};
use longhaul_core::{Json, LogLevel, Progress};
use longhaul_runtime::ToolMessage;
use longhaul_wire::{Generation, RequestId, RpcError, legacy::input_request::write_elicitation_complete, notification};

/// Which notifications one request asks for.
pub(crate) struct RequestNotifications {
    token: Option<OwnedRequestId>,
    highest: HighestProgress,
    /// The total that was sent last.
    total: Option<f64>,
    level: Option<LogLevel>,
    /// Whether the client is notified when an elicitation by URL is complete: modern clients are not.
    elicitation_complete: bool,
}

impl RequestNotifications {
    /// What a request asks for: no progress without a token; log messages from a level on, which
    /// a modern request names itself and a legacy session has set.
    ///
    /// # Errors
    /// −32602 if the token is neither string nor integer, or the level is none.
    pub(crate) fn requested_by(interaction: &Interaction, request: &AdmittedRequest<'_>) -> Result<Self, RpcError> {
        let level = match request.caller.generation {
            Generation::Modern => {
                let level = request.meta.log_level()?;
                if let Some(level) = level {
                    interaction.engine.catalog().ask_for_logs(level);
                }
                level
            }
            Generation::Legacy => {
                let session = request.caller.session();
                session.map(|session| interaction.sessions.preferences.level(&session.key))
            }
        };
        Ok(Self {
            token: request.meta.progress_token()?.map(OwnedRequestId::of),
            highest: HighestProgress::default(),
            total: None,
            level,
            elicitation_complete: request
                .caller
                .session()
                .is_some_and(|session| session.capabilities.elicitation_url),
        })
    }

    /// The notification to send for a message of the work, if the request asks for it.
    pub(crate) fn message_for(&mut self, message: &ToolMessage) -> Option<String> {
        match message {
            ToolMessage::Progress {
                current,
                total,
                message,
                relayed,
            } => {
                let progress = Progress {
                    current: *current,
                    total: *total,
                };
                self.progress(progress, message.as_deref(), relayed.as_ref())
            }
            ToolMessage::Log {
                level,
                logger,
                data,
                relayed,
            } => {
                self.level.filter(|least| level >= least)?;
                let (mut text, data) = (String::new(), data.as_str());
                notification::write_log(&mut text, *level, logger.as_deref(), data, None, relayed.as_ref());
                Some(text)
            }
            ToolMessage::ElicitationComplete { id } => {
                let mut text = String::new();
                write_elicitation_complete(&mut text, id);
                self.elicitation_complete.then_some(text)
            }
            ToolMessage::CloseStream | ToolMessage::Begins | ToolMessage::BecomesTask => None,
        }
    }

    /// The token for progress, if the client asks for it.
    pub(crate) fn token(&self) -> Option<RequestId<'_>> {
        self.token.as_ref().map(OwnedRequestId::get)
    }

    /// Whether the client asks for progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.token.is_some()
    }

    /// Tells the client that silent work goes on, with its status line: many clients give up a request of which they hear nothing for a minute or five.
    pub(crate) fn heartbeat(&mut self, status: Option<&str>) -> Option<String> {
        let token = self.token.as_ref()?;
        let progress = Progress {
            current: self.highest.rise(),
            total: self.total,
        };
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, status, None, None);
        Some(text)
    }

    fn progress(&mut self, progress: Progress, message: Option<&str>, relayed: Option<&Json>) -> Option<String> {
        let token = self.token.as_ref()?;
        if !self.highest.rises_to(progress.current) {
            return None;
        }
        self.total = progress.total;
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, message, None, relayed);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn notifications(token: Option<&str>, level: Option<LogLevel>) -> RequestNotifications {
        let raw = token.map(|token| RawValue::from_string(token.to_owned()).unwrap());
        RequestNotifications {
            token: raw.map(|raw| OwnedRequestId::of(RequestId::from_raw(&raw).unwrap())),
            highest: HighestProgress::default(),
            total: None,
            level,
            elicitation_complete: false,
        }
    }

    fn progress(current: f64) -> ToolMessage {
        ToolMessage::Progress {
            current,
            total: None,
            message: None,
            relayed: None,
        }
    }

    #[test]
    fn only_rising_progress_is_sent_whatever_the_tool_reports() {
        let mut notifications = notifications(Some(r#""t""#), None);
        let reported = [f64::NAN, 5.0, 5.0, 4.0, f64::NAN, f64::INFINITY, 6.0, -1.0, 6.5];
        let sent = reported.map(|current| notifications.message_for(&progress(current)).is_some());
        assert_eq!(sent, [false, true, false, false, false, false, true, false, true]);
    }

    #[test]
    fn heartbeats_rise_between_what_the_tool_reports() {
        let mut notifications = notifications(Some(r#""t""#), None);
        let mut sent = |reported: Option<f64>| -> Option<serde_json::Value> {
            let text = match reported {
                Some(current) => notifications.message_for(&ToolMessage::Progress {
                    current,
                    total: Some(9.0),
                    message: None,
                    relayed: None,
                }),
                None => notifications.heartbeat(Some("line")),
            };
            serde_json::from_str(&text?).ok()
        };
        let (mut last, script) = (0.0, [None, None, Some(2.0), None, Some(3.0), Some(1e300), None]);
        for reported in script {
            let sent = sent(reported).unwrap();
            let current = sent["params"]["progress"].as_f64().unwrap();
            assert!(current > last, "{current} after {last}");
            assert!(reported.is_some() || sent["params"]["message"] == "line");
            assert_eq!(sent["params"]["total"].is_null(), last < 1.0 && reported.is_none());
            last = current;
        }
    }

    #[test]
    fn no_progress_is_sent_without_a_token() {
        let mut untold = notifications(None, Some(LogLevel::Debug));
        assert_eq!(untold.message_for(&progress(1.0)), None);
    }

    #[test]
    fn c_32_a_completed_elicitation_is_sent_to_clients_that_declare_urls() {
        let over = ToolMessage::ElicitationComplete { id: "e".into() };
        let sent = |elicitation_complete| {
            let mut notifications = notifications(None, None);
            notifications.elicitation_complete = elicitation_complete;
            notifications.message_for(&over)
        };
        assert_eq!(sent(false), None);
        assert!(sent(true).unwrap().contains(r#""elicitationId":"e""#));
    }

    #[test]
    fn log_messages_are_sent_from_the_level_on_and_not_at_all_without_one() {
        let log = |level| ToolMessage::Log {
            level,
            logger: None,
            data: Json::trusted("1"),
            relayed: None,
        };
        let sent = |wanted| LogLevel::ALL.map(|level| notifications(None, wanted).message_for(&log(level)).is_some());
        assert_eq!(sent(None), [false; 8]);
        let (f, t) = (false, true);
        assert_eq!(sent(Some(LogLevel::Warning)), [f, f, f, t, t, t, t, t]);
    }
}
