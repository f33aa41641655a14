//! Tests of the crash test: a tool with every kind of entry passes it, and broken tools and stores do not.

mod early_ack_store;

use early_ack_store::EarlyAckStore;
use longhaul::{
    Era, Error, Poll, Server, TaskContext, Tool, ToolResult,
    testing::crash::{CrashFailure, CrashTest},
    time::{Timestamp, days, millis},
};
use serde_json::json;
use std::{
    io::Write,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approval {
    approved: bool,
}

/// An entry of every kind.
async fn everything(cx: TaskContext) -> ToolResult<String> {
    let begun: Timestamp = cx.now().await?;
    let lot: u64 = cx.random().await?;
    let renamed = cx.version("v2").await?;
    let built = cx.step("build", async || Ok::<_, Error>(7_u32)).await?;
    cx.emit(format!("built {built}")).await?;
    let ok: Approval = cx.elicit("Ship it?").key("ship").await?;
    cx.sleep(millis(5)).await?;
    let smoke = cx.call("smoke", json!({})).await?.text();
    let mut polls = 0;
    let poll = || {
        polls += 1;
        let found = if polls > 1 {
            Poll::Ready("done".to_owned())
        } else {
            Poll::Pending
        };
        async move { Ok::<_, Error>(found) }
    };
    let job: String = cx.poll_until("job", poll).interval(millis(1), millis(1)).await?;
    let sides = ["left", "right"]
        .map(|side| move |cx: TaskContext| async move { cx.step(side, async || Ok::<_, Error>(side.len())).await });
    let sides = cx.join(sides).all().await?;
    let publish = cx.step("publish", async || Ok::<_, Error>(()));
    publish
        .max_attempts(3)
        .idempotency_key(cx.idempotency_key("publish"))
        .await?;
    let drawn = begun > Timestamp::from(std::time::UNIX_EPOCH) && lot > 0;
    Ok(format!(
        "{drawn} {renamed} {built} {} {smoke} {job} {sides:?}",
        ok.approved
    ))
}

async fn smoke(cx: TaskContext) -> ToolResult<String> {
    Ok(cx.step("smoke", async || Ok::<_, Error>("no smoke".to_owned())).await?)
}

#[test]
fn a_tool_with_every_kind_of_entry_survives() {
    let server = |_: &Path| {
        let tools = [Tool::durable("everything", everything), Tool::durable("smoke", smoke)];
        Server::new("test", "1.0.0").tools(tools)
    };
    let report = CrashTest::new(server)
        .call("everything", json!({}))
        .answering(|_| json!({"action": "accept", "content": {"approved": true}}))
        .same_output()
        .run();
    assert!(report.writes >= 2 * 14, "{report:?}");
    // Once for the answer, which is delayed until then; a child's end or a timer may come before the suspension.
    assert!(report.suspensions >= 1, "{report:?}");
    // After the end a process may exit before it is killed, and a run may have fewer suspensions than the reference.
    assert!(report.killed >= 3 * report.writes as usize - 12, "{report:?}");
}

async fn two_steps(cx: TaskContext) -> ToolResult<String> {
    cx.step("build", async || Ok::<_, Error>(())).await?;
    cx.step("publish", async || Ok::<_, Error>(())).await?;
    Ok("done".to_owned())
}

fn find_fault(test: CrashTest) -> String {
    let failure = test.check().expect_err("the broken tool or store is found");
    let CrashFailure::AfterCrash(failure) = failure else {
        panic!("{failure}")
    };
    std::fs::remove_dir_all(&failure.files).unwrap();
    failure.to_string()
}

#[test]
fn a_store_that_acknowledges_before_it_commits_fails_the_test() {
    let server = |_: &Path| {
        Server::new("test", "1.0.0")
            .tool(Tool::durable("two_steps", two_steps))
            .wrap_store(EarlyAckStore::over)
    };
    let found = find_fault(CrashTest::new(server).call("two_steps", json!({})));
    assert!(
        found.contains("step \"build\" began again after it had been journaled"),
        "{found}"
    );
    assert!(
        found.contains(": killed ") && found.contains("step \"build\", before its acknowledgement"),
        "{found}"
    );
}

#[test]
fn non_deterministic_code_fails_the_test() {
    async fn non_deterministic(cx: TaskContext) -> ToolResult<String> {
        cx.step(
            format!("of process {}", std::process::id()),
            async || Ok::<_, Error>(()),
        )
        .await?;
        two_steps(cx).await
    }
    let server = |_: &Path| Server::new("test", "1.0.0").tool(Tool::durable("non_deterministic", non_deterministic));
    let found = find_fault(CrashTest::new(server).call("non_deterministic", json!({})));
    assert!(found.contains("does not follow its journal"), "{found}");
    assert!(found.contains("LONGHAUL_CRASH_ONLY="), "{found}");
}

/// It counts runs in a static, so a replay in the same process differs. The run without a crash finds that.
#[test]
fn code_that_cannot_be_replayed_in_its_process_fails_the_test() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn counting(cx: TaskContext) -> ToolResult<String> {
        let run = RUNS.fetch_add(1, Ordering::SeqCst);
        cx.step(format!("of run {run}"), async || Ok::<_, Error>(())).await?;
        let _: Approval = cx.elicit("Ship it?").await?;
        Ok("done".to_owned())
    }
    let server = |_: &Path| Server::new("test", "1.0.0").tool(Tool::durable("counting", counting));
    let test = CrashTest::new(server).call("counting", json!({}));
    let failure = test
        .answering(|_| json!({"action": "accept", "content": {"approved": true}}))
        .check();
    let failure = failure.unwrap_err().to_string();
    assert!(
        failure.contains("suspended at each wait: the run without a crash"),
        "{failure}"
    );
    assert!(failure.contains("does not follow its journal"), "{failure}");
}

