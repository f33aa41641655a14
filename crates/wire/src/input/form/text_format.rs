//! The kinds of text that a form can ask for.

/// A kind of text, as MCP allows it in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// An email address.
    Email,
    /// A URI.
    Uri,
    /// A day.
    Date,
    /// A date and time with a time zone.
    DateTime,
}

impl TextFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Email, Self::Uri, Self::Date, Self::DateTime];

    /// The one with this name in JSON Schema.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Its name in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    /// What it is, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "a URI",
            Self::Date => "a date",
            Self::DateTime => "a date and time with a time zone",
        }
    }

    /// A text of this kind.
    pub fn example(self) -> &'static str {
        match self {
            Self::Email => "ann@example.com",
            Self::Uri => "https://example.com/page",
            Self::Date => "2026-11-23",
            Self::DateTime => "2026-11-23T17:30:00Z",
        }
    }
}
