//! Limits of one principal and of all together.
//!
//! Messages, connections and streams are counted here; live tasks and stored bytes are counted by the store, in the transaction that creates.

mod memory;
mod rate;
mod refusals;
mod tally;

use super::identity::Identity;
use longhaul_core::{Clock, Principal, QuotaExceeded};
use longhaul_wire::{Method, RpcError};
use rate::{DeniedRates, MethodRate, Rates};
use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};
use tally::{Permit, Tally};

pub(crate) use memory::{BodyReservation, BudgetExhausted, ByteBudget, Reservation, SMALL};
pub use refusals::{Limit, Refusals};
pub(crate) use tally::Full;

/// Limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one principal in a second, with bursts of twice as many. Each HTTP request to an endpoint is one, whatever it carries, and
    /// each line of stdio. Without authentication all clients are the same principal, so this limit applies only if
    /// it is set.
    pub requests_per_second: Option<NonZeroU32>,
    /// Calls of tools and requests that change a task (cancel, answer, delete) of one principal in a second, with bursts of twice as many. If it is not set: 500
    /// for each principal but [`Principal::local`] if requests are authenticated or anyone is served, else no limit.
    pub calls_per_second: Option<NonZeroU32>,
    /// All other requests of one principal in a second, with bursts of twice as many: those that read, and those about a session. If it is not set: 2000, as for
    /// [`calls_per_second`](Self::calls_per_second).
    pub reads_per_second: Option<NonZeroU32>,
    /// Requests of one principal in a second for tasks that do not exist, or belong to another principal, with bursts of twice as many. Further ones are answered with
    /// 429 and not as unknown; requests for the principal's own tasks are served. If it is not set: 20, as for [`calls_per_second`](Self::calls_per_second).
    pub unknown_ids_per_second: Option<NonZeroU32>,
    /// Requests of all together in a second, with bursts of twice as many; by default as many as can be answered.
    pub requests_per_second_in_all: Option<NonZeroU32>,
    /// Requests from one address, or of one user on a Unix socket, that are denied in a second, with bursts of twice as many; 20 by default. Further ones are answered with 429 and not
    /// with 401, and tokens that were not accepted shortly before are not verified. Requests with credentials that are known to be valid are served.
    pub denied_per_second: Option<NonZeroU32>,
    /// HTTP connections from one address at once, 4096 by default, and never more than half of those that all together may have. A new connection has no principal yet, so connections are counted by
    /// address; behind a proxy all clients have the proxy's. One more is answered with 429, whatever it asks, and closed.
    pub connections: usize,
    /// HTTP connections of all together at once, at least 1; 8192 by default. Never more than half of the descriptors the process may have, since
    /// the store, the commands and their logs need the others. The next one waits in the kernel until one closes.
    pub connections_in_all: usize,
    /// Long-lived streams of one principal at once, 1024 by default: GET streams, subscriptions, and waits for the results of tasks. As many streams of one principal are
    /// kept for readers that resume (`Last-Event-ID`).
    pub streams: usize,
    /// The same of all together, 8192 by default.
    pub streams_in_all: usize,
    /// Bytes of request bodies that are read or worked on, and of answers that were not read yet, in all; 128 MiB by default. An eighth is kept for
    /// bodies up to 64 KiB, half is for answers. Of the rest, which is for larger bodies, no principal gets more than is left after that for the others: half of it
    /// at most. A request that does not fit is answered with 503.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            requests_per_second_in_all: None,
            calls_per_second: None,
            reads_per_second: None,
            unknown_ids_per_second: None,
            denied_per_second: NonZeroU32::new(20),
            connections: 4096,
            connections_in_all: 8192,
            streams: 1024,
            streams_in_all: 8192,
            memory: 128 << 20,
        }
    }
}

/// [`Limits::calls_per_second`] of authenticated principals: an agent makes some calls in a second.
const CALLS_PER_SECOND: NonZeroU32 = NonZeroU32::new(500).unwrap();
/// [`Limits::reads_per_second`] of authenticated principals: a client that follows many tasks polls them often.
const READS_PER_SECOND: NonZeroU32 = NonZeroU32::new(2000).unwrap();
/// [`Limits::unknown_ids_per_second`] of authenticated principals: clients ask for tasks that have expired now and then.
const UNKNOWN_IDS_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// `Retry-After` for too many tasks or bytes: it is not known when some will be freed.
const QUOTA_PAUSE: Duration = Duration::from_secs(10);
/// The same for bytes in memory, which come and go quickly.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);
/// The same for the permits of streams and connections.
const PERMIT_PAUSE: Duration = Duration::from_secs(5);

