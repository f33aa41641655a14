//! How many bytes of bodies and answers the server holds at once.
//!
//! Memory is reserved for a body as it arrives, and released when its answer was sent. Nothing waits for memory while it holds some of the same kind:
//! bodies and answers have separate budgets, so that no answer waits for a body.
//!
//! No principal gets more for large bodies than is left for the others after that: half of what they do not have. So none can take all of it.

use super::{Busy, Limit, Refusals};
use longhaul_core::Principal;
use longhaul_wire::RpcError;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;

/// Up to this size bodies and answers are not counted: connections are limited, and polls should cost nothing.
pub(crate) const UNCOUNTED: usize = 8 * 1024;
/// A body up to this size may use the share that is kept for small ones: polls, answers, cancels.
pub(crate) const SMALL: usize = 64 * 1024;

/// The memory budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetExhausted;

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

    fn take(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let more = |reserved: usize| reserved.checked_add(bytes).filter(|reserved| *reserved <= self.most);
        let reserved = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        reserved.map(drop).map_err(|_| BudgetExhausted)
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            self.freed.notify_waiters();
        }
    }
}

/// The budget of large bodies, and how much of it each principal has.
struct LargeBodies {
    pool: Arc<Pool>,
    of_principals: Mutex<HashMap<Principal, usize>>,
}

impl LargeBodies {
    fn take(&self, principal: &Principal, bytes: usize) -> Result<(), BudgetExhausted> {
        let mut of_principals = self.of_principals.lock();
        let held = of_principals.get(principal).copied().unwrap_or_default();
        // Only under this lock something is taken.
        if !self.leaves_enough(held, bytes) {
            return Err(BudgetExhausted);
        }
        self.pool.take(bytes)?;
        of_principals.insert(principal.clone(), held + bytes);
        Ok(())
    }

    fn give_back(&self, principal: &Principal, bytes: usize) {
        {
            let mut of_principals = self.of_principals.lock();
            if let Some(held) = of_principals.get_mut(principal) {
                *held = held.saturating_sub(bytes);
                if *held == 0 {
                    of_principals.remove(principal);
                }
            }
        }
        self.pool.give_back(bytes);
    }

    fn fits(&self, principal: &Principal, bytes: usize) -> Option<()> {
        let held = self.of_principals.lock().get(principal).copied().unwrap_or_default();
        self.leaves_enough(held, bytes).then_some(())
    }

    /// Whether as much is left as a principal that has `held` would then have.
    fn leaves_enough(&self, held: usize, bytes: usize) -> bool {
        let left = self.pool.free().checked_sub(bytes);
        left.is_some_and(|left| held.checked_add(bytes).is_some_and(|held| held <= left))
    }
}

/// Where reserved bytes are given back to.
enum Budget {
    Pool(Arc<Pool>),
    LargeBodies(Arc<LargeBodies>, Principal),
}

/// Bytes that are reserved; given back when dropped.
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Takes more, all or nothing.
    fn grow(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        let more = bytes.saturating_sub(self.bytes);
        match &self.budget {
            Budget::Pool(pool) => pool.take(more)?,
            Budget::LargeBodies(large, principal) => large.take(principal, more)?,
        }
        self.bytes += more;
        Ok(())
    }

    fn is_of_large_body(&self) -> bool {
        matches!(self.budget, Budget::LargeBodies(..))
    }

    /// Adds another reservation of the same kind.
    pub(crate) fn join(&mut self, mut other: Self) {
        if let (Budget::Pool(one), Budget::Pool(another)) = (&self.budget, &other.budget)
            && Arc::ptr_eq(one, another)
        {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match &self.budget {
            Budget::Pool(pool) => pool.give_back(self.bytes),
            Budget::LargeBodies(large, principal) => large.give_back(principal, self.bytes),
        }
    }
}

/// The memory budget of a server: an eighth for small bodies, three eighths for large ones, half for answers.
pub(crate) struct ByteBudget {
    small: Arc<Pool>,
    large: Arc<LargeBodies>,
    answers: Arc<Pool>,
    refusals: Arc<Refusals>,
}

impl ByteBudget {
    /// `bytes` in all; more if a single body may be larger than what a principal can have of its part of them.
    pub(crate) fn new(bytes: usize, largest_body: usize, refusals: Arc<Refusals>) -> Self {
        Self {
            small: Pool::new((bytes / 8).max(SMALL)),
            large: Arc::new(LargeBodies {
                pool: Pool::new((bytes / 8 * 3).max(largest_body.saturating_mul(2))),
                of_principals: Mutex::default(),
            }),
            answers: Pool::new(bytes / 2),
            refusals,
        }
    }

    /// What is answered where there is no memory. Counts it.
    pub(crate) fn refuse(&self, busy: Busy) -> RpcError {
        self.refusals.count(Limit::Memory);
        busy.into()
    }

    /// A reservation for a body of this principal of which nothing has been read.
    pub(crate) fn body<'a>(&'a self, principal: &'a Principal) -> BodyReservation<'a> {
        BodyReservation {
            budget: self,
            principal,
            reservation: None,
        }
    }

    /// Completes when a large body of this principal would fit; nothing is reserved.
    pub(crate) async fn fits(&self, principal: &Principal, bytes: usize) {
        self.large.pool.until(|| self.large.fits(principal, bytes)).await;
    }

