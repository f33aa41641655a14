//! How many bytes of bodies and answers the server holds at once.
//!
//! Memory is reserved for a body as it arrives, and released when its answer was sent. Nothing waits for memory while it holds some of the same kind:
//! bodies and answers have separate budgets, so that no answer waits for a body.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Notify;

/// Up to this size bodies and answers are not counted: connections are limited, and polls should cost nothing.
pub(crate) const UNCOUNTED: usize = 8 * 1024;
/// A body up to this size may use the share that is kept for small ones: polls, answers, cancels.
pub(crate) const SMALL: usize = 64 * 1024;

/// The memory budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The budget of one kind of bytes.
struct Pool {
    most: usize,
    reserved: AtomicUsize,
    freed: Notify,
}

impl Pool {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            reserved: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let more = |reserved: usize| reserved.checked_add(bytes).filter(|reserved| *reserved <= self.most);
        let reserved = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        reserved.map(drop).map_err(|_| Exhausted)
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            self.freed.notify_waiters();
        }
    }
}

/// Bytes that are reserved; given back when dropped.
pub(crate) struct Reservation {
    pool: Arc<Pool>,
    bytes: usize,
}

impl Reservation {
    /// Takes more, all or nothing.
    fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.pool.take(bytes.saturating_sub(self.bytes))?;
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

impl Reservation {
    /// Adds another reservation of the same kind.
    pub(crate) fn join(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.pool, &other.pool) {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes);
    }
}

/// The memory budget of a server: an eighth for small bodies, three eighths for large ones, half for answers.
pub(crate) struct ByteBudget {
    small: Arc<Pool>,
    large: Arc<Pool>,
    answers: Arc<Pool>,
}

impl ByteBudget {
    /// `bytes` in all; more if a single body may be larger than its part of them.
    pub(crate) fn new(bytes: usize, largest_body: usize) -> Self {
        Self {
            small: Pool::new((bytes / 8).max(SMALL)),
            large: Pool::new((bytes / 8 * 3).max(largest_body)),
            answers: Pool::new(bytes / 2),
        }
    }

    /// A reservation for a body of which nothing has been read.
    pub(crate) fn body(&self) -> BodyReservation<'_> {
        BodyReservation {
            budget: self,
            reservation: None,
        }
    }

    /// Completes when a body of so many bytes would fit; nothing is reserved.
    pub(crate) async fn fits(&self, bytes: usize) {
        self.large.until(|| self.large.fits(bytes)).await;
    }

    /// Reserves memory for an answer. One that is larger than the whole budget takes all of it.
    pub(crate) fn reserve_for_answer(&self, bytes: usize) -> Result<Option<Reservation>, Exhausted> {
        if bytes <= UNCOUNTED {
            return Ok(None);
        }
        let bytes = bytes.min(self.answers.most);
        self.answers.take(bytes)?;
        Ok(Some(Reservation {
            pool: Arc::clone(&self.answers),
            bytes,
        }))
    }

    /// Waits until memory for an answer can be reserved.
    pub(crate) async fn wait_for_answer(&self, bytes: usize) -> Option<Reservation> {
        self.answers.until(|| self.reserve_for_answer(bytes).ok()).await
    }
}

impl Pool {
    fn fits(&self, bytes: usize) -> Option<()> {
        let free = self.most.saturating_sub(self.reserved.load(Ordering::Relaxed));
        (bytes <= free).then_some(())
    }

    async fn until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(found) = check() {
                return found;
            }
            freed.await;
        }
    }
}

/// What a body has reserved so far.
pub(crate) struct BodyReservation<'a> {
    budget: &'a ByteBudget,
    reservation: Option<Reservation>,
}

