//! `cargo xtask conformance --gateway`: the suite against a server, directly and through the gateway, and what differs.
//!
//! Every check has the same result both times, except those of `differences.txt`.

use super::{
    Args, ConformanceError,
    case::{Case, Side},
    chosen,
    differences::{self, Difference},
    run_all, run_each,
    suite::{Suite, TestTarget},
    upstreams::{START, Upstream},
    verdict::Verdict,
};
use harness::{server::Server, side_by_side, workspace};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    panic,
    path::Path,
    process::Command,
    thread,
};

/// Compares each upstream with itself behind the gateway.
pub(super) fn run(args: &Args) -> Result<(), ConformanceError> {
    let suite = Suite::install()?;
    let longhaul = workspace::longhaul().or_build(args.longhaul.as_ref())?;
    let chosen_upstreams = Upstream::chosen(&args.upstream);
    let mut unexplained = 0;
    let reports = workspace::target()
        .join("conformance")
        .join(format!("gateway-{}", std::process::id()));
    // One that waits leaves the processors to the others.
    let at_a_time = chosen_upstreams.len();
    let all = side_by_side::map(chosen_upstreams, at_a_time, |upstream| {
        compare(&suite, upstream, &longhaul, args, &reports.join(upstream.name()))
    });
    for compared in all {
        let compared = compared?;
        compared.print(args.json);
        unexplained += compared.unexplained.len();
    }
    if unexplained > 0 {
        return Err(ConformanceError::Differs {
            unexplained,
            kept: reports,
        });
    }
    Ok(fs::remove_dir_all(reports)?)
}

/// The results of an upstream.
struct Comparison {
    upstream: Upstream,
    /// How many checks passed.
    direct: usize,
    through_gateway: usize,
    /// The differences that are listed, each with its reason.
    explained: Vec<Difference>,
    /// A difference that is not listed, or one that is and was not seen.
    unexplained: Vec<String>,
}

fn compare(
    suite: &Suite,
    upstream: Upstream,
    longhaul: &Path,
    args: &Args,
    folder: &Path,
) -> Result<Comparison, ConformanceError> {
    fs::create_dir_all(folder)?;
    // Each has a server of its own: scenarios change the lists of a server, and leave tasks behind.
    let (_one, direct) = upstream.start(args, &folder.join("direct.log"))?;
    let (_other, behind) = upstream.start(args, &folder.join("upstream.log"))?;
    let mut gateway = serve(longhaul, behind, folder)?;
    let relayed = gateway.ready_within(START)?;
    let (direct, relayed) = thread::scope(|scope| {
        let direct = scope.spawn(|| verdicts(suite, upstream, direct, args, &folder.join("direct")));
        let relayed = verdicts(suite, upstream, relayed, args, &folder.join("gateway"));
        let direct = direct.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        direct.and_then(|direct| Ok((direct, relayed?)))
    })?;
    let (before, after) = (statuses(&direct), statuses(&relayed));
    let mut compared = Comparison {
        upstream,
        direct: direct.iter().map(Verdict::passed).sum(),
        through_gateway: relayed.iter().map(Verdict::passed).sum(),
        explained: Vec::new(),
        unexplained: Vec::new(),
    };
    let mut listed = differences::listed()?;
    listed.retain(|difference| difference.upstream == upstream.name());
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    for key in keys {
        let status = |statuses: &BTreeMap<_, String>| statuses.get(&key).map_or("not run", String::as_str).to_owned();
        let (direct, relayed) = (status(&before), status(&after));
        let found = listed.iter().position(|difference| difference.check == key);
        let expected = found.map(|at| listed.swap_remove(at));
        match expected {
            None if direct == relayed => {}
            Some(difference) if (difference.direct, difference.relayed) == (&direct, &relayed) => {
                compared.explained.push(difference);
            }
            _ => {
                let listed = expected.map_or_else(String::new, |difference| format!("; listed as {difference}"));
                let check = key.join(" ");
                compared.unexplained.push(format!(
                    "{check}: {direct} directly, {relayed} through the gateway{listed}"
                ));
            }
        }
    }
    // Of the scenarios that have run.
    let unseen = listed.iter().filter(|difference| {
        let [revision, scenario, _] = difference.check;
        direct.iter().any(|verdict| verdict.case() == (revision, scenario))
    });
    let unseen = unseen.map(|difference| format!("{difference}: listed, but the suite has no such check"));
    compared.unexplained.extend(unseen);
    Ok(compared)
}

/// Runs the scenarios for servers.
fn verdicts(
    suite: &Suite,
    upstream: Upstream,
    server: SocketAddr,
    args: &Args,
    reports: &Path,
) -> Result<Vec<Verdict>, ConformanceError> {
    let mut cases = chosen(suite, &args.scenario)?;
    cases.retain(|case: &Case| case.side == Side::Server && upstream.is_tested_in(case.revision, args));
    fs::create_dir_all(reports)?;
    let tested = TestTarget {
        server,
        // No scenario for clients is left.
        client: Path::new("").to_owned(),
    };
    let run = if args.scenario.is_empty() { run_all } else { run_each };
    run(suite, cases, &tested, reports)
}

fn serve(longhaul: &Path, upstream: SocketAddr, folder: &Path) -> Result<Server, ConformanceError> {
    let config = folder.join("longhaul.toml");
    fs::write(
        &config,
        format!(
            "[server]\nname = \"conformance\"\n\n[upstream.tested]\nurl = \"http://{upstream}/mcp\"\nhandoff = \"0s\"\n"
        ),
    )?;
    let mut command = Command::new(longhaul);
    command.arg("serve").arg(&config);
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(folder.join("data"));
    Ok(Server::start(&mut command, &folder.join("gateway.log"))?)
}

/// The statuses of each check, which a scenario may make several times, in order of their names.
fn statuses(verdicts: &[Verdict]) -> BTreeMap<[&str; 3], String> {
    let mut statuses: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for verdict in verdicts {
        for (check, status) in verdict.statuses() {
            let (revision, scenario) = verdict.case();
            statuses.entry([revision, scenario, check]).or_default().push(status);
        }
    }
    let joined = statuses.into_iter().map(|(key, mut statuses)| {
        statuses.sort_unstable();
        (key, statuses.join(" "))
    });
    joined.collect()
}

impl Comparison {
    fn print(&self, as_json: bool) {
        if as_json {
            let explained: Vec<_> = self.explained.iter().map(ToString::to_string).collect();
            println!(
                "{}",
                json!({
                    "upstream": self.upstream.name(), "direct": self.direct, "through_gateway": self.through_gateway,
                    "explained": explained, "unexplained": self.unexplained,
                })
            );
            return;
        }
        println!(
            "{}: {} checks passed directly, {} through the gateway",
            self.upstream.name(),
            self.direct,
            self.through_gateway
        );
        for difference in &self.explained {
            println!("  explained: {difference}\n    {}", difference.reason);
        }
        for what in &self.unexplained {
            println!("  UNEXPLAINED: {what}");
        }
    }
}
