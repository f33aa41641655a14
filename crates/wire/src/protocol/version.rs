//! The protocol revisions Longhaul knows.

/// The two generations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Revisions up to 2025-11-25: a handshake, sessions, and tasks in the core protocol.
    Legacy,
    /// Revisions from 2026-07-28: every request is self-contained, and tasks are an extension.
    Modern,
}

/// A known revision. They are ordered, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26, the only revision with batches.
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the only legacy revision with tasks.
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

impl Version {
    /// All served revisions, newest first, as `server/discover` lists them.
    pub const ALL: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The modern subset of [`ALL`](Self::ALL).
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];

    /// The revision of a legacy request that names none.
    pub const ASSUMED: Self = Self::V2025_03_26;

    /// The revision `text`, if known.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// The revision's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Its generation.
    pub const fn generation(self) -> Generation {
        match self {
            Self::V2026_07_28 => Generation::Modern,
            _ => Generation::Legacy,
        }
    }

    /// Whether it has the legacy tasks.
    pub const fn has_legacy_tasks(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// The revision that `initialize` answers with: `requested` if it is a known legacy revision, else the newest legacy one. The
    /// modern revisions have no handshake.
    ///
    /// ```
    /// use longhaul_wire::Version;
    /// assert_eq!(Version::negotiate("2025-06-18"), Version::V2025_06_18);
    /// assert_eq!(Version::negotiate("2026-07-28"), Version::V2025_11_25);
    /// ```
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested)
            .filter(|version| version.generation() == Generation::Legacy)
            .unwrap_or(Self::V2025_11_25)
    }
}