/// Only the calls of a legacy client find it.
#[test]
fn code_that_is_non_deterministic_in_one_era_fails_the_test() {
    async fn non_deterministic(cx: TaskContext) -> ToolResult<String> {
        if cx.era() == Era::Legacy {
            let process = format!("of process {}", std::process::id());
            cx.step(process, async || Ok::<_, Error>(())).await?;
        }
        two_steps(cx).await
    }
    let test = || {
        let server =
            |_: &Path| Server::new("test", "1.0.0").tool(Tool::durable("non_deterministic", non_deterministic));
        CrashTest::new(server).call("non_deterministic", json!({}))
    };
    test().era(Era::Modern).run();
    let found = find_fault(test());
    assert!(found.contains("called by a legacy client"), "{found}");
    assert!(found.contains("LONGHAUL_CRASH_ONLY=legacy-suspended:"), "{found}");
}

#[test]
fn different_outputs_fail_the_test_only_with_same_output() {
    async fn names_its_process(cx: TaskContext) -> ToolResult<String> {
        cx.step("build", async || Ok::<_, Error>(())).await?;
        Ok(format!("by process {}", std::process::id()))
    }
    let server = |_: &Path| Server::new("test", "1.0.0").tool(Tool::durable("names_its_process", names_its_process));
    CrashTest::new(server).call("names_its_process", json!({})).run();
    let found = find_fault(
        CrashTest::new(server)
            .call("names_its_process", json!({}))
            .same_output(),
    );
    assert!(found.contains("by process"), "{found}");
}

#[test]
fn a_tool_that_keeps_no_journal_cannot_be_tested() {
    let server = |_: &Path| Server::new("test", "1.0.0").tool(Tool::new("plain", async || "done"));
    let failure = CrashTest::new(server).call("plain", json!({})).check().unwrap_err();
    assert!(failure.to_string().contains("Tool::durable"), "{failure}");
}

#[test]
fn a_process_that_does_not_end_is_stopped() {
    async fn stuck(cx: TaskContext) -> ToolResult<String> {
        cx.sleep(days(1)).await?;
        Ok("done".to_owned())
    }
    let server = |_: &Path| Server::new("test", "1.0.0").tool(Tool::durable("stuck", stuck));
    let test = CrashTest::new(server).call("stuck", json!({})).timeout(millis(1_500));
    let failure = test.check().unwrap_err();
    assert!(failure.to_string().contains("had not ended"), "{failure}");
}

#[test]
fn a_test_on_another_thread_asks_for_its_name() {
    let check = || {
        CrashTest::new(|_| Server::new("test", "1.0.0"))
            .call("none", json!({}))
            .check()
    };
    let failure = std::thread::scope(|scope| scope.spawn(check).join().unwrap()).unwrap_err();
    assert!(failure.to_string().contains("test_name"), "{failure}");
}

#[test]
fn a_name_of_no_test_is_refused() {
    let test = CrashTest::new(|_| Server::new("test", "1.0.0"))
        .call("none", json!({}))
        .test_name("crash::no_test");
    let failure = test.check().unwrap_err();
    assert!(failure.to_string().contains("full name"), "{failure}");
}

#[test]
fn the_check_of_effects_can_fail_the_test() {
    let server = |outside: &Path| {
        let log = outside.join("log");
        let careless = move |cx: TaskContext| {
            let log = log.clone();
            async move {
                let append = async || append(&log);
                Ok::<_, Error>(cx.step("append", append).await?)
            }
        };
        Server::new("test", "1.0.0").tool(Tool::durable("careless", careless))
    };
    let once = |outside: &Path| match std::fs::read_to_string(outside.join("log")) {
        Ok(log) if log == "done\n" => Ok(()),
        log => Err(format!("the log is {log:?}")),
    };
    let found = find_fault(CrashTest::new(server).call("careless", json!({})).check_effects(once));
    assert!(found.contains("killed before the commit of step \"append\""), "{found}");
    assert!(found.contains(r#"the log is Ok("done\ndone\n")"#), "{found}");
}

fn append(log: &Path) -> std::io::Result<()> {
    let mut log = std::fs::File::options().create(true).append(true).open(log)?;
    log.write_all(b"done\n")
}
