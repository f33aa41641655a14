//! Calls the tools of a server in every way there is, and checks what comes back: one line of JSON for each step. `cargo xtask interop` runs it
//! against the servers of other projects.
//!
//! `interop_client [OPTION …] (--url URL | --stdio PROGRAM [ARG …])`, with these options:
//! - `--tools fixture|reference`: which tools the server has. Default: those of the fixture server.
//! - `--version REVISION`: the revision that must be spoken. `2025-11-25` is also asked for; otherwise the client finds out.
//! - `--only STEP,…`: which steps. Default: all.
//! - `--start long|asks|asks-twice`: only starts a task, prints its id and waits to be killed.
//! - `--journal FILE`: with `--start`, records the call there.

mod arguments;
mod steps;
mod task_steps;
mod tools;
mod user;

use arguments::{Arguments, Start};
use std::process::ExitCode;
use steps::{Session, Steps};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("interop_client: {error}");
            return ExitCode::from(2);
        }
    };
    let session = Session::new(arguments);
    if let Some(start) = session.arguments.start {
        return match task_steps::start_and_stay(&session, start).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("interop_client: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut steps = Steps::new(&session);
    steps.run("connect", steps::connect(&session)).await;
    steps.run("list-tools", steps::list_tools(&session)).await;
    steps.run("plain", steps::plain(&session)).await;
    steps.run("progress", steps::progress(&session)).await;
    steps.run("ask", steps::ask(&session)).await;
    steps.run("sample", steps::sample(&session)).await;
    steps.run("hosted-task", steps::hosted_task(&session)).await;
    steps.run("roots", steps::roots(&session)).await;
    steps.run("slow", steps::slow(&session)).await;
    steps.run("task", task_steps::task(&session)).await;
    steps.run("task-asks", task_steps::task_asks(&session)).await;
    steps
        .run("task-is-declined", task_steps::task_is_declined(&session))
        .await;
    steps
        .run("questions-at-once", task_steps::questions_at_once(&session))
        .await;
    steps.run("tool-error", task_steps::tool_error(&session)).await;
    steps.run("cancel", task_steps::cancel(&session)).await;
    steps
        .run("cancel-while-it-asks", task_steps::cancel_while_it_asks(&session))
        .await;
    steps.run("read-again", task_steps::read_again(&session)).await;
    steps.run("unknown-task", task_steps::unknown_task(&session)).await;
    steps.run("killed-caller", task_steps::killed_caller(&session)).await;
    steps
        .run("killed-while-it-asks", task_steps::killed_while_it_asks(&session))
        .await;
    steps
        .run("task-of-another-session", task_steps::task_of_another_session(&session))
        .await;
    steps
        .run(
            "journal-killed-caller",
            task_steps::recorded_and_killed(&session, Start::Long),
        )
        .await;
    steps
        .run(
            "journal-killed-while-it-asks",
            task_steps::recorded_and_killed(&session, Start::Asks),
        )
        .await;
    steps
        .run(
            "journal-killed-with-questions",
            task_steps::recorded_and_killed(&session, Start::AsksTwice),
        )
        .await;
    let passed = steps.finish();
    session.connection.close().await;
    match passed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
