//! Chooses what tasks have in common: keys, unique values, and groups with their limits.

use super::{Chooser, StoreCall, TOOLS};
use longhaul_core::{
    ConcurrencyGroup,
    store::{Idempotency, Uniqueness},
};

const KEYS: [&str; 4] = ["k1", "k2", "k3", "k4"];

impl Chooser {
    pub(super) fn idempotency(&mut self) -> Option<Idempotency> {
        self.one_in(4).then(|| self.any_idempotency())
    }

    pub(super) fn any_idempotency(&mut self) -> Idempotency {
        Idempotency {
            key: self.pick(&KEYS).into(),
            digest: [u8::from(self.one_in(3)); 32],
        }
    }

    pub(super) fn uniqueness(&mut self) -> Option<Uniqueness> {
        self.one_in(5).then(|| Uniqueness {
            value: [self.rng.u8(0..4); 32],
            arguments: [u8::from(self.one_in(3)); 32],
        })
    }

    pub(super) fn group_call(&mut self) -> StoreCall {
        match self.one_in(2) {
            true => StoreCall::FillGroups,
            false => {
                let per_group = (!self.one_in(4)).then(|| self.rng.usize(1..4));
                StoreCall::PutLimit(self.pick(&TOOLS).into(), per_group)
            }
        }
    }

    pub(super) fn group(&mut self) -> Option<ConcurrencyGroup> {
        self.one_in(4).then(|| ConcurrencyGroup([self.rng.u8(0..3); 32]))
    }
}
