//! Proxies whose word about the address of a client is taken.

use crate::admission::limits::Source;
use http::HeaderMap;
use ipnet::{IpNet, Ipv4Net};
use std::{fmt, net::IpAddr, str::FromStr};

/// The address of a proxy, or a network of such, in front of the server.
///
/// ```
/// use longhaul_server::http::TrustedProxy;
/// let network: TrustedProxy = "10.0.0.0/8".parse()?;
/// assert!(network.includes([10, 1, 2, 3].into()) && !network.includes([192, 0, 2, 1].into()));
/// assert!("10.0.0.1".parse::<TrustedProxy>()?.includes([10, 0, 0, 1].into()));
/// # Ok::<(), longhaul_server::http::InvalidProxy>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedProxy(IpNet);

/// Networks that are no part of the internet.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "127.0.0.0/8", "100.64.0.0/10", "fc00::/7"];

/// A text that is no address and no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write an IP address, or a network such as 10.0.0.0/8")]
pub struct InvalidProxy;

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct TrustedProxies(Vec<TrustedProxy>);

/// A header cannot be read, or says that it does not know.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable;

impl TrustedProxy {
    /// Whether an address is one of these.
    pub fn includes(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether these cover all addresses of version 4 or 6 together, so that everyone is taken for a proxy.
    ///
    /// ```
    /// use longhaul_server::http::TrustedProxy;
    /// let all = ["0.0.0.0/1".parse()?, "128.0.0.0/1".parse()?];
    /// assert!(TrustedProxy::are_everyone(&all) && !TrustedProxy::are_everyone(&all[..1]));
    /// # Ok::<(), longhaul_server::http::InvalidProxy>(())
    /// ```
    pub fn are_everyone(proxies: &[Self]) -> bool {
        let networks: Vec<IpNet> = proxies.iter().map(|proxy| proxy.0).collect();
        IpNet::aggregate(&networks)
            .iter()
            .any(|network| network.prefix_len() == 0)
    }

    /// Whether it is a wide network with addresses of the internet, so that strangers can be in it.
    pub fn is_wide(&self) -> bool {
        // The widest that private networks and operators of proxies use.
        let widest = match self.0 {
            IpNet::V4(_) => 12,
            IpNet::V6(_) => 29,
        };
        let private = PRIVATE.iter().filter_map(|network| network.parse::<IpNet>().ok());
        self.0.prefix_len() < widest && !private.into_iter().any(|private| private.contains(&self.0))
    }
}

impl FromStr for TrustedProxy {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let network = text.parse().ok().or_else(|| {
            let address: IpAddr = text.parse().ok()?;
            Some(IpNet::from(address))
        });
        network.map(canonical).map(Self).ok_or(InvalidProxy)
    }
}

/// A network of IPv4 addresses that are written as IPv6 is one of IPv4, as the addresses of peers are.
fn canonical(network: IpNet) -> IpNet {
    /// The bits before the address of version 4.
    const MAPPED: u8 = 96;
    let mapped = match network.addr().to_canonical() {
        IpAddr::V4(address) if network.max_prefix_len() == 128 => Some(address),
        _ => None,
    };
    let length = network.prefix_len().checked_sub(MAPPED);
    let narrowed = mapped
        .zip(length)
        .and_then(|(address, length)| Ipv4Net::new(address, length).ok());
    narrowed.map_or(network, IpNet::V4)
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}

