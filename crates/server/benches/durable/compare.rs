//! Servers that are measured in turns, so that other load on the machine affects all alike.

use crate::{
    load::{self, Client, Load},
    process::Server,
};
use std::rc::Rc;

/// How often each server is measured.
const TURNS: usize = 11;

/// The names of the peers, in the first column.
pub(crate) const AXUM: &str = "axum";
pub(crate) const RMCP: &str = "rmcp";

/// A server, and a round of requests that its clients make again and again.
pub(crate) struct Compared {
    pub(crate) name: &'static str,
    /// The second column.
    pub(crate) what: String,
    pub(crate) source: Source,
    pub(crate) clients: usize,
    pub(crate) rounds_per_turn: usize,
    pub(crate) round: Round,
}

pub(crate) type Round = Box<dyn Fn(&mut Client) + Sync>;

pub(crate) enum Source {
    Running(Rc<Server>),
    /// A new server for each turn, because what it retains slows it.
    EachTurn(fn() -> Server),
}

impl Source {
    pub(crate) fn running(server: Server) -> Self {
        Self::Running(Rc::new(server))
    }
}

impl Compared {
    fn turn(&self) -> Load {
        match &self.source {
            Source::Running(server) => self.run(server, self.rounds_per_turn),
            Source::EachTurn(start) => {
                let server = start();
                self.run(&server, self.rounds_per_turn / 10);
                self.run(&server, self.rounds_per_turn)
            }
        }
    }

    fn run(&self, server: &Server, rounds: usize) -> Load {
        load::run(server, self.clients, rounds, &self.round)
    }
}

/// A round of one request.
pub(crate) fn one(request: Vec<u8>) -> Round {
    Box::new(move |client| {
        client.send(&request);
        assert!(client.succeeded, "not every answer has the status 200");
    })
}

/// The loads of each turn, in the order of what was compared.
pub(crate) struct Turns(Vec<Vec<Load>>);

impl Turns {
    /// Measures all in turns, every second time in reverse, after one turn that does not count.
    pub(crate) fn of(all: &[Compared]) -> Self {
        let mut turns: Vec<Vec<Load>> = (0..=TURNS)
            .map(|nth| match nth % 2 {
                0 => all.iter().map(Compared::turn).collect(),
                _ => {
                    let mut turn: Vec<Load> = all.iter().rev().map(Compared::turn).collect();
                    turn.reverse();
                    turn
                }
            })
            .collect();
        turns.remove(0);
        Self(turns)
    }

    /// The median of a figure of each turn.
    pub(crate) fn median(&self, figure: impl Fn(&[Load]) -> f64) -> f64 {
        percentile(self.0.iter().map(|turn| figure(turn)), 0.5)
    }
}

pub(crate) fn print_head(second_column: &str) {
    println!(
        "| server | {second_column} | per second | of axum's | of rmcp's | CPU µs | times axum's | times rmcp's |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
}

/// Measures all and prints a row for each. The ratios are medians of those of each turn.
pub(crate) fn print_rows(all: &[Compared]) {
    let turns = Turns::of(all);
    let peers = [AXUM, RMCP].map(|peer| all.iter().position(|one| one.name == peer));
    for (nth, one) in all.iter().enumerate() {
        let [of_axum, of_rmcp, times_axum, times_rmcp] = [
            (peers[0], rate as fn(&Load) -> f64),
            (peers[1], rate),
            (peers[0], cpu),
            (peers[1], cpu),
        ]
        .map(|(peer, figure)| match peer {
            Some(peer) => format!("{:.2}", turns.median(|turn| figure(&turn[nth]) / figure(&turn[peer]))),
            None => "–".to_owned(),
        });
        let [rate, cpu] = [rate, cpu].map(|figure| turns.median(|turn| figure(&turn[nth])));
        println!(
            "| {} | {} | {rate:.0} | {of_axum} | {of_rmcp} | {cpu:.1} | {times_axum} | {times_rmcp} |",
            one.name, one.what
        );
    }
}

fn rate(load: &Load) -> f64 {
    load.rate
}

fn cpu(load: &Load) -> f64 {
    load.cpu_micros
}

/// The figure below which this share of all figures is.
pub(crate) fn percentile(figures: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let nth = (figures.len() as f64 * share) as usize;
    figures[nth.min(figures.len() - 1)]
}
