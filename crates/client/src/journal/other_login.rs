//! Whether a call is gone on with as whoever made it.

use crate::RecordedCall;

/// How logins of users begin whose tokens say whom they are for. Two that differ are those of two users, while two keys may be those of one.
const USER: &str = "user ";

/// A call was made with another login than the present one. Its server may not know its task any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it was started as {made_as}, and {}", present.as_ref().map_or_else(|| "there is no login now".to_owned(), |present| format!("the present login is {present}")))]
#[non_exhaustive]
pub struct OtherLogin {
    /// That of the call.
    pub made_as: String,
    /// The present one, if there is one.
    pub present: Option<String>,
}

impl OtherLogin {
    /// What differs, if [`Connection::login`](crate::Connection::login) is `present`; `None` if nothing does, or if nobody knows how the call was made.
    pub fn of(call: &RecordedCall, present: Option<&str>) -> Option<Self> {
        let made_as = call.login.as_deref().filter(|made_as| Some(*made_as) != present)?;
        Some(Self {
            made_as: made_as.to_owned(),
            present: present.map(str::to_owned),
        })
    }

    /// Whether two logins are certainly those of two users.
    pub fn are_two_users(one: Option<&str>, other: Option<&str>) -> bool {
        let is_user = |login: &str| login.starts_with(USER);
        one.zip(other)
            .is_some_and(|(one, other)| is_user(one) && is_user(other) && one != other)
    }
}

/// The login of a user whose token says whom it is for.
#[cfg(feature = "login")]
pub(crate) fn of_user(subject: &str, issuer: &str) -> String {
    format!("{USER}{subject} at {issuer}")
}