impl TrustedProxies {
    pub(super) fn new(proxies: Vec<TrustedProxy>) -> Self {
        Self(proxies)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is that of a proxy.
    pub(super) fn include(&self, address: IpAddr) -> bool {
        self.0.iter().any(|proxy| proxy.includes(address))
    }

    /// Whose a request is that `proxy` has sent with these headers: of the addresses, which each proxy adds at the end, the last that is not a proxy's. What
    /// stands before it may be made up. Without such headers it is the proxy's own.
    pub(super) fn client(&self, proxy: IpAddr, headers: &HeaderMap) -> Source {
        let forwarded = self.last(headers, "forwarded", forwarded_for);
        let x_forwarded_for = self.last(headers, "x-forwarded-for", |line| {
            line.split(',').map(|address| parse_address(address.trim())).collect()
        });
        match (forwarded, x_forwarded_for) {
            (Some(Ok(one)), Some(Ok(other))) if one == other => Source::Address(one),
            (Some(Ok(client)), None) | (None, Some(Ok(client))) => Source::Address(client),
            (None, None) => Source::Address(proxy.to_canonical()),
            // A proxy that writes one of them may pass on the other, whatever a client has put into it. So that no client can use up the limits of the proxy
            // itself, or of those whom it names, these are counted apart.
            _ => Source::Unreadable(proxy.to_canonical()),
        }
    }

    /// What the header says; `None` if there is none.
    fn last(
        &self,
        headers: &HeaderMap,
        name: &str,
        addresses: impl Fn(&str) -> Vec<Result<IpAddr, Unreadable>>,
    ) -> Option<Result<IpAddr, Unreadable>> {
        let mut client = None;
        for line in headers.get_all(name).iter().rev() {
            let line = line.to_str().map(&addresses);
            for address in line.unwrap_or_else(|_| vec![Err(Unreadable)]).into_iter().rev() {
                match address {
                    Ok(address) if self.include(address) => client = Some(Ok(address)),
                    last => return Some(last),
                }
            }
        }
        client
    }
}

/// The addresses in a line of `Forwarded` (RFC 7239).
fn forwarded_for(line: &str) -> Vec<Result<IpAddr, Unreadable>> {
    let elements = split(line, ',').unwrap_or_else(|| vec![""]);
    elements.into_iter().map(element_for).collect()
}

fn element_for(element: &str) -> Result<IpAddr, Unreadable> {
    let mut found = Err(Unreadable);
    for pair in split(element, ';').ok_or(Unreadable)? {
        let (name, value) = pair.trim().split_once('=').ok_or(Unreadable)?;
        if name.eq_ignore_ascii_case("for") {
            if found.is_ok() {
                return Err(Unreadable);
            }
            let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            found = Ok(parse_address(quoted.unwrap_or(value))?);
        }
    }
    found
}

/// The parts between separators that are not quoted; `None` if a quotation does not end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut in_quotes, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if in_quotes => escaped = true,
            '"' => in_quotes = !in_quotes,
            _ if c == separator && !in_quotes => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!in_quotes).then_some(parts)
}

