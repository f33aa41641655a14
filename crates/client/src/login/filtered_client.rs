//! HTTP requests to addresses that others name.

use super::LoginOptions;
use crate::{
    RequestError, TokenError,
    options::proxy::{Proxy, is_loopback},
    transport::http::unreachable::unreachable,
};
use reqwest::{
    Client, Request, Response, Url,
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

/// A client that follows no redirects, and connects to nothing that leads to this machine or its network, unless `server` is there, too.
pub(super) struct FilteredClient {
    server: Url,
    permits: Permits,
    /// Of this machine.
    direct: Client,
    /// Of all others.
    proxied: Client,
    proxy: Option<String>,
}

/// A request that is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotFollowed {
    #[error(
        "its authorization server is at {0}, which must be an https address: others on the network could read or change what is exchanged with it"
    )]
    Open(Url),
    #[error(
        "its authorization server is at {0}, which is not followed from there: addresses of this machine, and others that are not of the internet, are followed only if the server itself is at one"
    )]
    Address(Url),
}

/// A request that was not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAnswered {
    #[error(transparent)]
    NotFollowed(#[from] NotFollowed),
    #[error(transparent)]
    Failed(RequestError),
}

impl FilteredClient {
    /// A client for a login at `server`. With [`LoginOptions::public_addresses_only`] private addresses are followed only where `server` is, and `issuer`, if it was named by
    /// whoever runs this program.
    pub(super) fn new(server: &Url, options: &LoginOptions, issuer: Option<&str>) -> Result<Self, TokenError> {
        let unusable = |reason: String| TokenError::Failed { reason };
        let permits = Permits {
            loopback: is_loopback(server),
            private: !options.public_addresses_only || is_private(server),
        };
        let issuer = issuer.and_then(|issuer| Url::parse(issuer).ok());
        let hosts = [Some(server), issuer.as_ref()];
        let hosts = hosts.into_iter().flatten().filter_map(Url::host_str);
        let names = Arc::new(FilteredNames {
            permits,
            named: hosts.map(normalized).collect(),
            proxies: options.proxy.hosts().iter().map(|host| normalized(host)).collect(),
            lookup: system_lookup,
        });
        let builder = || {
            let client = Client::builder().timeout(TIMEOUT).redirect(Policy::none());
            client.dns_resolver(Arc::clone(&names))
        };
        let of_this_machine = Url::parse("http://localhost").map_err(|error| unusable(error.to_string()))?;
        let (direct, _) = options.proxy.apply(builder(), &of_this_machine).map_err(unusable)?;
        let elsewhere = [issuer.as_ref(), Some(server)];
        let elsewhere = elsewhere.into_iter().flatten().find(|url| !is_loopback(url));
        let (proxied, proxy) = match (elsewhere, &options.proxy) {
            // What is elsewhere is not known yet.
            (None, Proxy::Environment) => (builder(), None),
            (url, proxy) => proxy
                .apply(builder(), url.unwrap_or(&of_this_machine))
                .map_err(unusable)?,
        };
        let build = |builder: reqwest::ClientBuilder| builder.build().map_err(|error| unusable(error.to_string()));
        Ok(Self {
            server: server.clone(),
            permits,
            direct: build(direct)?,
            proxied: build(proxied)?,
            proxy,
        })
    }

    /// Makes a request, if its address may be followed.
    pub(super) async fn execute(&self, request: Request) -> Result<Response, NotAnswered> {
        let url = request.url().clone();
        self.check(&url)?;
        let executed = self.client(&url).execute(request).await;
        executed.map_err(|error| {
            let proxy = self.proxy.as_deref().filter(|_| !is_loopback(&url));
            let mut origin = url.clone();
            origin.set_path("");
            origin.set_query(None);
            NotAnswered::Failed(unreachable(origin.as_str().trim_end_matches('/'), proxy, &error))
        })
    }

    /// The client for an address.
    pub(super) fn client(&self, url: &Url) -> &Client {
        match is_loopback(url) {
            true => &self.direct,
            false => &self.proxied,
        }
    }

    /// Whether an address that is named may be followed. Those of names are checked when they are looked up.
    pub(super) fn check(&self, url: &Url) -> Result<(), NotFollowed> {
        if url.origin() == self.server.origin() {
            return Ok(());
        }
        if !is_confidential(url) {
            return Err(NotFollowed::Open(url.clone()));
        }
        match literal(url) {
            Some(address) if !self.permits.permit(address) => Err(NotFollowed::Address(url.clone())),
            None if is_loopback(url) && !self.permits.loopback => Err(NotFollowed::Address(url.clone())),
            _ => Ok(()),
        }
    }

    /// Whether an address is one of a private network that may be followed.
    pub(super) fn follows_private(&self, url: &Url) -> bool {
        self.permits.private && is_private(url)
    }
}

/// Whether an address of a private network is written in a URL.
pub(super) fn is_private(url: &Url) -> bool {
    let permits = |private| Permits {
        loopback: false,
        private,
    };
    literal(url).is_some_and(|address| permits(true).permit(address) && !permits(false).permit(address))
}

/// Whether an address is written in a URL to which no metadata are followed, unless the server itself is at one.
pub(super) fn is_internal(url: &Url) -> bool {
    let permits = Permits {
        loopback: true,
        private: false,
    };
    literal(url).is_some_and(|address| !permits.permit(address))
}

/// Whether nobody on the way to an address can read or change what is exchanged with it.
pub(super) fn is_confidential(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => is_loopback(url),
        _ => false,
    }
}

/// The address that is written in a URL.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn normalized(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Resolves names to the addresses that may be followed. Those are the ones that are connected to, so a name cannot have other addresses by then.
struct FilteredNames {
    permits: Permits,
    /// Hosts that whoever runs this program has named. They may be at private addresses.
    named: Vec<String>,
    /// Hosts of proxies. They look up the names of servers themselves.
    proxies: Vec<String>,
    lookup: fn(&str) -> io::Result<Vec<SocketAddr>>,
}

#[derive(Debug, Clone, Copy)]
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
        let host = normalized(name.as_str());
        let is_proxy = self.proxies.contains(&host);
        let permits = Permits {
            private: self.permits.private || self.named.contains(&host),
            ..self.permits
        };
        let lookup = self.lookup;
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || lookup(name.as_str())).await??;
            if is_proxy {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let permitted: Vec<SocketAddr> = found.into_iter().filter(|found| permits.permit(found.ip())).collect();
            match permitted.is_empty() {
                true => Err(format!("{host} has no address that is followed from there").into()),
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
            named: Vec::new(),
            proxies: Vec::new(),
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
        assert_eq!(second, "rebinding.example has no address that is followed from there");
    }

    /// A server of a company's network may have its login there, and nothing else may lead there.
    #[tokio::test]
    async fn s_35_private_addresses_are_followed_where_they_were_named() {
        let names = FilteredNames {
            permits: Permits {
                loopback: false,
                private: false,
            },
            named: vec!["mcp.corp.example".to_owned(), "login.corp.example".to_owned()],
            proxies: vec!["proxy.corp.example".to_owned()],
            lookup: |_| Ok(vec!["10.0.0.9:0".parse().unwrap()]),
        };
        for (name, is_followed) in [
            ("mcp.corp.example", true),
            ("Login.Corp.example.", true),
            ("proxy.corp.example", true),
            ("other.corp.example", false),
        ] {
            let found = names.resolve(name.parse().unwrap()).await;
            assert_eq!(found.is_ok(), is_followed, "{name}");
        }
    }
}
