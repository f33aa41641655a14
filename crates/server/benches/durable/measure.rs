//! The measurements. Each prints its rows as it goes.

use crate::{
    load::{self, Client, add, get as get_request},
    process::Server,
    retained,
};
use std::time::Instant;

const REQUESTS: usize = 100_000;
const WARM_UP: usize = 5_000;

/// CPU of `tasks/get` as a multiple of a bare POST, with 1 task and with very many.
pub(crate) fn get() {
    println!("\n## tasks/get: server CPU per request, 16 clients\n");
    println!("| server | retained tasks | requests/s | CPU µs | times bare |\n| --- | --- | --- | --- | --- |");
    let bare = bare(16);
    row("bare axum", "–", &bare, &bare);
    let many: usize = std::env::var("LONGHAUL_BENCH_RETAINED").map_or(1_000_000, |text| text.parse().unwrap());
    for count in [1, many] {
        let directory = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let task = retained::fill(directory.path(), count, 100);
        eprintln!("filled with {count} in {:.1?}", begun.elapsed());
        let server = Server::longhaul(directory.path());
        let request = get_request(task.as_str());
        load::run(&server, 16, WARM_UP, |client| {
            client.send(&request);
        });
        let load = load::run(&server, 16, REQUESTS, |client| {
            client.send(&request);
        });
        row("longhaul", &count.to_string(), &load, &bare);
        if count > 1 {
            let created = load::run(&server, 64, REQUESTS / 2, create_one);
            println!(
                "| longhaul, creates, 64 clients | {count} | {:.0} | {:.1} | |",
                created.rate, created.cpu_micros
            );
        }
    }
}

/// `tools/call` until its task is acknowledged, which is after its fsync.
pub(crate) fn create() {
    println!("\n## tools/call → acknowledged task\n");
    println!("| server | clients | creates/s | CPU µs | times bare |\n| --- | --- | --- | --- | --- |");
    let bare = bare(64);
    row("bare axum", "64", &bare, &bare);
    for clients in [1, 16, 64] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::longhaul(directory.path());
        load::run(&server, clients, 2_000, create_one);
        let total = if clients == 1 { 10_000 } else { REQUESTS };
        let load = load::run(&server, clients, total, create_one);
        row("longhaul", &clients.to_string(), &load, &bare);
    }
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

fn bare(clients: usize) -> load::Load {
    let server = Server::bare();
    let request = get_request("01m7wbhd1ycj66wa174tprwdgx5jnevbr0n0");
    load::run(&server, clients, WARM_UP, |client| {
        client.send(&request);
    });
    load::run(&server, clients, REQUESTS, |client| {
        client.send(&request);
    })
}

fn row(server: &str, what: &str, load: &load::Load, bare: &load::Load) {
    let times = load.cpu_micros / bare.cpu_micros;
    println!(
        "| {server} | {what} | {:.0} | {:.1} | {times:.2} |",
        load.rate, load.cpu_micros
    );
}
