//! From the end of a task until a subscribed client has read it.

use crate::{
    compare::percentile,
    load::{Client, sleep},
    process::Server,
};
use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    path::Path,
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

const SAMPLES: usize = 2_000;
/// How long a task runs, so that its client has subscribed before it ends.
const TASK_MILLIS: u64 = 20;

/// Prints percentiles, and beside them those of an `fsync` of the same disk.
pub(crate) fn measure() {
    println!("\n## done → a subscribed client knows\n");
    println!("| clients | ms, p50 | ms, p99 | fsync ms, p50 | fsync ms, p99 |\n| --- | --- | --- | --- | --- |");
    for clients in [1, 16] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::longhaul(directory.path());
        let (pushes, fsyncs) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for nth in 0..clients {
                let file = directory.path().join(format!("fsync-{nth}"));
                let (server, pushes, fsyncs) = (&server, &pushes, &fsyncs);
                scope.spawn(move || {
                    let mut client = Client::connect(server.address);
                    for _ in 0..SAMPLES / clients {
                        let push = until_known(&mut client, server.address);
                        pushes.lock().unwrap().extend(push);
                        if nth == 0 {
                            fsyncs.lock().unwrap().push(fsync(&file));
                        }
                    }
                });
            }
        });
        let [pushes, fsyncs] = [pushes, fsyncs].map(|all| all.into_inner().unwrap());
        eprintln!(
            "{} of {SAMPLES} tasks ended after their client had subscribed",
            pushes.len()
        );
        let millis = |all: &[Duration], share| percentile(all.iter().map(|one| one.as_secs_f64() * 1e3), share);
        println!(
            "| {clients} | {:.2} | {:.2} | {:.2} | {:.2} |",
            millis(&pushes, 0.5),
            millis(&pushes, 0.99),
            millis(&fsyncs, 0.5),
            millis(&fsyncs, 0.99)
        );
    }
}

/// The time from the last line of the tool until its client has read the end; nothing if the task ended before the client had subscribed.
fn until_known(client: &mut Client, address: SocketAddr) -> Option<Duration> {
    let task = client.create(&sleep(TASK_MILLIS));
    let (mut subscribed, mut known) = (false, None);
    Client::connect(address).subscribe(&task, |message| {
        let status = &message["params"]["status"];
        subscribed |= status == "working";
        if status == "completed" {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let ended = message["params"]["result"]["content"][0]["text"].as_str().unwrap();
            known = now.checked_sub(Duration::from_nanos(ended.parse().unwrap()));
        }
        known.is_some()
    });
    known.filter(|_| subscribed)
}

/// Appends a page and waits until the disk has it.
fn fsync(path: &Path) -> Duration {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(&[1; 4096]).unwrap();
    let begun = Instant::now();
    file.sync_data().unwrap();
    begun.elapsed()
}