/// Why a request is not answered now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    /// Too many requests.
    #[error("Too many requests: at most {limit} in a second")]
    Rate {
        /// In a second.
        limit: u32,
        /// Until the next one is accepted.
        wait: Duration,
    },
    /// Too many calls and changes.
    #[error("Too many calls and changes: at most {limit} in a second")]
    Calls {
        /// In a second.
        limit: u32,
        /// Until the next one is accepted.
        wait: Duration,
    },
    /// Too many requests that read.
    #[error("Too many requests that read: at most {limit} in a second")]
    Reads {
        /// In a second.
        limit: u32,
        /// Until the next one is accepted.
        wait: Duration,
    },
    /// Too many requests for tasks that the sender does not have.
    #[error("Too many requests for unknown tasks: at most {limit} in a second")]
    UnknownIds {
        /// In a second.
        limit: u32,
        /// Until the next one is answered.
        wait: Duration,
    },
    /// Too many live tasks, or too many bytes.
    #[error("The call was not taken: {0}")]
    Quota(QuotaExceeded),
    /// Too many streams and waits.
    #[error("Too many streams and waits are open: at most {0}")]
    Streams(Full),
    /// Too many streams of one session.
    #[error("Too many streams are open: at most {0} of one session")]
    StreamsOfSession(usize),
    /// Too many connections.
    #[error("Too many connections are open: at most {0}")]
    Connections(Full),
    /// Too many bytes of requests.
    #[error("The server has no room for so large a request now")]
    Bodies,
    /// Too many bytes of answers.
    #[error("The server has no room for so large an answer now: others have not been read")]
    Answers,
}

impl Busy {
    /// When to try again.
    pub(crate) fn wait(&self) -> Duration {
        match self {
            Self::Rate { wait, .. }
            | Self::Calls { wait, .. }
            | Self::Reads { wait, .. }
            | Self::UnknownIds { wait, .. } => *wait,
            Self::Streams(_) | Self::StreamsOfSession(_) | Self::Connections(_) => PERMIT_PAUSE,
            Self::Quota(_) => QUOTA_PAUSE,
            Self::Bodies | Self::Answers => MEMORY_PAUSE,
        }
    }
}

impl From<Busy> for RpcError {
    /// HTTP 429, or 503, with `Retry-After`. The protocol defines no code for it, so ours is outside what it reserves.
    fn from(busy: Busy) -> Self {
        let error = RpcError::busy(busy.to_string(), busy.wait());
        match busy {
            // The server is overloaded, not the client at fault.
            Busy::Bodies | Busy::Answers => error.with_status(503),
            _ => error,
        }
    }
}

/// A principal's right to an open stream; given back when dropped.
pub(crate) type StreamPermit = Permit<Principal>;

/// Where a connection or a request comes from, for limits of senders of whom nothing else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Address(IpAddr),
    /// Clients of the trusted proxy with this address, when the headers do not say which. They share limits, and use up nobody else's.
    Unreadable(IpAddr),
    /// A user of this machine, on a Unix socket.
    User(u32),
}

impl Source {
    /// The address that the audit log names, in its own notation also where the listener maps those of version 4.
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) | Self::Unreadable(address) => Some(address.to_canonical()),
            Self::User(_) => None,
        }
    }

    /// The same for all notations of an address, and for all addresses that one host may take.
    fn canonical(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(host_of(address)),
            Self::Unreadable(proxy) => Self::Unreadable(host_of(proxy)),
            Self::User(user) => Self::User(user),
        }
    }
}

/// What an address counts for: one of version 6 for the first 64 bits of it, since a host may take any address behind them.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// The right to an open connection; given back when dropped.
pub(crate) type ConnectionPermit = Permit<Source>;

/// The counters of all limits.
pub(crate) struct Meter {
    requests: Rates,
    calls: MethodRate,
    reads: MethodRate,
    unknown_ids: MethodRate,
    denied: Option<DeniedRates>,
    connections: Tally<Source>,
    streams: Tally<Principal>,
    pub(crate) refusals: Arc<Refusals>,
}

impl Meter {
    /// With `has_defaults` for servers that also serve others than the user who runs them.
    pub(crate) fn new(limits: &Limits, has_defaults: bool, clock: &Arc<dyn Clock>) -> Self {
        let default = |most| has_defaults.then_some(most);
        Self {
            calls: MethodRate::new(limits.calls_per_second, default(CALLS_PER_SECOND), clock),
            reads: MethodRate::new(limits.reads_per_second, default(READS_PER_SECOND), clock),
            unknown_ids: MethodRate::new(limits.unknown_ids_per_second, default(UNKNOWN_IDS_PER_SECOND), clock),
            requests: Rates::new(limits.requests_per_second, limits.requests_per_second_in_all, clock),
            denied: limits.denied_per_second.map(|most| DeniedRates::new(most, clock)),
            connections: Tally::new(limits.connections, limits.connections_in_all),
            streams: Tally::new(limits.streams, limits.streams_in_all),
            refusals: Arc::default(),
        }
    }

