//! Which addresses the metadata of servers lead a login to: none that only the program reaches (SSRF).

use crate::{authorization_server::Protected, login::NoBrowser};
use longhaul_client::{Login, LoginOptions, TokenError, TokenFile};
use serde_json::json;
use std::{
    net::{IpAddr, TcpListener, UdpSocket},
    path::Path,
    sync::Arc,
};
use tempfile::tempdir;

/// What the error says if none of the named addresses was tried. Of one that does not answer it says so.
const REFUSED: &str = "which is not followed from there";

/// What a login ends with at a server of elsewhere, whose metadata name this authorization server.
async fn log_in_elsewhere(issuer: String, public_addresses_only: bool) -> TokenError {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    // An address of this machine, under a name that does not say so.
    let elsewhere = server.url().replace("127.0.0.1", "0.0.0.0");
    server.issued(|issued| {
        issued.named_issuer = Some(String::leak(issuer));
        issued.named_resource = Some(elsewhere.clone());
        // There is none where the server is.
        issued.metadata = json!({"token_endpoint": 7});
    });
    log_in_at(&elsewhere, folder.path(), public_addresses_only).await
}

async fn log_in_at(url: &str, folder: &Path, public_addresses_only: bool) -> TokenError {
    let mut options = LoginOptions::default();
    options.consent = Some(Arc::new(NoBrowser));
    options.public_addresses_only = public_addresses_only;
    let file = TokenFile::open(&folder.join("tokens.json")).unwrap();
    let login = Login::new(url, file, options).unwrap();
    login.log_in(None).await.expect_err("there is no browser")
}

/// A server elsewhere cannot make a program connect to addresses that only that program reaches. Nothing is sent to such an address: otherwise the error
/// would be that of the connection.
#[tokio::test]
async fn s_35_no_internal_address_is_followed() {
    for host in [
        "127.0.0.1",
        "127.255.255.254",
        "localhost",
        "a.localhost",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[febf::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        for public_addresses_only in [true, false] {
            let error = log_in_elsewhere(format!("https://{host}:1"), public_addresses_only).await;
            assert!(error.to_string().contains(REFUSED), "{host}: {error}");
        }
    }
    for private in [
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "[fc00::1]",
        "[fdff::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:192.168.0.1]",
        "[64:ff9b::a00:1]",
    ] {
        let error = log_in_elsewhere(format!("https://{private}:1"), true).await;
        assert!(error.to_string().contains(REFUSED), "{private}: {error}");
    }
}

/// A name is as good as the addresses that it has; those are checked when the connection is made, so that none can be exchanged in between.
#[tokio::test]
async fn s_35_a_name_of_an_internal_address_is_not_followed() {
    let internal = Protected::start().await;
    let port = internal.origin.rsplit(':').next().unwrap();
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names = hosts.lines().filter_map(|line| line.strip_prefix("127.0.0.1"));
    let names = names.flat_map(str::split_whitespace);
    // Those are refused as they are.
    let names: Vec<&str> = names.filter(|name| !name.contains("localhost")).collect();
    if names.is_empty() {
        eprintln!("this machine has no name but localhost: names are left out");
    }
    for name in names {
        // The name works.
        let folder = tempdir().unwrap();
        let _ = log_in_at(&internal.url().replace("127.0.0.1", "localhost"), folder.path(), false).await;
        let before = internal.issued(|issued| issued.metadata_reads);
        assert!(before > 0);
        for public_addresses_only in [true, false] {
            let error = log_in_elsewhere(format!("http://{name}:{port}"), public_addresses_only).await;
            assert!(
                !error.to_string().contains(REFUSED),
                "{name}: its address was looked up"
            );
            assert_eq!(
                internal.issued(|issued| issued.metadata_reads),
                before,
                "{name}: {error}"
            );
        }
    }
}

/// Private addresses of this machine on which a server can listen.
fn own_private_addresses() -> Vec<IpAddr> {
    let v6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let v6 = v6
        .lines()
        .filter_map(|line| u128::from_str_radix(line.split(' ').next()?, 16).ok());
    let v6 = v6.map(|bits| IpAddr::V6(bits.into()));
    // Nothing is sent: the system only says from which address it would be.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let all = v6.chain(route.ok().map(|address| address.ip()));
    let is_private = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    };
    all.filter(is_private).collect()
}

/// Private addresses are followed, since servers of a company's network have their logins there, unless the program rules that out.
#[tokio::test]
async fn s_35_private_addresses_are_followed_unless_that_is_ruled_out() {
    let addresses = own_private_addresses();
    if addresses.is_empty() {
        eprintln!("this machine has no private address: the test is left out");
    }
    for address in addresses {
        let internal = TcpListener::bind((address, 0)).unwrap();
        internal.set_nonblocking(true).unwrap();
        let named = internal.local_addr().unwrap();
        for (scheme, public_addresses_only, is_followed) in [
            ("https", true, false),
            // Others on the network could change what is read there.
            ("http", false, false),
            ("https", false, true),
        ] {
            let login = log_in_elsewhere(format!("{scheme}://{named}"), public_addresses_only);
            tokio::pin!(login);
            let has_connected = loop {
                if internal.accept().is_ok() {
                    break true;
                }
                tokio::select! {
                    _ = &mut login => break internal.accept().is_ok(),
                    () = tokio::task::yield_now() => {}
                }
            };
            assert_eq!(has_connected, is_followed, "{scheme} {address} {public_addresses_only}");
        }
    }
}
