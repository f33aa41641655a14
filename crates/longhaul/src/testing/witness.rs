//! Whether what the server says fits the official schemas. Only our own tests ask (feature `schemas`): the schemas are large, and an
//! author's tests are about the author's server.

#[cfg(not(feature = "schemas"))]
pub(super) use absent::Witness;
#[cfg(feature = "schemas")]
pub(super) use present::Witness;

#[cfg(feature = "schemas")]
mod present {
    use parking_lot::{Mutex, MutexGuard};
    use serde_json::Value;

    /// Hears one connection, or none of it.
    pub(in crate::testing) struct Witness(Option<Mutex<Heard>>);

    #[derive(Default)]
    struct Heard {
        witness: longhaul_schemas::Witness,
        /// The first.
        fault: Option<String>,
    }

    impl Witness {
        pub(in crate::testing) fn new(hears: bool) -> Self {
            Self(hears.then(Mutex::default))
        }

        fn lock(&self) -> Option<MutexGuard<'_, Heard>> {
            Some(self.0.as_ref()?.lock())
        }

        pub(in crate::testing) fn sent(&self, message: &Value) {
            if let Some(mut heard) = self.lock() {
                heard.witness.sent(message);
            }
        }

        pub(in crate::testing) fn heard(&self, message: &Value) {
            if let Some(mut heard) = self.lock()
                && let Err(fault) = heard.witness.heard(message)
            {
                heard.fault.get_or_insert(fault.to_string());
            }
        }

        pub(in crate::testing) fn heard_junk(&self, line: &str) {
            if let Some(mut heard) = self.lock() {
                heard.fault.get_or_insert(format!("no message: {line}"));
            }
        }

        /// Messages are heard in a task of their own, whose panic nobody would see: so it is the test that asks.
        ///
        /// # Panics
        /// If one of the messages so far does not fit its schema.
        pub(in crate::testing) fn testify(&self) {
            let fault = self.lock().and_then(|heard| heard.fault.clone());
            if let Some(fault) = fault.filter(|_| !std::thread::panicking()) {
                panic!("the server has said what the schemas do not allow: {fault}");
            }
        }
    }
}

#[cfg(not(feature = "schemas"))]
mod absent {
    use serde_json::Value;

    pub(in crate::testing) struct Witness {}

    impl Witness {
        pub(in crate::testing) fn new(_: bool) -> Self {
            Self {}
        }

        pub(in crate::testing) fn sent(&self, _: &Value) {}

        pub(in crate::testing) fn heard(&self, _: &Value) {}

        pub(in crate::testing) fn heard_junk(&self, _: &str) {}

        pub(in crate::testing) fn testify(&self) {}
    }
}
