//! Idempotency keys that the client makes.

/// A key that nobody else has.
#[expect(clippy::disallowed_methods, reason = "the client has no Entropy port")]
pub(crate) fn new_key() -> String {
    let mut random = [0; 16];
    // Without the system's random numbers it is as unique as request ids are.
    if getrandom::fill(&mut random).is_err() {
        fastrand::fill(&mut random);
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
