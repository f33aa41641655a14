//! Plain calls, creates, polls and subscriptions at once, for a minute; then the same with slow fsyncs.

use crate::{
    load::{Client, add, call},
    process::Server,
    retained,
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

const KINDS: [&str; 4] = ["plain call", "create", "poll of a finished task", "create → pushed end"];
const CLIENTS_OF_EACH: usize = 16;
const FINISHED: usize = 10_000;
/// Seconds that do not count, those that do, and how many of these are compared.
const WARM_UP: usize = 2;
const SECONDS: usize = 60;
const COMPARED: usize = 10;
const SLOW_MILLIS: u64 = 60;

/// Prints the rates of the first and the last seconds, and the longest rounds.
pub(crate) fn measure() {
    println!(
        "\n## mixed load, {} clients, {SECONDS} s\n",
        KINDS.len() * CLIENTS_OF_EACH
    );
    println!(
        "| fsyncs | kind | /s, first {COMPARED} s | /s, last {COMPARED} s | last of first | /s, slowest second | longest ms | errors |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for slow in [false, true] {
        let (directory, control) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let control = control.path().join("shim");
        let tasks = retained::fill(directory.path(), FINISHED, 100);
        let server = match slow {
            false => Server::longhaul(directory.path()),
            true => Server::longhaul_with_slow_fsyncs(directory.path(), &control, SLOW_MILLIS),
        };
        let tasks: Vec<String> = tasks.iter().map(|task| task.as_str().to_owned()).collect();
        let seen = load(&server, &tasks);
        let fsyncs = match slow {
            false => "as they are".to_owned(),
            true => {
                eprintln!("{} fsyncs were slowed", Server::slowed_fsyncs(&control));
                format!("{SLOW_MILLIS} ms slower")
            }
        };
        for (kind, seen) in KINDS.iter().zip(&seen) {
            println!("| {fsyncs} | {kind} | {} |", seen.row());
        }
    }
}

/// What the clients of one kind have seen.
struct Seen {
    /// Rounds that ended in each second.
    rounds: [AtomicU64; WARM_UP + SECONDS],
    longest_micros: AtomicU64,
    errors: AtomicU64,
}

impl Seen {
    fn new() -> Self {
        Self {
            rounds: [const { AtomicU64::new(0) }; WARM_UP + SECONDS],
            longest_micros: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    /// Counts a round; false once the time is over.
    fn count(&self, begun: Instant, round: Duration, succeeded: bool) -> bool {
        let Some(second) = self.rounds.get(begun.elapsed().as_secs() as usize) else {
            return false;
        };
        second.fetch_add(1, Ordering::Relaxed);
        self.longest_micros
            .fetch_max(round.as_micros() as u64, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
        true
    }

    fn row(&self) -> String {
        let rounds: Vec<u64> = self
            .rounds
            .iter()
            .map(|second| second.load(Ordering::Relaxed))
            .collect();
        let rounds = &rounds[WARM_UP..];
        let rate = |seconds: &[u64]| seconds.iter().sum::<u64>() as f64 / seconds.len() as f64;
        let (first, last) = (rate(&rounds[..COMPARED]), rate(&rounds[SECONDS - COMPARED..]));
        format!(
            "{first:.0} | {last:.0} | {:.2} | {} | {:.0} | {}",
            last / first,
            rounds.iter().min().unwrap(),
            self.longest_micros.load(Ordering::Relaxed) as f64 / 1e3,
            self.errors.load(Ordering::Relaxed)
        )
    }
}

fn load(server: &Server, tasks: &[String]) -> [Seen; KINDS.len()] {
    let seen = KINDS.map(|_| Seen::new());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (kind, seen) in seen.iter().enumerate() {
            for _ in 0..CLIENTS_OF_EACH {
                scope.spawn(move || {
                    let mut client = Client::connect(server.address);
                    loop {
                        let round = Instant::now();
                        let succeeded = self::round(kind, server, &mut client, tasks);
                        if !seen.count(begun, round.elapsed(), succeeded) {
                            break;
                        }
                    }
                });
            }
        }
    });
    seen
}

thread_local! {
    static PLAIN: Vec<u8> = call("plain_add");
    static CREATE: Vec<u8> = add();
}

/// Whether the round of this kind was answered with a result.
fn round(kind: usize, server: &Server, client: &mut Client, tasks: &[String]) -> bool {
    let answer = match kind {
        0 => PLAIN.with(|request| client.send(request)),
        1 => CREATE.with(|request| client.send(request)),
        2 => client.poll(&tasks[fastrand::usize(..tasks.len())]),
        _ => return pushed_end(server, client),
    };
    let succeeded = answer.windows(9).any(|text| text == br#""result":"#);
    if !succeeded {
        eprintln!("{}: {}", KINDS[kind], String::from_utf8_lossy(answer));
    }
    succeeded
}

fn pushed_end(server: &Server, client: &mut Client) -> bool {
    let task = CREATE.with(|request| client.create(request));
    let mut status = String::new();
    Client::connect(server.address).subscribe(&task, |message| {
        message["params"]["status"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut status);
        status == "completed" || status == "failed"
    });
    status == "completed"
}
