//! A tool's function returns a type that is no output.

use longhaul::{TaskContext, Tool};

struct Report;

async fn report(_: TaskContext) -> Report {
    Report
}

fn main() {
    Tool::new("report", report);
}
