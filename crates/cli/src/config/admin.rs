//! The `[admin]` section: where the server is operated.

use super::{
    section::{Entry, Section},
    server::{Listen, parse_listen},
};
use crate::output::nearest;
use longhaul_admin::AdminSettings;
use longhaul_server::http::is_loopback;
use std::{collections::BTreeSet, net::SocketAddr};

/// Reads the section; `None` after a problem. `server` is where the server listens for clients, and `labels` are those of its tools, if that is known.
pub(super) fn read(
    section: &Section<'_>,
    server: Option<&Listen>,
    labels: Option<&BTreeSet<&str>>,
) -> Option<AdminSettings> {
    let listen = section.require("listen").and_then(|entry| {
        let listen = listen(&entry)?;
        let is_taken_by = |other: SocketAddr| {
            listen.port() != 0
                && other.port() == listen.port()
                && (other.ip() == listen.ip() || other.ip().is_unspecified())
        };
        if server.and_then(Listen::address).is_some_and(is_taken_by) {
            entry.report(format!(
                "`listen`: {listen} is where clients connect, as `listen` of [server] says; name another port"
            ));
            return None;
        }
        Some(listen)
    });
    let same_user = section.optional("same_user", Entry::flag);
    let metrics_key = section.get_or("metrics_key", true, Entry::flag);
    let allowed_hosts = section.parsed_list("allowed_hosts");
    let metrics_labels = section.get_or("metrics_labels", BTreeSet::new(), |entry| read_labels(entry, labels));
    section.finish();
    Some(AdminSettings {
        listen: Some(listen?),
        same_user: same_user?,
        metrics_key: metrics_key?,
        allowed_hosts: allowed_hosts?,
        metrics_labels: metrics_labels?,
    })
}

/// Reads the names of labels.
fn read_labels(entry: &Entry<'_>, known: Option<&BTreeSet<&str>>) -> Option<BTreeSet<String>> {
    let names = entry.texts()?;
    for (entry, name) in &names {
        let Some(known) = known.filter(|known| !known.contains(name)) else {
            continue;
        };
        let hint = nearest::suggestion(name, known.iter().copied())
            .unwrap_or_else(|| format!("add it to a tool: labels = {{ {name} = \"…\" }}"));
        entry.report(format!("`metrics_labels`: no [[tool]] has a label `{name}`; {hint}"));
    }
    Some(names.into_iter().map(|(_, name)| name.to_owned()).collect())
}

fn listen(entry: &Entry<'_>) -> Option<SocketAddr> {
    let text = entry.text_like("an address such as \"127.0.0.1:7412\"")?;
    let address = parse_listen(text);
    let address = address
        .map_err(|error| entry.report(format!("`listen`: {error}")))
        .ok()?;
    let Some(address) = address.address() else {
        entry.report(
            "`listen`: the admin listener has a socket in the data directory already; name an address".to_owned(),
        );
        return None;
    };
    if !is_loopback(address.ip()) {
        entry.report(format!(
            "`listen`: {address} can be reached from other machines, and keys would cross the network in the clear: listen on 127.0.0.1, and put a proxy with TLS in front of it"
        ));
        return None;
    }
    Some(address)
}
