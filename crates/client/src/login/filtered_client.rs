//! HTTP requests to addresses that others name.

use crate::proxy::is_loopback;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

/// Of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client that follows no redirects, and connects to no name that leads to this machine or its network, unless `server` is on this machine, too. Addresses that are
/// written as such must be checked by whoever reads them.
pub(super) fn filtered_client(server: &Url, public_addresses_only: bool) -> reqwest::Result<Client> {
    let names = FilteredNames {
        permits: Permits {
            loopback: is_loopback(server),
            private: !public_addresses_only,
        },
        lookup: system_lookup,
    };
    let client = Client::builder().timeout(TIMEOUT).redirect(Policy::none());
    client.dns_resolver(Arc::new(names)).build()
}

/// Resolves names to the addresses that may be followed. Those are the ones that are connected to, so a name cannot have other addresses by then (S-35).
struct FilteredNames {
    permits: Permits,
    lookup: fn(&str) -> io::Result<Vec<SocketAddr>>,
}

#[derive(Clone, Copy)]
struct Permits {
    loopback: bool,
    private: bool,
}

fn system_lookup(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

impl Resolve for FilteredNames {
    #[expect(clippy::disallowed_methods, reason = "the resolver of the system blocks")]
    fn resolve(&self, name: Name) -> Resolving {
        let (permits, lookup) = (self.permits, self.lookup);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || lookup(name.as_str())).await??;
            let permitted: Vec<SocketAddr> = found.into_iter().filter(|found| permits.permit(found.ip())).collect();
            match permitted.is_empty() {
                true => Err(format!("{host} has no address that may be followed").into()),
                false => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}

impl Permits {
    fn permit(self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.permit_v4(address),
            IpAddr::V6(address) => self.permit_v6(address),
        }
    }

    fn permit_v4(self, address: Ipv4Addr) -> bool {
        let [first, second, ..] = address.octets();
        if address.is_loopback() {
            return self.loopback;
        }
        if address.is_private() || (first == 100 && second & 0xc0 == 64) {
            return self.private;
        }
        let is_reserved = first == 0 || first >= 240 || (first == 198 && second & 0xfe == 18);
        !(is_reserved || address.is_link_local() || address.is_multicast())
    }

    fn permit_v6(self, address: Ipv6Addr) -> bool {
        if address.is_loopback() {
            return self.loopback;
        }
        if address.is_unique_local() {
            return self.private;
        }
        // Those of the internet, but for ways of writing addresses of version 4: 6to4 and Teredo.
        let [first, second, ..] = address.segments();
        first & 0xe000 == 0x2000 && first != 0x2002 && (first, second) != (0x2001, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn s_35_addresses_that_only_this_program_reaches_are_not_permitted() {
        let permits = |loopback, private, address: &str| Permits { loopback, private }.permit(address.parse().unwrap());
        for public in [
            "93.184.215.14",
            "100.63.0.1",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
        ] {
            assert!(permits(false, false, public), "{public}");
        }
        for loopback in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(
                !permits(false, true, loopback) && permits(true, false, loopback),
                "{loopback}"
            );
        }
        for private in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(
                !permits(true, false, private) && permits(false, true, private),
                "{private}"
            );
        }
        for never in [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:4136:e378::1",
        ] {
            assert!(!permits(true, true, never), "{never}");
        }
    }

    static WAS_ASKED: AtomicBool = AtomicBool::new(false);

    /// A name that has a public address when it is first looked up, and then an internal one.
    fn rebinding(_: &str) -> io::Result<Vec<SocketAddr>> {
        let address = match WAS_ASKED.swap(true, Ordering::Relaxed) {
            false => "93.184.215.14:0",
            true => "127.0.0.1:0",
        };
        Ok(vec![address.parse().unwrap()])
    }

    #[tokio::test]
    async fn s_35_a_name_is_checked_each_time_that_it_is_looked_up() {
        let names = FilteredNames {
            permits: Permits {
                loopback: false,
                private: true,
            },
            lookup: rebinding,
        };
        let name = || "rebinding.example".parse().unwrap();
        let first: Vec<SocketAddr> = names.resolve(name()).await.unwrap().collect();
        assert_eq!(first, ["93.184.215.14:0".parse().unwrap()]);
        let second = names
            .resolve(name())
            .await
            .map(Iterator::count)
            .unwrap_err()
            .to_string();
        assert_eq!(second, "rebinding.example has no address that may be followed");
    }
}
