//! The crash test of schedules: kills a server whose schedules start a task each second. Of the planned times that have passed each is started, skipped or
//! missed, once and as the schedule says, and each start is one task, whose command has run once.
//!
//! Everything is seen as operators see it, by `longhaul admin`; and each command leaves a line in a file.

use fastrand::Rng;
use harness::{
    clock,
    rounds::report::RunReport,
    rounds::violation::{Invariant, Violation},
    rounds::{Campaign, RunError},
    server::{self, Server},
    site::Site,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

const STOP: Duration = Duration::from_secs(15);
/// How long the last tasks may take to end.
const DRAIN: Duration = Duration::from_secs(60);
/// The distance of planned times, in milliseconds.
const EVERY: i64 = 1_000;
/// Tasks of a page.
const PAGE: &str = "500";

/// A schedule and what it does about what it has missed, and about overlaps.
struct Kind {
    name: &'static str,
    catch_up: &'static str,
    overlap: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "each",
        catch_up: "all",
        overlap: "queue",
    },
    Kind {
        name: "last",
        catch_up: "last",
        overlap: "skip",
    },
    Kind {
        name: "none",
        catch_up: "none",
        overlap: "skip",
    },
];

/// What operators see of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScheduleState {
    /// The next planned time, in unix milliseconds.
    next: i64,
    started: u64,
    skipped: u64,
    missed: u64,
}

impl ScheduleState {
    fn passed(&self) -> u64 {
        self.started + self.skipped + self.missed
    }
}

pub(super) struct ScheduleCrashes {
    program: PathBuf,
    configuration: PathBuf,
    log: PathBuf,
    /// A line for each run of a command: the name of its schedule.
    runs: PathBuf,
    /// How each stood when it was first looked at, and the last time.
    first: BTreeMap<&'static str, ScheduleState>,
    last: BTreeMap<&'static str, ScheduleState>,
    false_starts: usize,
}

fn config(site: &Site) -> String {
    let mut text = format!(
        "[server]\nname = \"scheduled\"\ndata_dir = {}\nlisten = \"127.0.0.1:0\"\n\
         [[tool]]\nname = \"tick\"\ndescription = \"tick\"\ncommand = [\"sh\", \"-c\", \"echo $1 >> runs; sleep 0.6\", \"sh\", \"{{schedule}}\"]\n\
         input = {{ schedule = {{ type = \"string\" }} }}\nlabels = {{ schedule = \"{{schedule}}\" }}\n",
        json!(site.file("data")),
    );
    for Kind {
        name,
        catch_up,
        overlap,
    } in &KINDS
    {
        text.push_str(&format!(
            "[[schedule]]\nname = \"{name}\"\ntool = \"tick\"\narguments = {{ schedule = \"{name}\" }}\nevery = \"1s\"\n\
             catch_up = \"{catch_up}\"\noverlap = \"{overlap}\"\n",
        ));
    }
    text
}

impl ScheduleCrashes {
    pub(super) fn start(site: &Site, program: PathBuf) -> Result<Self, RunError> {
        Ok(Self {
            program,
            configuration: site.write("longhaul.toml", config(site))?,
            log: site.file("server.log"),
            runs: site.file("runs"),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            false_starts: 0,
        })
    }

    fn serve(&self) -> Result<Server, RunError> {
        Ok(Server::start(
            &mut server::serve(&self.program, &self.configuration),
            &self.log,
        )?)
    }

