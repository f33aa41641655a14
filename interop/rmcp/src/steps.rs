//! One line of JSON for each step, and one at the end.

use serde_json::json;
use std::{error::Error, time::Duration};

/// Longer than any step takes, shorter than anyone's patience.
const PATIENCE: Duration = Duration::from_secs(30);

/// The SDK, as far as `Cargo.toml` names it.
const CLIENT: &str = "rmcp 3";

/// What was not as it has to be.
pub(crate) type Deviation = Box<dyn Error + Send + Sync>;

/// Says so if something is not as it has to be.
macro_rules! ensure {
    ($holds:expr, $seen:expr) => {
        if !$holds {
            return Err(format!("expected {}, but saw {:?}", stringify!($holds), $seen).into());
        }
    };
}
pub(crate) use ensure;

/// Runs steps, goes on after one that fails, and knows in the end whether all was well.
#[derive(Default)]
pub(crate) struct Steps {
    done: usize,
    failed: usize,
}

impl Steps {
    /// Runs one step; what it found out is handed on if it went well.
    #[expect(clippy::disallowed_methods, reason = "a test peer has no ports")]
    pub(crate) async fn run<T>(
        &mut self,
        era: &str,
        step: &str,
        act: impl Future<Output = Result<T, Deviation>>,
    ) -> Option<T> {
        let done = match tokio::time::timeout(PATIENCE, act).await {
            Ok(done) => done,
            Err(_) => Err(format!("not done within {} s", PATIENCE.as_secs()).into()),
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

    /// Says that this is the end, and whether every step went as it has to.
    pub(crate) fn end(self) -> bool {
        println!("{}", json!({"client": CLIENT, "done": self.done}));
        self.failed == 0
    }
}
