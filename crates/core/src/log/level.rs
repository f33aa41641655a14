//! The severity of a log message: the levels of RFC 5424.

use std::fmt;

/// The severity of a log message, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details.
    Debug,
    /// All is well.
    Info,
    /// Normal, but significant.
    Notice,
    /// Not yet wrong.
    Warning,
    /// Wrong.
    Error,
    /// A part has failed.
    Critical,
    /// Someone must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// All of them, rising.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of this name; `None` for any other text.
    ///
    /// ```
    /// use longhaul_core::LogLevel;
    /// assert_eq!(LogLevel::parse("warning"), Some(LogLevel::Warning));
    /// assert!(LogLevel::parse("loud").is_none());
    /// ```
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
