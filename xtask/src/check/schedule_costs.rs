//! `cargo xtask schedules`: what schedules cost while none of them is due.
//!
//! Two servers of the same configuration run one after the other, with many schedules that are due tomorrow and without. Measured are their starts, their
//! memory, and the CPU time of all their threads once they have settled.

use harness::{
    clock,
    process::ProcessError,
    server::{self, Server, ServerError},
    site::Site,
    workspace,
};
use serde_json::json;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a server has to settle after its start.
const SETTLE: Duration = Duration::from_secs(5);
const STOP: Duration = Duration::from_secs(15);

/// `cargo xtask schedules`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many schedules
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// How long CPU time is counted, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How often everything is measured
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Report as lines of JSON
    #[arg(long)]
    json: bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScheduleCostsError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What was measured of one server.
#[derive(Debug, Clone, Copy)]
struct Costs {
    /// Its first start, which makes the rows.
    first_start: Duration,
    /// The next one, which reads them.
    start: Duration,
    cpu: Duration,
    memory: u64,
}

/// Measures, and prints a table.
pub(crate) fn run(args: &Args) -> Result<(), ScheduleCostsError> {
    let program = workspace::longhaul().or_build(args.program.as_ref())?;
    let counts = [0, args.count];
    let mut costs = counts.map(|_| Vec::new());
    for turn in 0..args.turns.max(1) {
        for (count, costs) in counts.iter().zip(&mut costs) {
            eprintln!("turn {}: {count} schedules", turn + 1);
            let site = Site::create("schedules", &format!("{count}-{turn}"))?;
            costs.push(measure(&site, &program, *count, Duration::from_secs(args.seconds))?);
            site.discard()?;
        }
    }
    let columns = ["schedules", "first start, ms", "start, ms", "CPU, ms", "memory, MiB"];
    if !args.json {
        println!("{}", columns.map(|column| format!("{column:>16}")).concat());
    }
    for (count, costs) in counts.iter().zip(costs) {
        let median = |value: fn(&Costs) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let row = [
            median(|costs| costs.first_start.as_secs_f64() * 1e3),
            median(|costs| costs.start.as_secs_f64() * 1e3),
            median(|costs| costs.cpu.as_secs_f64() * 1e3),
            median(|costs| costs.memory as f64 / f64::from(1 << 20)),
        ];
        if args.json {
            println!(
                "{}",
                json!({"schedules": count, "first_start_ms": row[0], "start_ms": row[1], "cpu_ms": row[2], "memory_mib": row[3], "seconds": args.seconds})
            );
        } else {
            println!("{count:>16}{}", row.map(|value| format!("{value:>16.1}")).concat());
        }
    }
    Ok(())
}

fn measure(site: &Site, program: &Path, count: usize, span: Duration) -> Result<Costs, ScheduleCostsError> {
    let configuration = site.write("longhaul.toml", config(site, count))?;
    let start = || -> Result<(Server, Duration), ServerError> {
        let began = clock::now();
        let mut server = Server::start(&mut server::serve(program, &configuration), &site.file("server.log"))?;
        server.ready_within(Duration::from_secs(300))?;
        Ok((server, began.elapsed()))
    };
    let (mut server, first_start) = start()?;
    server.stop(STOP)?;
    let (mut server, start) = start()?;
    clock::pause(SETTLE);
    let before = cpu(server.id())?;
    clock::pause(span);
    let cpu = cpu(server.id())?.saturating_sub(before);
    let memory = server.memory("VmRSS")?;
    server.stop(STOP)?;
    Ok(Costs {
        first_start,
        start,
        cpu,
        memory,
    })
}

/// The CPU time of all threads that run, to the nanosecond.
fn cpu(pid: u32) -> io::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let first = text.split_ascii_whitespace().next();
        nanos += first.and_then(|first| first.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanos))
}

/// Schedules of a day, by turns of both kinds. Those with a cron come on one day of February, so that none comes while it is measured in another month.
fn config(site: &Site, count: usize) -> String {
    let mut text = format!(
        "[server]\nname = \"schedules\"\ndata_dir = {}\nlisten = \"127.0.0.1:0\"\n\
         [[tool]]\nname = \"quick\"\ndescription = \"quick\"\ncommand = [\"true\"]\n",
        json!(site.file("data")),
    );
    for nth in 0..count {
        let when = match nth % 2 {
            0 => "every = \"24h\"".to_owned(),
            _ => format!("cron = \"{} {} 29 2 *\"", nth / 2 % 60, nth / 120 % 24),
        };
        text.push_str(&format!("[[schedule]]\nname = \"s{nth}\"\ntool = \"quick\"\n{when}\n"));
    }
    text
}
