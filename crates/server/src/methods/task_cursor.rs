//! Cursors of `tasks/list`: where the next page begins, signed together with whose list it is (U-07, G1-47).

use crate::signer::{Seal, Unsealed};
use longhaul_core::{Scope, TaskId};

/// The cursor after `last`, good for this scope only.
pub(crate) fn after(last: &TaskId, scope: &Scope, seal: &Seal) -> String {
    let mut body = owner_of(scope);
    body.extend(last.as_str().as_bytes());
    seal.seal(&body)
}

/// The task a cursor points behind; `None` if it is not one of ours for this scope.
pub(crate) fn read(cursor: &str, scope: &Scope, seal: &Seal) -> Option<TaskId> {
    let Unsealed(body) = seal.open(cursor)?;
    let id = body.strip_prefix(&*owner_of(scope))?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

fn owner_of(scope: &Scope) -> Vec<u8> {
    let session = scope.session.as_ref().map_or("", |session| session.as_str());
    format!("{}\0{session}\0", scope.principal.as_str()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{Principal, SessionKey, store::SigningKey};

    #[test]
    fn a_cursor_is_good_for_the_list_it_came_from() {
        let seal = Seal::new(vec![SigningKey { id: 3, secret: [9; 32] }]);
        let mine = Scope {
            principal: Principal::local(),
            session: Some(SessionKey::named("a")),
        };
        let other = Scope {
            principal: Principal::local(),
            session: Some(SessionKey::named("b")),
        };
        let id: TaskId = "t-1".parse().unwrap();
        let cursor = after(&id, &mine, &seal);
        assert_eq!(read(&cursor, &mine, &seal), Some(id));
        assert_eq!(read(&cursor, &other, &seal), None);
        for hostile in ["", "x", "AAAA", &"A".repeat(1000)] {
            assert_eq!(read(hostile, &mine, &seal), None);
        }
    }
}
