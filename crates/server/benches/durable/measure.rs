//! The measurements of one kind of request. Each prints its rows as it goes.

use crate::{
    compare::{self, AXUM, Compared, RMCP, Source, Turns, one},
    load::{self, Client, add, get as get_request},
    process::Server,
    retained,
};
use std::{rc::Rc, time::Instant};

const REQUESTS: usize = 100_000;
/// Requests in a turn that takes a fraction of a second.
const PER_TURN: usize = 9_000;
/// How many tasks rmcp creates in a turn, which is all that it then retains.
const RMCP_TASKS: usize = 2_000;
/// How many tasks rmcp has where it has many. Each of its requests goes through all of them.
const RMCP_MANY: usize = 10_000;
const POLLED: &str = "01m7wbhd1ycj66wa174tprwdgx5jnevbr0n0";

/// `tasks/get` of one finished task, with 1 task and with very many.
pub(crate) fn get() {
    println!("\n## tasks/get, 16 clients\n");
    let many: usize = std::env::var("LONGHAUL_BENCH_RETAINED").map_or(1_000_000, |text| text.parse().unwrap());
    let directories = [1, many].map(|count| {
        let directory = tempfile::tempdir().unwrap();
        let tasks = retained::fill(directory.path(), count, 100);
        (count, directory, tasks[count / 2].as_str().to_owned())
    });
    let rmcp = Server::rmcp();
    let [task] = &*created(&rmcp, 1) else { unreachable!() };
    let mut compared = vec![
        axum(16, get_request(POLLED)),
        fixed(16),
        Compared {
            name: RMCP,
            what: "1".to_owned(),
            source: Source::running(rmcp),
            clients: 16,
            rounds_per_turn: PER_TURN / 3,
            round: one(get_request(task)),
        },
    ];
    for (count, directory, task) in &directories {
        let server = Server::longhaul(directory.path());
        assert!(is_completed(Client::connect(server.address).poll(task)));
        compared.push(Compared {
            name: "longhaul",
            what: count.to_string(),
            source: Source::running(server),
            clients: 16,
            rounds_per_turn: PER_TURN,
            round: one(get_request(task)),
        });
    }
    compare::print_head("retained tasks");
    compare::print_rows(&compared);
    let [.., longhaul] = &*compared else { return };
    let Source::Running(server) = &longhaul.source else {
        return;
    };
    let creates = load::run(server, 64, REQUESTS / 2, one(add()));
    println!(
        "\nWith {many} retained, 64 clients create {:.0} tasks per second, for {:.1} µs of CPU each.",
        creates.rate, creates.cpu_micros
    );
}

/// `tasks/get` of random ids among many, as a share of one that is polled again and again.
pub(crate) fn random() {
    const COUNT: usize = 100_000;
    println!("\n## tasks/get of random ids, 16 clients\n");
    println!(
        "| server | finished tasks | polled | polls/s | of one hot task | CPU µs |\n| --- | --- | --- | --- | --- | --- |"
    );
    let directory = tempfile::tempdir().unwrap();
    let tasks = retained::fill(directory.path(), COUNT, 100);
    let longhaul = Rc::new(Server::longhaul(directory.path()));
    let longhaul_tasks: Vec<String> = tasks.iter().map(|task| task.as_str().to_owned()).collect();
    let rmcp = Rc::new(Server::rmcp());
    let rmcp_tasks = created(&rmcp, RMCP_MANY);
    let polls = |name, server: &Rc<Server>, tasks: &[String], what: &str, rounds_per_turn| Compared {
        name,
        what: format!("{} | {what}", tasks.len()),
        source: Source::Running(server.clone()),
        clients: 16,
        rounds_per_turn,
        round: match what {
            "one" => poll_of(vec![tasks[tasks.len() / 2].clone()]),
            _ => poll_of(tasks.to_vec()),
        },
    };
    let compared = [
        polls("longhaul", &longhaul, &longhaul_tasks, "one", PER_TURN),
        polls("longhaul", &longhaul, &longhaul_tasks, "random", PER_TURN),
        polls(RMCP, &rmcp, &rmcp_tasks, "one", PER_TURN / 10),
        polls(RMCP, &rmcp, &rmcp_tasks, "random", PER_TURN / 10),
    ];
    let turns = Turns::of(&compared);
    for (nth, one) in compared.iter().enumerate() {
        let hot = nth / 2 * 2;
        println!(
            "| {} | {} | {:.0} | {:.2} | {:.1} |",
            one.name,
            one.what,
            turns.median(|turn| turn[nth].rate),
            turns.median(|turn| turn[nth].rate / turn[hot].rate),
            turns.median(|turn| turn[nth].cpu_micros)
        );
    }
}