impl BodyReservation<'_> {
    /// Grows the reservation to `bytes`. If that fails it keeps what it had.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if bytes <= UNCOUNTED {
            return Ok(());
        }
        if let Some(reservation) = &mut self.reservation
            && (bytes <= SMALL || Arc::ptr_eq(&reservation.pool, &self.budget.large))
        {
            return match reservation.grow(bytes) {
                Err(Exhausted) if Arc::ptr_eq(&reservation.pool, &self.budget.small) => {
                    self.enter(&self.budget.large, bytes)
                }
                grown => grown,
            };
        }
        if bytes <= SMALL && self.enter(&self.budget.small, bytes).is_ok() {
            return Ok(());
        }
        self.enter(&self.budget.large, bytes)
    }

    /// Moves to another pool; it keeps its old reservation if that fails.
    fn enter(&mut self, pool: &Arc<Pool>, bytes: usize) -> Result<(), Exhausted> {
        pool.take(bytes)?;
        self.reservation = Some(Reservation {
            pool: Arc::clone(pool),
            bytes,
        });
        Ok(())
    }

    /// What is reserved, to be kept as long as the request.
    pub(crate) fn keep(self) -> Option<Reservation> {
        self.reservation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    const BUDGET: usize = 8 << 20;

    fn reserved(budget: &ByteBudget) -> [usize; 3] {
        [&budget.small, &budget.large, &budget.answers].map(|pool| pool.reserved.load(Ordering::Relaxed))
    }

    proptest! {
        /// Compares with a list of the reservations.
        #[test]
        fn reservations_stay_within_the_budget_and_are_released(
            steps in prop::collection::vec((0..3u8, 1..3_000_000usize, any::<prop::sample::Index>()), 1..200),
        ) {
            let budget = ByteBudget::new(BUDGET, 1 << 20);
            let mut bodies: Vec<(usize, BodyReservation<'_>)> = Vec::new();
            let mut answers: Vec<(usize, Option<Reservation>)> = Vec::new();
            for (what, bytes, which) in steps {
                match what {
                    0 => {
                        // In pieces, as it is read.
                        let mut reservation = budget.body();
                        let grown = (1..=4).try_for_each(|part| reservation.grow(bytes / 4 * part));
                        if grown.is_ok() {
                            bodies.push((bytes / 4 * 4, reservation));
                        }
                    }
                    1 => if let Ok(reservation) = budget.reserve_for_answer(bytes) {
                        answers.push((bytes, reservation));
                    }
                    _ if !bodies.is_empty() => drop(bodies.swap_remove(which.index(bodies.len()))),
                    _ if !answers.is_empty() => drop(answers.swap_remove(which.index(answers.len()))),
                    _ => {}
                }
                let counted = |bytes: usize| if bytes <= UNCOUNTED { 0 } else { bytes };
                let [small, large, of_answers] = reserved(&budget);
                prop_assert_eq!(small + large, bodies.iter().map(|(bytes, _)| counted(*bytes)).sum::<usize>());
                prop_assert_eq!(of_answers, answers.iter().map(|(bytes, _)| counted(*bytes)).sum::<usize>());
                prop_assert!(small + large + of_answers <= BUDGET);
            }
            drop((bodies, answers));
            prop_assert_eq!(reserved(&budget), [0; 3]);
        }
    }

    #[test]
    fn small_bodies_have_a_share_that_large_ones_cannot_take() {
        let budget = ByteBudget::new(BUDGET, 1 << 20);
        let mut large = Vec::new();
        loop {
            let mut reservation = budget.body();
            if reservation.grow(SMALL + 1).is_err() {
                break;
            }
            large.push(reservation);
        }
        let mut small = budget.body();
        assert_eq!(small.grow(SMALL), Ok(()));
        assert_eq!(small.grow(SMALL + 1), Err(Exhausted), "it is a large one by now");
        assert!(
            budget.reserve_for_answer(SMALL).is_ok(),
            "bodies are in no answer's way"
        );
    }

    #[test]
    fn an_answer_larger_than_the_budget_reserves_all_of_it() {
        let budget = ByteBudget::new(BUDGET, 1 << 20);
        let reservation = budget.reserve_for_answer(10 * BUDGET).expect("the budget is unused");
        assert!(budget.reserve_for_answer(UNCOUNTED + 1).is_err());
        let mut waits = Box::pin(budget.wait_for_answer(UNCOUNTED + 1));
        assert!((&mut waits).now_or_never().is_none());
        drop(reservation);
        assert!(waits.now_or_never().is_some_and(|reservation| reservation.is_some()));
    }
}
