//! How often a task asks to be polled.

use crate::transition::place::task_at;
use longhaul_core::Millis;

/// How old the task is at each poll of a client that polls as it is asked.
fn polls(until: Millis) -> Vec<Millis> {
    let task = task_at("Running", "Live");
    let (mut age, mut polls) = (0, Vec::new());
    while age <= until {
        age += task.poll_hint(task.created_at.plus(age));
        polls.push(age);
    }
    polls
}

#[test]
fn short_work_is_noticed_soon_and_long_work_costs_few_polls() {
    let day = polls(24 * 60 * 60_000);
    for pair in day.windows(2) {
        let (age, pause) = (pair[0], pair[1] - pair[0]);
        assert!(
            (50..=5_000).contains(&pause) && pause <= 50.max(age / 2),
            "{pause} ms at the age of {age} ms"
        );
    }
    let until = |age| day.iter().filter(|poll| **poll <= age).count();
    assert_eq!(day[0], 50);
    assert!((5..=10).contains(&until(1_000)), "{}", until(1_000));
    assert!(until(60_000) <= 50, "{}", until(60_000));
    assert!(day.len() <= 24 * 60 * 12 + 60, "{}", day.len());
}
