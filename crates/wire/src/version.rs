//! The protocol revisions Longhaul knows. They are compared by this table, never as strings (C-13).

/// The two families of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Up to 2025-11-25: a handshake, sessions, and the tasks of the core protocol (G1).
    Legacy,
    /// From 2026-07-28: every request stands alone; tasks are an extension (G2).
    Modern,
}

/// A known revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26. Its batches are refused (L-01 clients do not send them).
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the only legacy revision with tasks.
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

impl Version {
    /// All served revisions, newest first, as `server/discover` lists them (C-36).
    pub const ALL: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The modern subset of [`ALL`](Self::ALL).
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];

    /// What a legacy request without any version speaks (T-15).
    pub const ASSUMED: Self = Self::V2025_03_26;

    /// The revision named `text`, if known.
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

    /// The family it belongs to.
    pub const fn generation(self) -> Generation {
        match self {
            Self::V2026_07_28 => Generation::Modern,
            _ => Generation::Legacy,
        }
    }

    /// Whether core tasks (G1) exist in it.
    pub const fn has_core_tasks(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// What `initialize` answers to a client that asks for `requested`: the same if it is a known legacy revision, else the
    /// best legacy one, also for 2026-07-28, which has no handshake (L-02, 2.6 rule 3).
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
