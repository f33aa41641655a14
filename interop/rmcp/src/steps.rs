//! Runs the steps of a script and reports them: one line of JSON for each step, and one at the end.

use serde_json::json;
use std::{error::Error, time::Duration};

/// Longer than any step takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The name and version of the SDK, as in `Cargo.toml`.
const CLIENT: &str = "rmcp 3";

/// Why a step failed.
pub(crate) type Deviation = Box<dyn Error + Send + Sync>;

/// Returns an error if the condition does not hold.
macro_rules! ensure {
    ($holds:expr, $seen:expr) => {
        if !$holds {
            return Err(format!("expected {}, but saw {:?}", stringify!($holds), $seen).into());
        }
    };
}
pub(crate) use ensure;

/// Runs steps, continues after a failed one, and counts them.
#[derive(Default)]
pub(crate) struct Steps {
    done: usize,
    failed: usize,
}

impl Steps {
    /// Runs one step. Returns its value if it passed.
    #[expect(clippy::disallowed_methods, reason = "a test peer has no ports")]
    pub(crate) async fn run<T>(
        &mut self,
        era: &str,
        step: &str,
        act: impl Future<Output = Result<T, Deviation>>,
    ) -> Option<T> {
        let done = match tokio::time::timeout(STEP_TIMEOUT, act).await {
            Ok(done) => done,
            Err(_) => Err(format!("not done within {} s", STEP_TIMEOUT.as_secs()).into()),
        };
        let mut line = json!({"client": CLIENT, "step": format!("{era}: {step}"), "ok": done.is_ok()});
        if let Err(deviation) = &done {
            line["error"] = deviation.to_string().into();
            self.failed += 1;
        }
        self.done += 1;
        println!("{line}");
        done.ok()
    }

    /// Prints the last line. Returns whether all steps passed.
    pub(crate) fn finish(self) -> bool {
        println!("{}", json!({"client": CLIENT, "done": self.done}));
        self.failed == 0
    }
}
