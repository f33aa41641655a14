//! The measurements. Each prints its rows as it goes.

use crate::{
    load::{self, Client, Load, add, get as get_request},
    process::Server,
    retained,
};
use std::time::Instant;

const REQUESTS: usize = 100_000;
const WARM_UP: usize = 5_000;
/// How often each server of a comparison is measured, in turns, so that other load on the machine affects all alike.
const TURNS: usize = 11;

/// CPU of `tasks/get` as a multiple of a bare POST, with 1 task and with very many.
pub(crate) fn get() {
    println!("\n## tasks/get: server CPU per request, 16 clients\n");
    println!("| server | retained tasks | requests/s | CPU µs | times bare |\n| --- | --- | --- | --- | --- |");
    let many: usize = std::env::var("LONGHAUL_BENCH_RETAINED").map_or(1_000_000, |text| text.parse().unwrap());
    let directories = [1, many].map(|count| {
        let directory = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let task = retained::fill(directory.path(), count, 100);
        eprintln!("filled with {count} in {:.1?}", begun.elapsed());
        (count, directory, get_request(task.as_str()))
    });
    let mut compared = vec![bare(16)];
    for (count, directory, request) in &directories {
        compared.push(Compared {
            what: count.to_string(),
            name: "longhaul",
            server: Server::longhaul(directory.path()),
            clients: 16,
            request: request.clone(),
        });
    }
    compare(&compared);
    if let [.., longhaul] = &*compared {
        let created = load::run(&longhaul.server, 64, REQUESTS / 2, create_one);
        println!(
            "| longhaul, creates, 64 clients | {many} | {:.0} | {:.1} | |",
            created.rate, created.cpu_micros
        );
    }
}

/// `tools/call` until its task is acknowledged, which is after its fsync.
pub(crate) fn create() {
    println!("\n## tools/call → acknowledged task\n");
    println!("| server | clients | creates/s | CPU µs | times bare |\n| --- | --- | --- | --- | --- |");
    let directories = [16, 64].map(|clients| (clients, tempfile::tempdir().unwrap()));
    let mut compared = vec![bare(64)];
    for (clients, directory) in &directories {
        compared.push(Compared {
            what: clients.to_string(),
            name: "longhaul",
            server: Server::longhaul(directory.path()),
            clients: *clients,
            request: add(),
        });
    }
    compare(&compared);
    let directory = tempfile::tempdir().unwrap();
    let server = Server::longhaul(directory.path());
    load::run(&server, 1, 2_000, create_one);
    let alone = load::run(&server, 1, 10_000, create_one);
    println!("| longhaul | 1 | {:.0} | {:.1} | |", alone.rate, alone.cpu_micros);
}

/// Create, then poll without a pause until the result is there.
pub(crate) fn roundtrip() {
    println!("\n## create → done → result, 16 clients\n");
    println!("| server | rounds/s | CPU µs |\n| --- | --- | --- |");
    let directory = tempfile::tempdir().unwrap();
    let server = Server::longhaul(directory.path());
    let load = load::run(&server, 16, 50_000, |client| {
        let task = client.ask(&add())["result"]["taskId"].as_str().unwrap().to_owned();
        let request = get_request(&task);
        while client.ask(&request)["result"]["status"] != "completed" {}
    });
    println!("| longhaul | {:.0} | {:.1} |", load.rate, load.cpu_micros);
}

/// From the start of the process to its first answer, and what it then holds in memory.
pub(crate) fn restart() {
    const COUNT: usize = 100_000;
    println!("\n## restart with {COUNT} finished tasks of 1 KB\n");
    println!(
        "| first answer ms | resident MB at once | resident MB after 100,000 polls and 50,000 creates |\n| --- | --- | --- |"
    );
    let directory = tempfile::tempdir().unwrap();
    let task = retained::fill(directory.path(), COUNT, 1000);
    let request = get_request(task.as_str());
    let begun = Instant::now();
    let server = Server::longhaul(directory.path());
    assert_eq!(
        Client::connect(server.address).ask(&request)["result"]["status"],
        "completed"
    );
    let first_answer = begun.elapsed();
    let at_once = server.resident_kib();
    load::run(&server, 16, REQUESTS, |client| {
        client.send(&request);
    });
    load::run(&server, 64, REQUESTS / 2, create_one);
    let later = server.resident_kib();
    println!(
        "| {} | {:.1} | {:.1} |",
        first_answer.as_millis(),
        at_once as f64 / 1024.0,
        later as f64 / 1024.0
    );
}

fn create_one(client: &mut Client) {
    let answer = client.send(&ADD.with(Clone::clone)).len();
    std::hint::black_box(answer);
}

thread_local! {
    static ADD: Vec<u8> = add();
}

/// A server, and a request that is sent to it again and again.
struct Compared {
    name: &'static str,
    what: String,
    server: Server,
    clients: usize,
    request: Vec<u8>,
}

impl Compared {
    fn run(&self, requests: usize) -> Load {
        load::run(&self.server, self.clients, requests, |client| {
            client.send(&self.request);
        })
    }
}

fn bare(clients: usize) -> Compared {
    Compared {
        name: "bare axum",
        what: "–".to_owned(),
        server: Server::bare(),
        clients,
        request: get_request("01m7wbhd1ycj66wa174tprwdgx5jnevbr0n0"),
    }
}

/// Measures all in turns and prints a row for each: medians, of the ratios to the first one in the same turn, too.
fn compare(all: &[Compared]) {
    for one in all {
        one.run(WARM_UP);
    }
    let turns: Vec<Vec<Load>> = (0..TURNS)
        .map(|_| all.iter().map(|one| one.run(REQUESTS / TURNS)).collect())
        .collect();
    for (nth, one) in all.iter().enumerate() {
        let of = |figure: fn(&Load, &Load) -> f64| median(turns.iter().map(|turn| figure(&turn[nth], &turn[0])));
        println!(
            "| {} | {} | {:.0} | {:.1} | {:.2} |",
            one.name,
            one.what,
            of(|load, _| load.rate),
            of(|load, _| load.cpu_micros),
            of(|load, bare| load.cpu_micros / bare.cpu_micros)
        );
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
