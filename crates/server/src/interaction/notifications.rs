//! What running work says, told to the client whose request it answers, as far as that client wants to hear it (U-01, U-09).

use crate::{admission::request::AdmittedRequest, interaction::Interaction, response::KeptId};
use longhaul_core::{LogLevel, Progress};
use longhaul_runtime::ToolMessage;
use longhaul_wire::{Generation, RpcError, legacy::input_request::write_elicitation_complete, notification};

/// What one client wants to hear, and what it has been told.
pub(crate) struct Telling {
    token: Option<KeptId>,
    told: Option<f64>,
    level: Option<LogLevel>,
    /// Whether it can be sent to a page and is to hear when what there was to do there is done: modern clients are not (C-32).
    pages: bool,
}

impl Telling {
    /// What the sender of a request wants to hear: no progress without a token; of log messages those at and above a level, which
    /// a modern request names itself and a legacy session has set.
    ///
    /// # Errors
    /// −32602 if the token is neither string nor integer, or the level is none.
    pub(crate) fn wanted(interaction: &Interaction, request: &AdmittedRequest<'_>) -> Result<Self, RpcError> {
        let level = match request.caller.generation {
            Generation::Modern => request.meta.log_level()?,
            Generation::Legacy => {
                let session = request.caller.session();
                session.map(|session| interaction.sessions.preferences.level(&session.key))
            }
        };
        Ok(Self {
            token: request.meta.progress_token()?.map(KeptId::of),
            told: None,
            level,
            pages: request
                .caller
                .session()
                .is_some_and(|session| session.abilities.elicit_url),
        })
    }

    /// The notification to send, if the client is to hear of this.
    pub(crate) fn tell(&mut self, said: &ToolMessage) -> Option<String> {
        match said {
            ToolMessage::Progress {
                current,
                total,
                message,
            } => self.progress(*current, *total, message.as_deref()),
            ToolMessage::Log { level, logger, data } => {
                self.level.filter(|least| level >= least)?;
                let mut text = String::new();
                notification::write_log(&mut text, *level, logger.as_deref(), data.as_str(), None);
                Some(text)
            }
            ToolMessage::ElicitationComplete { id } => {
                let mut text = String::new();
                write_elicitation_complete(&mut text, id);
                self.pages.then_some(text)
            }
            ToolMessage::Quiet => None,
        }
    }

    /// Only what rises: it must, and a tool may say anything.
    fn progress(&mut self, current: f64, total: Option<f64>, message: Option<&str>) -> Option<String> {
        let token = self.token.as_ref()?;
        let risen = current.is_finite() && self.told.is_none_or(|told| current > told);
        if !risen {
            return None;
        }
        self.told = Some(current);
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), Progress { current, total }, message, None);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::Json;
    use longhaul_wire::RequestId;
    use serde_json::value::RawValue;

    fn telling(token: Option<&str>, level: Option<LogLevel>) -> Telling {
        let raw = token.map(|token| RawValue::from_string(token.to_owned()).unwrap());
        Telling {
            token: raw.map(|raw| KeptId::of(RequestId::from_raw(&raw).unwrap())),
            told: None,
            level,
            pages: false,
        }
    }

    fn progress(current: f64) -> ToolMessage {
        ToolMessage::Progress {
            current,
            total: None,
            message: None,
        }
    }

    #[test]
    fn only_what_rises_is_told_whatever_the_tool_says() {
        let mut telling = telling(Some(r#""t""#), None);
        let said = [f64::NAN, 5.0, 5.0, 4.0, f64::NAN, f64::INFINITY, 6.0, -1.0, 6.5];
        let told = said.map(|current| telling.tell(&progress(current)).is_some());
        assert_eq!(told, [false, true, false, false, false, false, true, false, true]);
    }

    #[test]
    fn nothing_is_told_without_a_token() {
        assert_eq!(telling(None, Some(LogLevel::Debug)).tell(&progress(1.0)), None);
    }

    #[test]
    fn c_32_the_end_of_a_page_is_told_to_those_who_can_be_sent_to_one() {
        let over = ToolMessage::ElicitationComplete { id: "e".into() };
        let told = |pages| {
            let mut telling = telling(None, None);
            telling.pages = pages;
            telling.tell(&over)
        };
        assert_eq!(told(false), None);
        assert!(told(true).unwrap().contains(r#""elicitationId":"e""#));
    }

    #[test]
    fn log_messages_are_told_from_the_level_on_and_not_at_all_without_one() {
        let log = |level| ToolMessage::Log {
            level,
            logger: None,
            data: Json::trusted("1"),
        };
        let told = |wanted| LogLevel::ALL.map(|level| telling(None, wanted).tell(&log(level)).is_some());
        assert_eq!(told(None), [false; 8]);
        let (f, t) = (false, true);
        assert_eq!(told(Some(LogLevel::Warning)), [f, f, f, t, t, t, t, t]);
    }
}
