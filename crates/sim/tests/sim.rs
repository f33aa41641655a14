//! Tests of the simulation: it is deterministic, it finds planted faults, and 200 seeds find no violation.

use longhaul_sim::{PlantedFault, SimOptions, Violation, run, run_twice};

/// After a change of the runtime run more: `cargo xtask sim --seeds 10000`.
fn run_seeds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let report = run(seed, SimOptions::default());
        if let Some(Violation { invariant, what }) = report.violation {
            let last = report.last.join("\n");
            panic!("{last}\nseed {seed} breaks {invariant}\n{what}\ncargo xtask sim --seeds 1 --from {seed} --log");
        }
    }
}

#[test]
fn two_runs_of_a_seed_are_the_same() {
    for seed in 0..10 {
        let report = run_twice(seed, SimOptions::default());
        assert_eq!(report.violation, None);
        assert!(report.lines > 50, "seed {seed} has done hardly anything");
    }
    let hashes: std::collections::BTreeSet<u64> = (0..10).map(|seed| run(seed, SimOptions::default()).hash).collect();
    assert_eq!(hashes.len(), 10, "each seed has a schedule of its own");
}

/// A planted fault is found, in 60 seeds, as what `is_expected` says. It may show in other ways before.
fn find(plant: PlantedFault, is_expected: impl Fn(&Violation) -> bool) {
    let options = SimOptions {
        plant: Some(plant),
        ..SimOptions::default()
    };
    let mut others = Vec::new();
    for seed in 0..60 {
        match run(seed, options).violation {
            Some(found) if is_expected(&found) => return,
            Some(Violation { invariant, what }) => others.push(format!("seed {seed}: {invariant}: {what}")),
            None => {}
        }
    }
    panic!("{plant} was not found as it should be:\n{}", others.join("\n"));
}

/// A planted fault is found as a violation of one of these invariants.
fn assert_found(plant: PlantedFault, invariants: &[u8]) {
    find(plant, |found| {
        found
            .invariant
            .number
            .is_some_and(|number| invariants.contains(&number))
    });
}

#[test]
fn invariant_1_an_acknowledgement_before_its_commit_is_found() {
    assert_found(PlantedFault::AckBeforeCommit, &[1, 10, 11]);
}

#[test]
fn invariant_3_a_missing_fence_is_found() {
    assert_found(PlantedFault::MissingFence, &[3]);
}

#[test]
fn invariant_4_a_reused_key_is_found() {
    assert_found(PlantedFault::ReusedKey, &[4]);
}

#[test]
fn a_lost_wakeup_is_found() {
    find(PlantedFault::LostWakeup, |found| {
        found.invariant.number.is_none() && found.what.contains("a client still waits")
    });
}

#[test]
fn a_write_that_is_said_to_have_failed_and_is_made_is_found() {
    find(PlantedFault::UnknownAsFailed, |found| {
        found.invariant.number.is_none() && found.what.contains("running: ") && !found.what.contains("running: 0")
    });
}

#[test]
fn a_lease_that_never_ends_is_found() {
    find(PlantedFault::StaleLease, |found| {
        found.invariant.number.is_none() && found.invariant.to_string().contains("every task ends")
    });
}

#[test]
fn a_start_without_its_row_is_found() {
    find(PlantedFault::ForgottenRow, |found| found.what.starts_with("schedule"));
}

#[test]
fn a_start_rate_that_is_not_kept_is_found() {
    find(PlantedFault::ForgottenRate, |found| {
        found.invariant.to_string().contains("its rate")
    });
}

#[test]
fn two_live_tasks_with_one_unique_value_are_found() {
    find(PlantedFault::ForgottenValue, |found| {
        found.invariant.to_string().contains("unique value")
    });
}

#[test]
fn a_group_without_a_limit_is_found() {
    find(PlantedFault::UnlimitedGroups, |found| {
        found.invariant.to_string().contains("concurrency value")
    });
}

#[test]
fn invariant_11_seeds_0_to_49_break_nothing() {
    run_seeds(0..50);
}

#[test]
fn invariant_11_seeds_50_to_99_break_nothing() {
    run_seeds(50..100);
}

#[test]
fn invariant_11_seeds_100_to_149_break_nothing() {
    run_seeds(100..150);
}

#[test]
fn invariant_11_seeds_150_to_199_break_nothing() {
    run_seeds(150..200);
}