    /// Reserves memory for an answer. One that is larger than the whole budget takes all of it.
    pub(crate) fn reserve_for_answer(&self, bytes: usize) -> Result<Option<Reservation>, BudgetExhausted> {
        if bytes <= UNCOUNTED {
            return Ok(None);
        }
        let bytes = bytes.min(self.answers.most);
        self.answers.take(bytes)?;
        Ok(Some(Reservation {
            budget: Budget::Pool(Arc::clone(&self.answers)),
            bytes,
        }))
    }

    /// Waits until memory for an answer can be reserved.
    pub(crate) async fn wait_for_answer(&self, bytes: usize) -> Option<Reservation> {
        self.answers.until(|| self.reserve_for_answer(bytes).ok()).await
    }
}

impl Pool {
    fn free(&self) -> usize {
        self.most.saturating_sub(self.reserved.load(Ordering::Relaxed))
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
    principal: &'a Principal,
    reservation: Option<Reservation>,
}

impl BodyReservation<'_> {
    /// Grows the reservation to `bytes`. If that fails it keeps what it had.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        if bytes <= UNCOUNTED {
            return Ok(());
        }
        let is_small = bytes <= SMALL;
        if let Some(reservation) = &mut self.reservation
            && (is_small || reservation.is_of_large_body())
        {
            let grown = reservation.grow(bytes);
            if grown.is_ok() || reservation.is_of_large_body() {
                return grown;
            }
        } else if is_small && self.budget.small.take(bytes).is_ok() {
            self.reservation = Some(Reservation {
                budget: Budget::Pool(Arc::clone(&self.budget.small)),
                bytes,
            });
            return Ok(());
        }
        self.budget.large.take(self.principal, bytes)?;
        // What it had among the small ones is given back.
        self.reservation = Some(Reservation {
            budget: Budget::LargeBodies(Arc::clone(&self.budget.large), self.principal.clone()),
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
        let of_principals: usize = budget.large.of_principals.lock().values().sum();
        let reserved = [&budget.small, &budget.large.pool, &budget.answers];
        let reserved = reserved.map(|pool| pool.reserved.load(Ordering::Relaxed));
        assert_eq!(of_principals, reserved[1]);
        reserved
    }

    fn principals<const N: usize>() -> [Principal; N] {
        std::array::from_fn(|nth| Principal::named(format!("key:{nth}")))
    }

    /// As many bodies of this size as the principal gets memory for.
    fn take_all<'a>(budget: &'a ByteBudget, principal: &'a Principal, bytes: usize) -> Vec<BodyReservation<'a>> {
        let mut all = Vec::new();
        loop {
            let mut reservation = budget.body(principal);
            if reservation.grow(bytes).is_err() {
                return all;
            }
            all.push(reservation);
        }
    }

    proptest! {
        /// Compares with a list of the reservations.
        #[test]
        fn reservations_stay_within_the_budget_and_are_released(
            steps in prop::collection::vec((0..3u8, 1..3_000_000usize, any::<prop::sample::Index>()), 1..200),
        ) {
            let budget = ByteBudget::new(BUDGET, 1 << 20, Arc::default());
            let principals = principals::<3>();
            let mut bodies: Vec<(usize, BodyReservation<'_>)> = Vec::new();
            let mut answers: Vec<(usize, Option<Reservation>)> = Vec::new();
            for (what, bytes, which) in steps {
                match what {
                    0 => {
                        // In pieces, as it is read.
                        let mut reservation = budget.body(which.get(&principals));
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
        let budget = ByteBudget::new(BUDGET, 1 << 20, Arc::default());
        let [principal] = principals();
        let _large = take_all(&budget, &principal, SMALL + 1);
        let mut small = budget.body(&principal);
        assert_eq!(small.grow(SMALL), Ok(()));
        assert_eq!(small.grow(SMALL + 1), Err(BudgetExhausted), "it is a large one by now");
        // Bodies are in no answer's way.
        assert!(budget.reserve_for_answer(SMALL).is_ok());
    }

    #[test]
    fn s_06_a_principal_leaves_as_much_as_it_takes() {
        let budget = ByteBudget::new(BUDGET, 1 << 20, Arc::default());
        let principals = principals::<4>();
        let size = SMALL + 1;
        let mut held = Vec::new();
        for principal in &principals {
            let free_before = budget.large.pool.free();
            let bodies = take_all(&budget, principal, size);
            assert_eq!(bodies.len(), free_before / 2 / size, "half of what was left");
            assert!(!bodies.is_empty());
            held.push(bodies);
        }
        drop(held.swap_remove(0));
        let free = budget.large.pool.free();
        assert_eq!(take_all(&budget, &principals[0], size).len(), free / 2 / size);
    }

    #[test]
    fn the_largest_body_fits_when_nothing_else_is_there() {
        let budget = ByteBudget::new(1 << 20, 32 << 20, Arc::default());
        let [one, other] = principals();
        let mut largest = budget.body(&one);
        assert_eq!(largest.grow(32 << 20), Ok(()));
        assert!(budget.fits(&one, SMALL + 1).now_or_never().is_none());
        assert!(budget.fits(&other, SMALL + 1).now_or_never().is_some());
    }

    #[test]
    fn an_answer_larger_than_the_budget_reserves_all_of_it() {
        let budget = ByteBudget::new(BUDGET, 1 << 20, Arc::default());
        let reservation = budget.reserve_for_answer(10 * BUDGET).expect("the budget is unused");
        assert!(budget.reserve_for_answer(UNCOUNTED + 1).is_err());
        let mut waits = Box::pin(budget.wait_for_answer(UNCOUNTED + 1));
        assert!((&mut waits).now_or_never().is_none());
        drop(reservation);
        assert!(waits.now_or_never().is_some_and(|reservation| reservation.is_some()));
    }
}
