//! Checks what the server sends against the official schemas, in Longhaul's own tests only (feature `schemas`): the schemas are large, and the
//! authors test their own servers, not the protocol.

#[cfg(not(feature = "schemas"))]
pub(super) use absent::SchemaCheck;
#[cfg(feature = "schemas")]
pub(super) use present::SchemaCheck;

#[cfg(feature = "schemas")]
mod present {
    use parking_lot::{Mutex, MutexGuard};
    use serde_json::Value;

    /// Checks the messages of one connection, or none.
    pub(in crate::testing) struct SchemaCheck(Option<Mutex<CheckState>>);

    #[derive(Default)]
    struct CheckState {
        checker: longhaul_schemas::MessageChecker,
        /// The first message that does not fit.
        violation: Option<String>,
    }

    impl SchemaCheck {
        pub(in crate::testing) fn new(enabled: bool) -> Self {
            Self(enabled.then(Mutex::default))
        }

        fn lock(&self) -> Option<MutexGuard<'_, CheckState>> {
            Some(self.0.as_ref()?.lock())
        }

        pub(in crate::testing) fn sent(&self, message: &Value) {
            if let Some(mut state) = self.lock() {
                state.checker.sent(message);
            }
        }

        pub(in crate::testing) fn received(&self, message: &Value) {
            if let Some(mut state) = self.lock()
                && let Err(violation) = state.checker.received(message)
            {
                state.violation.get_or_insert(violation.to_string());
            }
        }

        pub(in crate::testing) fn received_invalid(&self, line: &str) {
            if let Some(mut state) = self.lock() {
                state.violation.get_or_insert(format!("not a message: {line}"));
            }
        }

        /// Called by the test, because messages are read in a background task, whose panic would go unnoticed.
        ///
        /// # Panics
        /// If one of the messages so far does not fit its schema.
        pub(in crate::testing) fn panic_on_violation(&self) {
            let violation = self.lock().and_then(|state| state.violation.clone());
            if let Some(violation) = violation.filter(|_| !std::thread::panicking()) {
                panic!("the server sent what the schemas do not allow: {violation}");
            }
        }
    }
}

#[cfg(not(feature = "schemas"))]
mod absent {
    use serde_json::Value;

    pub(in crate::testing) struct SchemaCheck {}

    impl SchemaCheck {
        pub(in crate::testing) fn new(_: bool) -> Self {
            Self {}
        }

        pub(in crate::testing) fn sent(&self, _: &Value) {}

        pub(in crate::testing) fn received(&self, _: &Value) {}

        pub(in crate::testing) fn received_invalid(&self, _: &str) {}

        pub(in crate::testing) fn panic_on_violation(&self) {}
    }
}
