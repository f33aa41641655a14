//! What is measured: calls one after the other, many at once, and memory.

use super::{
    ProxiesError,
    proxy::{Proxy, ProxySite, RunningProxy},
    upstream::TOOL,
};
use harness::{
    clock,
    mcp::{CallOutcome, Client},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// Calls before anything is measured: just-in-time compilers and caches.
const WARM_UP: usize = 200;
/// How many servers are behind a proxy when its memory is measured, beside the first one.
const MORE_UPSTREAMS: usize = 10;
/// The stack of a thread that waits for one call.
const STACK: usize = 256 << 10;

/// Calls one after the other.
pub(super) struct Sequence {
    /// The duration of each call, sorted.
    durations: Vec<Duration>,
    /// The CPU time of the proxy for all calls.
    pub(super) cpu: Duration,
}

impl Sequence {
    pub(super) fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self {
            durations: Vec::new(),
            cpu: Duration::ZERO,
        };
        for part in parts {
            whole.durations.extend(part.durations);
            whole.cpu += part.cpu;
        }
        whole.durations.sort_unstable();
        whole
    }

    /// The duration that this share of the calls does not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let nth = (self.durations.len() * percent / 100).min(self.durations.len().saturating_sub(1));
        self.durations.get(nth).copied().unwrap_or_default()
    }

    pub(super) fn cpu_per_call(&self) -> Duration {
        self.cpu / u32::try_from(self.durations.len()).unwrap_or(u32::MAX).max(1)
    }
}

/// Makes calls with a text of so many bytes, one after the other.
pub(super) fn sequence(
    running: &RunningProxy,
    client: &mut Client,
    calls: usize,
    bytes: usize,
) -> Result<Sequence, ProxiesError> {
    let arguments = json!({"text": "x".repeat(bytes)});
    for _ in 0..WARM_UP.min(calls) {
        call(client, &arguments, bytes)?;
    }
    let before = running.cpu()?;
    let durations = (0..calls).map(|_| {
        let begin = clock::now();
        call(client, &arguments, bytes)?;
        Ok(begin.elapsed())
    });
    let durations = durations.collect::<Result<Vec<_>, ProxiesError>>()?;
    Ok(Sequence {
        durations,
        cpu: running.cpu()?.saturating_sub(before),
    })
}

/// As [`sequence`], to the server itself, over its standard input and output.
pub(super) fn direct(site: &ProxySite, calls: usize, bytes: usize) -> Result<Sequence, ProxiesError> {
    let mut server = Direct::start(site)?;
    let arguments = json!({"text": "x".repeat(bytes)});
    for _ in 0..WARM_UP.min(calls) {
        server.call(&arguments, bytes)?;
    }
    let durations = (0..calls).map(|_| {
        let begin = clock::now();
        server.call(&arguments, bytes)?;
        Ok(begin.elapsed())
    });
    Ok(Sequence {
        durations: durations.collect::<Result<_, ProxiesError>>()?,
        cpu: Duration::ZERO,
    })
}

/// Calls at once.
pub(super) struct Crowd {
    /// From the first call until the last answer.
    pub(super) duration: Duration,
    pub(super) failed: usize,
    pub(super) cpu: Duration,
}

/// Makes so many calls at once in one session, each of a tool that takes `millis`.
pub(super) fn crowd(running: &RunningProxy, calls: usize, millis: u64) -> Result<Crowd, ProxiesError> {
    let mut first = running.client();
    call(&mut first, &json!({"text": "x"}), 1)?;
    let mut clients = Vec::new();
    for nth in 0..calls as u64 {
        clients.push(running.client_in(&mut first, 1_000 + nth)?);
    }
    let before = running.cpu()?;
    let begin = clock::now();
    let failed = std::thread::scope(|scope| {
        let waiting = clients.into_iter().map(|mut client| {
            let work = move || call(&mut client, &json!({"text": "x", "millis": millis}), 1).is_err();
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
        });
        let waiting = waiting.collect::<Result<Vec<_>, _>>()?;
        let failed = waiting
            .into_iter()
            .filter_map(|call| call.join().ok())
            .filter(|failed| *failed);
        Ok::<_, ProxiesError>(failed.count())
    })?;
    Ok(Crowd {
        duration: begin.elapsed(),
        failed,
        cpu: running.cpu()?.saturating_sub(before),
    })
}

/// Resident memory of a proxy after one call, in bytes.
pub(super) struct Memory {
    pub(super) with_one: u64,
    /// For each further server.
    pub(super) each_more: u64,
}

pub(super) fn memory(proxy: Proxy, site: &ProxySite) -> Result<Memory, ProxiesError> {
    let resident = |upstreams| {
        let running = proxy.start(upstreams, site)?;
        running.client().list_tools()?;
        Ok::<_, ProxiesError>(running.resident()?)
    };
    let with_one = resident(1)?;
    // Where a process takes one server only, each further server needs another process.
    let each_more = match proxy.takes_several() {
        true => resident(1 + MORE_UPSTREAMS)?.saturating_sub(with_one) / MORE_UPSTREAMS as u64,
        false => with_one,
    };
    Ok(Memory { with_one, each_more })
}

fn call(client: &mut Client, arguments: &Value, bytes: usize) -> Result<(), ProxiesError> {
    match client.call(TOOL, arguments.clone())? {
        CallOutcome::Result { is_error: false, text } if text == bytes.to_string() => Ok(()),
        other => Err(ProxiesError::Answer(format!("{other:?}"))),
    }
}

/// The server without a proxy.
struct Direct {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Direct {
    fn start(site: &ProxySite) -> Result<Self, ProxiesError> {
        let [program, word] = site.upstream();
        let mut command = Command::new(program);
        let mut child = command.arg(word).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || std::io::Error::other("the server has no standard input and output");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self {
            child,
            input,
            output,
            requests: 0,
        })
    }

    fn call(&mut self, arguments: &Value, bytes: usize) -> Result<(), ProxiesError> {
        self.requests += 1;
        let params = json!({"name": TOOL, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": self.requests, "method": "tools/call", "params": params});
        writeln!(self.input, "{request}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let response: Value = serde_json::from_str(&line)?;
        match response["result"]["content"][0]["text"].as_str() {
            Some(text) if text == bytes.to_string() => Ok(()),
            _ => Err(ProxiesError::Answer(line)),
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
