//! A server with every feature that the official conformance suite tests, written with the public API only.
//!
//! `everything (--listen ADDR | --stdio) [--data-dir DIR | --store URL]`. Without either tasks are kept in a temporary directory, which is removed at
//! the end. `--store` names a PostgreSQL database, which several servers may share.

mod changes;
mod contents;
mod prompts;
mod questions;
mod reports;
mod resources;
mod rounds;
mod tasks;

use longhaul::{
    Server,
    postgres::{PostgresOptions, PostgresStore},
};
use std::{error::Error, path::PathBuf, sync::Arc};

fn server() -> Server {
    Server::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .instructions("Each tool, prompt and resource shows one feature.")
        .tools(contents::tools())
        .tools(reports::tools())
        .tools(changes::tools())
        .tools(questions::tools())
        .tools(rounds::tools())
        .tools(tasks::tools())
        .prompts(prompts::prompts())
        .resources(resources::resources())
        .template(resources::template())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::read()?;
    let temporary = tempfile::tempdir()?;
    let directory = flags.data_dir.as_deref().unwrap_or(temporary.path());
    let server = match &flags.store {
        Some(url) => server().store(Arc::new(PostgresStore::open(url, PostgresOptions::default()).await?)),
        None => server().data_dir(directory),
    };
    let Some(address) = flags.listen else {
        return Ok(server.serve_stdio().await?);
    };
    let running = server.start().await?;
    let listening = running.listen(&*address).await?;
    println!("{}", listening.url());
    listening.serve_until_signal().await?;
    running.stop().await;
    Ok(())
}

struct Flags {
    /// `None`: serve over standard input and output.
    listen: Option<String>,
    data_dir: Option<PathBuf>,
    store: Option<String>,
}

impl Flags {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut flags = Self {
            listen: Some("127.0.0.1:0".to_owned()),
            data_dir: None,
            store: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--listen" => flags.listen = Some(value()?),
                "--stdio" => flags.listen = None,
                "--data-dir" => flags.data_dir = Some(value()?.into()),
                "--store" => flags.store = Some(value()?),
                _ => {
                    let known = "--listen ADDR, --stdio, --data-dir DIR and --store URL";
                    return Err(format!("unknown flag {flag}: there are {known}").into());
                }
            }
        }
        Ok(flags)
    }
}
