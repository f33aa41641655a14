//! Whether the time of this machine can be used at all.

use longhaul_core::UnixMillis;

/// The last millisecond that RFC 3339 can write.
const LAST: UnixMillis = UnixMillis(253_402_300_799_999);

/// What is wrong with the time of this machine; `None` if nothing is. A clock before 1970 reads as 0.
pub fn clock_fault(now: UnixMillis) -> Option<&'static str> {
    match now {
        UnixMillis(..=0) => Some(
            "the clock of this machine is before 1970: tasks would get wrong times, and their deadlines would never pass. Set it",
        ),
        now if now > LAST => {
            Some("the clock of this machine is after the year 9999, and no time of a task could be written. Set it")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_named() {
        for (now, year) in [(0, Some("1970")), (1, None), (LAST.0, None), (LAST.0 + 1, Some("9999"))] {
            let fault = clock_fault(UnixMillis(now));
            assert_eq!(fault.is_some(), year.is_some(), "{now}");
            assert!(fault.is_none_or(|fault| year.is_some_and(|year| fault.contains(year))));
        }
    }
}