/// `tools/call` until its task is acknowledged, which is after its fsync.
pub(crate) fn create() {
    println!("\n## tools/call → acknowledged task\n");
    compare::print_head("clients");
    for clients in [64, 16, 1] {
        let directory = tempfile::tempdir().unwrap();
        let longhaul = Server::longhaul(directory.path());
        let retaining = Server::rmcp();
        created(&retaining, RMCP_MANY);
        let compared = [
            Compared {
                what: clients.to_string(),
                ..axum(clients, add())
            },
            Compared {
                name: RMCP,
                what: clients.to_string(),
                source: Source::EachTurn(Server::rmcp),
                clients,
                rounds_per_turn: RMCP_TASKS,
                round: one(add()),
            },
            Compared {
                name: "rmcp, much retained",
                what: clients.to_string(),
                source: Source::running(retaining),
                clients,
                rounds_per_turn: RMCP_TASKS / 10,
                round: one(add()),
            },
            Compared {
                name: "longhaul",
                what: clients.to_string(),
                source: Source::running(longhaul),
                clients,
                rounds_per_turn: if clients == 1 { RMCP_TASKS } else { PER_TURN },
                round: one(add()),
            },
        ];
        compare::print_rows(&compared);
    }
}

/// Create, then poll without a pause until the result is there.
pub(crate) fn roundtrip() {
    println!("\n## create → done → result\n");
    compare::print_head("clients");
    for clients in [16, 1] {
        let directory = tempfile::tempdir().unwrap();
        let compared = [
            Compared {
                what: clients.to_string(),
                ..axum(clients, get_request(POLLED))
            },
            Compared {
                name: RMCP,
                what: clients.to_string(),
                source: Source::EachTurn(Server::rmcp),
                clients,
                rounds_per_turn: RMCP_TASKS / 2,
                round: create_and_poll(),
            },
            Compared {
                name: "longhaul",
                what: clients.to_string(),
                source: Source::running(Server::longhaul(directory.path())),
                clients,
                rounds_per_turn: RMCP_TASKS / 2,
                round: create_and_poll(),
            },
        ];
        compare::print_rows(&compared);
    }
}

/// From the start of the process to its first answer, and what it then holds in memory.
pub(crate) fn restart() {
    const COUNT: usize = 100_000;
    println!("\n## restart with {COUNT} finished tasks of 1 KB\n");
    println!(
        "| first answer ms | resident MB at once | resident MB after 100,000 polls and 50,000 creates |\n| --- | --- | --- |"
    );
    let directory = tempfile::tempdir().unwrap();
    let tasks = retained::fill(directory.path(), COUNT, 1000);
    let request = get_request(tasks[COUNT / 2].as_str());
    let begun = Instant::now();
    let server = Server::longhaul(directory.path());
    assert_eq!(
        Client::connect(server.address).ask(&request)["result"]["status"],
        "completed"
    );
    let first_answer = begun.elapsed();
    let at_once = server.resident_kib();
    load::run(&server, 16, REQUESTS, one(request));
    load::run(&server, 64, REQUESTS / 2, one(add()));
    let later = server.resident_kib();
    println!(
        "| {} | {:.1} | {:.1} |",
        first_answer.as_millis(),
        at_once as f64 / 1024.0,
        later as f64 / 1024.0
    );
}

/// axum, which parses the request and answers JSON.
fn axum(clients: usize, request: Vec<u8>) -> Compared {
    Compared {
        name: AXUM,
        what: "–".to_owned(),
        source: Source::running(Server::bare()),
        clients,
        rounds_per_turn: PER_TURN,
        round: one(request),
    }
}

/// axum, which reads the request and answers a fixed text.
fn fixed(clients: usize) -> Compared {
    let request = String::from_utf8(get_request(POLLED)).unwrap();
    Compared {
        name: "axum, fixed text",
        ..axum(clients, request.replacen("/mcp", "/fixed", 1).into_bytes())
    }
}

/// Creates tasks, waits until they are done and returns their ids.
fn created(server: &Server, count: usize) -> Vec<String> {
    let mut client = Client::connect(server.address);
    let tasks: Vec<String> = (0..count).map(|_| client.create(&add())).collect();
    for task in &tasks {
        finish(&mut client, task);
    }
    tasks
}

fn create_and_poll() -> compare::Round {
    let request = add();
    Box::new(move |client| {
        let task = client.create(&request);
        finish(client, &task);
    })
}

fn finish(client: &mut Client, task: &str) {
    while !is_completed(client.poll(task)) {}
}

fn is_completed(answer: &[u8]) -> bool {
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap();
    answer["result"]["status"] == "completed"
}

fn poll_of(tasks: Vec<String>) -> compare::Round {
    Box::new(move |client| {
        let task = &tasks[fastrand::usize(..tasks.len())];
        client.poll(task);
        assert!(client.succeeded, "not every answer has the status 200");
    })
}