    /// Counts a message of a principal, before any work for it.
    pub(crate) fn message(&self, principal: &Principal) -> Result<(), Busy> {
        self.refusals.note(Limit::Requests, self.requests.count(principal))
    }

    /// Counts a request by its method: it calls a tool or changes a task, or it does not.
    pub(crate) fn request(&self, method: Method, principal: &Principal) -> Result<(), Busy> {
        match method {
            Method::ToolsCall
            | Method::CallsCancel
            | Method::TasksCancel
            | Method::TasksUpdate
            | Method::TasksDelete => {
                let busy = |(limit, wait)| Busy::Calls { limit, wait };
                self.refusals
                    .note(Limit::Calls, self.calls.count(principal).map_err(busy))
            }
            _ => {
                let busy = |(limit, wait)| Busy::Reads { limit, wait };
                self.refusals
                    .note(Limit::Reads, self.reads.count(principal).map_err(busy))
            }
        }
    }

    /// Counts a request for a task that its sender does not have.
    pub(crate) fn unknown_id(&self, sender: &Identity, address: Option<IpAddr>) -> Result<(), Busy> {
        self.unknown_ids(sender, address, NonZeroU32::MIN)
    }

    /// Counts a request for so many tasks that its sender does not have, but for no more than a burst of such requests has. Senders of whom nothing is known are told apart by their address, if it is known.
    pub(crate) fn unknown_ids(&self, sender: &Identity, address: Option<IpAddr>, ids: NonZeroU32) -> Result<(), Busy> {
        let busy = |(limit, wait)| Busy::UnknownIds { limit, wait };
        let counted = match address.filter(|_| !sender.is_verified()) {
            Some(address) => {
                let of_address = Principal::named(format!("address:{}", host_of(address)));
                self.unknown_ids.count_as(sender.principal(), &of_address, ids)
            }
            None => self.unknown_ids.count_as(sender.principal(), sender.principal(), ids),
        };
        self.refusals.note(Limit::UnknownIds, counted.map_err(busy))
    }

    /// Counts a denied request, if it is known where it comes from.
    pub(crate) fn denied(&self, from: Option<Source>) -> Result<(), Busy> {
        match (&self.denied, from) {
            (Some(denied), Some(from)) => self.refusals.note(Limit::Denied, denied.count(from.canonical())),
            _ => Ok(()),
        }
    }

    /// Whether a request would be one too many if it were denied.
    pub(crate) fn check_denied(&self, from: Option<Source>) -> Result<(), Busy> {
        match (&self.denied, from) {
            (Some(denied), Some(from)) => denied.check(from.canonical()),
            _ => Ok(()),
        }
    }

    /// Counts a connection for as long as the permit lives, where all together may have `in_all`. One holder gets at most half of them.
    pub(crate) fn connection(&self, from: Source, in_all: usize) -> Result<ConnectionPermit, Busy> {
        let of_one = (in_all / 2).max(1);
        let entered = self.connections.enter_up_to(from.canonical(), of_one);
        self.refusals
            .note(Limit::Connections, entered.map_err(Busy::Connections))
    }

    /// How many connections all together may have.
    pub(crate) fn most_connections(&self) -> usize {
        self.connections.in_all
    }

    /// How many connections and streams are open.
    pub(crate) fn open(&self) -> (usize, usize) {
        (self.connections.count(), self.streams.count())
    }

    /// Counts a stream for as long as the permit lives.
    pub(crate) fn stream(&self, principal: &Principal) -> Result<StreamPermit, Busy> {
        let entered = self.streams.enter(principal.clone());
        self.refusals.note(Limit::Streams, entered.map_err(Busy::Streams))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_07_an_address_of_version_4_is_named_as_one() {
        let named = |text: &str| {
            Source::Address(text.parse().expect("an address"))
                .address()
                .map(|address| address.to_string())
        };
        for (address, name) in [("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1")] {
            assert_eq!(named(address).as_deref(), Some(name));
        }
    }

    #[test]
    fn s_06_all_addresses_of_a_host_count_together() {
        let counts_for = |text: &str| Source::Address(text.parse().expect("an address")).canonical();
        for (one, other, same) in [
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
        ] {
            assert_eq!(counts_for(one) == counts_for(other), same, "{one} {other}");
        }
    }
}
