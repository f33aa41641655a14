//! Faults that tests inject, to prove that other tests find them.

use std::time::Duration;

/// A fault to be injected. Each breaks a promise of the store on purpose; never set one outside a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// Commits do not reach the disk before they are acknowledged (`synchronous=OFF`). The strace test must see it.
    SynchronousOff,
    /// Changes are acknowledged a little before they are committed (`lose-ack`). The crash harness must see it.
    AcknowledgeBeforeCommit,
    /// The commit after this many good ones fails as if the disk had refused it.
    CommitFailsAfter(u64),
}

impl InjectedFault {
    /// The `synchronous` pragma of the writer.
    pub(crate) fn synchronous(injected_fault: Option<Self>) -> &'static str {
        match injected_fault {
            Some(Self::SynchronousOff) => "OFF",
            _ => "FULL",
        }
    }

    /// Whether to acknowledge before the commit. The commit is then delayed, so that a crash can happen in between.
    pub(crate) fn acknowledges_early(injected_fault: Option<Self>) -> bool {
        injected_fault == Some(Self::AcknowledgeBeforeCommit)
    }

    /// The pause between an early acknowledgement and its commit. It is longer than most pauses between two changes under load, so that nearly every
    /// kill loses something; with a few milliseconds a run of 40 kills could lose nothing.
    #[expect(clippy::disallowed_methods, reason = "an injected fault, for tests only")]
    pub(crate) fn delay_commit() {
        std::thread::sleep(Duration::from_millis(50));
    }

    /// Whether commit number `nth`, counted from 0, is to fail.
    pub(crate) fn commit_fails(injected_fault: Option<Self>, nth: u64) -> bool {
        matches!(injected_fault, Some(Self::CommitFailsAfter(good)) if nth >= good)
    }
}
