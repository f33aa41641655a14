//! The faults of a round, drawn from the seed.

use fastrand::Rng;
use std::time::Duration;

pub(super) const HOSTS: usize = 3;
/// How long a node's lease lasts.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// The largest error of a clock, in seconds. With more than `retention` what has ended would rightly be deleted.
const FARTHEST: i64 = 3_600;

/// What goes wrong, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// All processes of a host are killed.
    Kill {
        host: usize,
        away: Duration,
    },
    /// They are stopped (SIGSTOP), mostly for longer than a lease, and go on.
    Pause {
        host: usize,
        away: Duration,
    },
    /// The host does not reach the database.
    Partition {
        host: usize,
        how: Partition,
        away: Duration,
    },
    /// The wall clock of the host is off by so many seconds, and then right again.
    Clock {
        host: usize,
        seconds: i64,
        away: Duration,
    },
    /// All processes of the database are killed.
    KillDatabase {
        away: Duration,
    },
    /// A host is asked to stop (SIGTERM).
    Drain {
        host: usize,
    },
    /// A host is asked to stop, and starts as a later release.
    Upgrade {
        host: usize,
    },
}

/// How the network between a host and the database fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partition {
    /// Connections break.
    Cut,
    /// Packets are lost, and sent again afterwards.
    Stalled,
    /// Packets are lost, and connections break in the end.
    StalledThenCut,
}

/// What becomes of what a host and the database send each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// It arrives.
    Open,
    /// Packets are lost: nobody is told, and they are sent again once the network works.
    Stalled,
    /// Connections break at both ends, and new ones fail at once.
    Cut,
}

impl Fault {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let host = rng.usize(..HOSTS);
        // Of every kind some are shorter than a lease and some are longer, and most are around it.
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or_default();
        let away = Duration::from_millis(rng.u64(lease / 4..lease * 7 / 4));
        match rng.u8(0..22) {
            0..2 => Self::None,
            2..6 => Self::Kill { host, away: away / 2 },
            6..10 => Self::Pause {
                host,
                away: away + LEASE / 4,
            },
            10..15 => Self::Partition {
                host,
                how: [Partition::Cut, Partition::Stalled, Partition::StalledThenCut][rng.usize(..3)],
                away: away + LEASE / 4,
            },
            15..17 => Self::KillDatabase { away: away / 4 },
            17..19 => {
                let seconds = [2, 60, FARTHEST][rng.usize(..3)];
                Self::Clock {
                    host,
                    seconds: if rng.bool() { seconds } else { -seconds },
                    away,
                }
            }
            _ => Self::Drain { host },
        }
    }

    /// In round after round one host after the other goes from an older release to this one.
    pub(super) fn upgrade(round: u32) -> Self {
        let host = usize::try_from(round).unwrap_or_default() - 1;
        Self::Upgrade { host: host % HOSTS }
    }

    pub(super) fn host(&self) -> Option<usize> {
        match *self {
            Self::None | Self::KillDatabase { .. } => None,
            Self::Kill { host, .. }
            | Self::Pause { host, .. }
            | Self::Partition { host, .. }
            | Self::Clock { host, .. }
            | Self::Drain { host }
            | Self::Upgrade { host } => Some(host),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::None => "rounds without a fault",
            Self::Kill { .. } => "hosts killed",
            Self::Pause { .. } => "hosts paused",
            Self::Partition { .. } => "hosts without the database",
            Self::Clock { .. } => "clocks set",
            Self::KillDatabase { .. } => "databases killed",
            Self::Drain { .. } => "hosts drained",
            Self::Upgrade { .. } => "hosts upgraded",
        }
    }
}