/// An address, with or without a port; one of version 6 in brackets if it has one.
fn parse_address(text: &str) -> Result<IpAddr, Unreadable> {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let host = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) if rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port) => host,
        Some(_) => return Err(Unreadable),
        None => match text.split_once(':') {
            Some((host, port)) if is_port(port) && host.contains('.') => host,
            _ => text,
        },
    };
    let address: IpAddr = host.parse().map_err(|_| Unreadable)?;
    Ok(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(headers: &[(&'static str, &str)]) -> String {
        let proxies = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"];
        let proxies = TrustedProxies(proxies.iter().map(|proxy| proxy.parse().expect("a network")).collect());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        match proxies.client([10, 0, 0, 1].into(), &map) {
            Source::Address(address) => address.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn s_06_the_last_address_that_is_no_proxys_is_the_clients() {
        const UNREADABLE: &str = "Unreadable(10.0.0.1)";
        for (line, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:1234", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, 10.2.3.4,192.0.2.1", "203.0.113.7"),
            ("10.9.9.9, 10.2.3.4", "10.9.9.9"),
            ("2001:db9::1", "2001:db9::1"),
            ("[2001:db9::1]:443, 2001:db8::7", "2001:db9::1"),
            ("::ffff:203.0.113.7, ::ffff:10.1.1.1", "203.0.113.7"),
            // What stands before the last one may be anything.
            ("<script>, 203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, unknown", UNREADABLE),
            ("203.0.113.7,", UNREADABLE),
            ("", UNREADABLE),
            ("203.0.113.7.8", UNREADABLE),
            ("203.0.113.7:port", UNREADABLE),
            ("[2001:db9::1]x", UNREADABLE),
        ] {
            assert_eq!(client(&[("x-forwarded-for", line)]), expected, "{line}");
        }
        for (line, expected) in [
            ("for=203.0.113.7", "203.0.113.7"),
            ("For=\"203.0.113.7:80\";proto=https;by=10.0.0.1", "203.0.113.7"),
            (
                r#"for=198.51.100.1, proto=http;for="[2001:db9::1]:80", for=10.1.1.1"#,
                "2001:db9::1",
            ),
            ("for=_hidden, for=203.0.113.7;host=\"a,b;for=x\"", "203.0.113.7"),
            ("for=203.0.113.7, for=_hidden", UNREADABLE),
            ("for=203.0.113.7, proto=https", UNREADABLE),
            ("for=203.0.113.7;for=198.51.100.1", UNREADABLE),
            // A quotation that a client has opened does not hide what a proxy adds.
            ("for=\"198.51.100.1, for=203.0.113.7", UNREADABLE),
            ("for=198.51.100.1;x=\", for=\"[2001:db9::1]\"", UNREADABLE),
            ("203.0.113.7", UNREADABLE),
        ] {
            assert_eq!(client(&[("forwarded", line)]), expected, "{line}");
        }
        assert_eq!(client(&[]), "10.0.0.1");
        let (one, other) = (("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=198.51.100.1"));
        assert_eq!(client(&[one, other]), UNREADABLE, "one of them is made up");
        assert_eq!(client(&[one, ("forwarded", "for=203.0.113.7")]), "203.0.113.7");
        assert_eq!(client(&[("x-forwarded-for", "198.51.100.1"), one]), "203.0.113.7");
        assert_eq!(client(&[one, ("x-forwarded-for", "10.1.1.1")]), "203.0.113.7");
    }

    #[test]
    fn networks_that_strangers_can_be_in_are_recognised() {
        let parse = |text: &str| text.parse::<TrustedProxy>().expect("a network");
        for (texts, everyone) in [
            (&["0.0.0.0/0"][..], true),
            (&["::/0"], true),
            (&["10.0.0.1", "0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"], true),
            (&["0.0.0.0/1", "128.0.0.0/2"], false),
            (&["10.0.0.0/8", "fc00::/7"], false),
            (&[], false),
        ] {
            let proxies: Vec<TrustedProxy> = texts.iter().map(|text| parse(text)).collect();
            assert_eq!(TrustedProxy::are_everyone(&proxies), everyone, "{texts:?}");
        }
        for (texts, are_wide) in [
            ("0.0.0.0/1 8.0.0.0/8 2000::/3", true),
            ("10.0.0.0/8 172.16.0.0/12 fc00::/7 203.0.113.0/24 203.0.113.1", false),
        ] {
            for text in texts.split(' ') {
                assert_eq!(parse(text).is_wide(), are_wide, "{text}");
            }
        }
    }

    #[test]
    fn proxies_are_addresses_and_networks() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("::1", "::1"),
        ] {
            let proxy = text.parse::<TrustedProxy>();
            assert_eq!(proxy.map(|proxy| proxy.to_string()), Ok(shown.to_owned()));
        }
        let parse = |text: &str| text.parse::<TrustedProxy>().expect("a network");
        assert!(parse("::ffff:10.0.0.0/104").includes([10, 1, 2, 3].into()));
        assert!(TrustedProxy::are_everyone(&[parse("::ffff:0:0/96")]));
        for wrong in ["", "proxy.example.com", "10.0.0.0/33", "10.0.0", "*"] {
            assert_eq!(wrong.parse::<TrustedProxy>(), Err(InvalidProxy), "{wrong}");
        }
    }
}