    /// What a command of `longhaul admin` prints as JSON.
    fn admin(&self, command: &str, words: &[&str]) -> Result<Value, RunError> {
        let mut admin = Command::new(&self.program);
        admin.arg("admin").arg(command).arg(&self.configuration).args(words);
        let output = admin.arg("--json").output()?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            Invariant::SERVED
                .violated(format!("`admin {command}` has failed: {said}"))
                .into()
        })
    }

    /// How the schedules stand. A paused one has no next time: then it is that of the last look.
    fn standings(&self) -> Result<BTreeMap<&'static str, ScheduleState>, RunError> {
        let listed = self.admin("schedules", &[])?;
        let standing = |kind: &Kind| {
            let rows = listed["schedules"].as_array().into_iter().flatten();
            let row = rows.into_iter().find(|row| row["name"] == kind.name)?;
            let next = row["next"][0]
                .as_str()
                .and_then(|next| next.parse::<jiff::Timestamp>().ok());
            let known = self.last.get(kind.name).map(|last| last.next);
            let count = |member: &str| row[member].as_u64();
            Some(ScheduleState {
                next: next.map(jiff::Timestamp::as_millisecond).or(known)?,
                started: count("started")?,
                skipped: count("skipped")?,
                missed: count("missed")?,
            })
        };
        let all = KINDS
            .iter()
            .map(|kind| standing(kind).map(|standing| (kind.name, standing)));
        let all: Option<BTreeMap<_, _>> = all.collect();
        all.ok_or_else(|| {
            Invariant::SCHEDULED
                .violated(format!("not all schedules are there: {listed}"))
                .into()
        })
    }

    /// Looks at the schedules, and compares them with the looks before.
    fn look(&mut self) -> Result<Vec<Violation>, RunError> {
        let now = self.standings()?;
        let mut found = Vec::new();
        for kind in &KINDS {
            let Some(standing) = now.get(kind.name) else { continue };
            let first = *self.first.entry(kind.name).or_insert(*standing);
            let before = self.last.insert(kind.name, *standing).unwrap_or(first);
            found.extend(broken(kind, first, before, *standing).map(|what| Invariant::SCHEDULED.violated(what)));
        }
        Ok(found)
    }

    /// The number of tasks of a schedule, by their label; of the live ones with `--state live`.
    fn tasks_of(&self, schedule: &str, filter: &[&str]) -> Result<u64, RunError> {
        let label = format!("schedule={schedule}");
        let (mut count, mut after) = (0, None::<String>);
        loop {
            let mut words = vec!["--label", &label, "--limit", PAGE];
            words.extend(filter);
            words.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
            let page = self.admin("tasks", &words)?;
            count += page["tasks"].as_array().map_or(0, Vec::len) as u64;
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return Ok(count),
            }
        }
    }

    /// Waits until what was missed is caught up.
    fn catch_up(&mut self) -> Result<Vec<Violation>, RunError> {
        let mut found = Vec::new();
        let since = clock::now();
        loop {
            found.extend(self.look()?);
            let now = jiff::Timestamp::now().as_millisecond();
            let late = self.last.iter().find(|(_, standing)| standing.next < now - 2 * EVERY);
            match late {
                None => return Ok(found),
                Some((name, standing)) if since.elapsed() > DRAIN => {
                    let what = format!("{name} was to start at {}, and it is {now}", standing.next);
                    found.push(Invariant::SCHEDULED.violated(what));
                    return Ok(found);
                }
                Some(_) => clock::pause(Duration::from_millis(200)),
            }
        }
    }

    /// Each start is a task, and its command has run once.
    fn check_starts(&self) -> Result<Vec<Violation>, RunError> {
        let ran = fs::read_to_string(&self.runs)?;
        let standings = self.standings()?;
        let mut found = Vec::new();
        for kind in &KINDS {
            let name = kind.name;
            let started = standings.get(name).map_or(0, |standing| standing.started);
            let tasks = self.tasks_of(name, &[])?;
            let runs = ran.lines().filter(|line| *line == name).count() as u64;
            if [tasks, runs] != [started; 2] {
                let what = format!(
                    "{name} has started {started} times; there are {tasks} tasks, and {runs} commands have run"
                );
                found.push(Invariant::SCHEDULED.violated(what));
            }
        }
        Ok(found)
    }
}

/// What is wrong with how a schedule stands.
fn broken(kind: &Kind, first: ScheduleState, before: ScheduleState, now: ScheduleState) -> Option<String> {
    let name = kind.name;
    let went_back = now.next < before.next
        || now.started < before.started
        || now.skipped < before.skipped
        || now.missed < before.missed;
    let planned = (now.next - first.next + EVERY / 2) / EVERY;
    let passed = now.passed() - first.passed();
    if went_back {
        Some(format!("{name} went back: {before:?} became {now:?}"))
    } else if planned != passed.cast_signed() {
        Some(format!(
            "{name} had {planned} planned times from {first:?} to {now:?}, and {passed} have passed"
        ))
    } else if kind.catch_up == "all" && now.skipped + now.missed > 0 {
        Some(format!("{name} starts at each planned time, and did not: {now:?}"))
    } else {
        None
    }
}

impl Campaign for ScheduleCrashes {
    fn round(&mut self, _: u32, rng: &mut Rng) -> Result<Vec<Violation>, RunError> {
        if rng.u8(0..4) == 0 {
            let mut server = self.serve()?;
            clock::pause(Duration::from_millis(rng.u64(0..300)));
            self.false_starts += 1;
            server.kill()?;
        }
        let mut server = self.serve()?;
        server.ready()?;
        let found = self.look()?;
        clock::pause(Duration::from_millis(rng.u64(0..1_500)));
        server.kill()?;
        if rng.u8(0..3) == 0 {
            clock::pause(Duration::from_millis(rng.u64(0..3_500)));
        }
        Ok(found)
    }

    fn finish(&mut self, report: &mut RunReport) -> Result<Vec<Violation>, RunError> {
        let mut server = self.serve()?;
        server.ready()?;
        let mut found = self.catch_up()?;
        let names = KINDS.map(|kind| kind.name);
        self.admin("schedules", &[&["pause"][..], &names].concat())?;
        let are_over = || {
            let live = names.iter().map(|name| self.tasks_of(name, &["--state", "live"]));
            match live.sum::<Result<u64, _>>() {
                Ok(0) => Some(Ok(())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        };
        match clock::wait_for(DRAIN, are_over) {
            Some(over) => over?,
            None => found.push(Invariant::ENDS.violated("a task of a schedule does not end")),
        }
        found.extend(self.check_starts()?);
        server.stop(STOP)?;
        let sum = |count: fn(&ScheduleState) -> u64| self.last.values().map(count).sum::<u64>();
        report.needed("started", sum(|standing| standing.started) as usize, "task was started");
        report.needed(
            "missed",
            sum(|standing| standing.missed) as usize,
            "planned time was missed",
        );
        report.line("skipped", sum(|standing| standing.skipped));
        report.line("killed at start", self.false_starts);
        Ok(found)
    }

    fn progress(&self) -> String {
        let started: u64 = self.last.values().map(|standing| standing.started).sum();
        format!("{started} started")
    }
}
