//! HTTPS and proxies: certificates that are trusted and others, and the variables of the environment that say so.
#![expect(clippy::disallowed_methods, reason = "real sockets and processes are not simulated")]

use crate::peer::{Peer, modern};
use longhaul_client::{Connection, Options, Proxy, RequestError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use std::{
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

const URL: &str = "LONGHAUL_TEST_URL";

/// An authority that no system knows.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its certificate to a file that `SSL_CERT_FILE` can name, or in a folder that `SSL_CERT_DIR` can name.
    fn write(&self, file: &Path) -> String {
        fs::write(file, self.0.pem()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The settings of a server with a certificate for `name`.
    fn server(&self, name: &str, last_year: i32) -> TlsAcceptor {
        self.server_with(name, |params| params.not_after = date_time_ymd(last_year, 1, 1))
    }

    /// The same with a certificate that `changes` makes another one.
    fn server_with(&self, name: &str, changes: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2999, 1, 1);
        changes(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Ends TLS in front of the server at `behind`. Returns its address.
async fn tls_in_front_of(behind: SocketAddr, acceptor: TlsAcceptor) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outside) = acceptor.accept(socket).await else {
                    return;
                };
                let mut inside = TcpStream::connect(behind).await.unwrap();
                let _ = copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    address
}

/// An HTTP proxy that has one server behind it, whatever host it is asked for.
struct TestProxy {
    address: SocketAddr,
    /// The first line of each connection.
    asked: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    async fn start(behind: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        head.push(outside.read_u8().await.unwrap());
                    }
                    let text = String::from_utf8_lossy(&head).into_owned();
                    let first = text.lines().next().unwrap().to_owned();
                    let is_tunnel = first.starts_with("CONNECT");
                    log.lock().unwrap().push(first);
                    let mut inside = TcpStream::connect(behind).await.unwrap();
                    if is_tunnel {
                        outside.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    } else {
                        inside.write_all(&head).await.unwrap();
                    }
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Lists the tools of a server in a process of its own, with these variables in its environment. Returns what came of it.
async fn list_tools(url: String, environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "https::lists_tools_for_a_test",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .stdin(Stdio::null());
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUEST_METHOD",
    ] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env(URL, url).envs(environment.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let outcome = output.split_once("<<").and_then(|(_, rest)| rest.split_once(">>"));
    outcome.unwrap_or_else(|| panic!("{output}")).0.to_owned()
}

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn lists_tools_for_a_test() {
    let Ok(url) = env::var(URL) else { return };
    let connection = Connection::lazy(&url, Options::named("test", "0")).unwrap();
    match connection.list_tools().await {
        Ok(tools) => println!("<<{} tools>>", tools.len()),
        Err(error) => println!("<<{error}{}>>", if error.is_transient() { " (transient)" } else { "" }),
    }
}

fn server() -> Peer {
    modern(|seen| seen.result(serde_json::json!({})))
}

#[tokio::test]
async fn a_certificate_is_trusted_or_the_error_says_why_not() {
    let folder = TempDir::new().unwrap();
    let (trusted, other) = (Authority::new("trusted"), Authority::new("other"));
    let file = trusted.write(&folder.path().join("trusted.pem"));
    let other = other.write(&folder.path().join("other.pem"));
    let hashed = TempDir::new().unwrap();
    trusted.write(&hashed.path().join("0123abcd.0"));
    let hashed = hashed.path().to_str().unwrap();
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    let empty = folder.path().join("empty.pem");

    let peer = server();
    let good = tls_in_front_of(peer.address(), trusted.server("localhost", 2999))
        .await
        .port();
    let expired = tls_in_front_of(peer.address(), trusted.server("localhost", 2021))
        .await
        .port();
    let for_clients = trusted.server_with("localhost", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]
    });
    let for_clients = tls_in_front_of(peer.address(), for_clients).await.port();
    let authority = trusted.server_with("localhost", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)
    });
    let authority = tls_in_front_of(peer.address(), authority).await.port();
    let plain = peer.address().port();
    let cases: [(String, (&str, &str), &str); 9] = [
        (
            format!("localhost:{for_clients}"),
            ("SSL_CERT_FILE", &file),
            "its certificate is not one for servers",
        ),
        (
            format!("localhost:{authority}"),
            ("SSL_CERT_FILE", &file),
            "its certificate is that of an authority (CA:TRUE)",
        ),
        (format!("localhost:{good}"), ("SSL_CERT_FILE", &file), "4 tools"),
        (format!("localhost:{good}"), ("SSL_CERT_DIR", hashed), "4 tools"),
        (
            format!("localhost:{good}"),
            ("SSL_CERT_FILE", &other),
            "an authority that is not trusted here has issued its certificate; if you trust it, name its certificate in SSL_CERT_FILE",
        ),
        (
            format!("127.0.0.1:{good}"),
            ("SSL_CERT_FILE", &file),
            "its certificate is for localhost, and not for 127.0.0.1",
        ),
        (
            format!("localhost:{expired}"),
            ("SSL_CERT_FILE", &file),
            "its certificate expired ",
        ),
        (
            format!("localhost:{good}"),
            ("SSL_CERT_FILE", empty.to_str().unwrap()),
            "SSL_CERT_FILE can name a file",
        ),
        (
            format!("localhost:{plain}"),
            ("SSL_CERT_FILE", &file),
            "does not speak TLS; is it an http:// server? (transient)",
        ),
    ];
    for (server, variable, expected) in cases {
        let outcome = list_tools(format!("https://{server}/mcp"), &[variable]).await;
        assert!(outcome.contains(expected), "{server} {variable:?}: {outcome}");
        let may_be_retried = expected.contains("transient");
        assert_eq!(outcome.contains("(transient)"), may_be_retried, "{outcome}");
    }
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("authority");
    let file = authority.write(&folder.path().join("authority.pem"));
    let peer = server();
    let behind = tls_in_front_of(peer.address(), authority.server("mcp.test", 2999)).await;
    let (tunnel, proxy) = (TestProxy::start(behind).await, TestProxy::start(peer.address()).await);
    let trusted = ("SSL_CERT_FILE", file.as_str());
    let (tunnel_url, proxy_url) = (tunnel.url(), proxy.url());

    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let outcome = list_tools("https://mcp.test/mcp".to_owned(), &[trusted, (name, &tunnel_url)]).await;
        assert_eq!(outcome, "4 tools", "{name}");
        assert_eq!(tunnel.take_asked()[0], "CONNECT mcp.test:443 HTTP/1.1", "{name}");
    }

    let outcome = list_tools("http://mcp.test/mcp".to_owned(), &[("HTTP_PROXY", &proxy_url)]).await;
    assert_eq!(outcome, "4 tools");
    assert_eq!(proxy.take_asked()[0], "POST http://mcp.test/mcp HTTP/1.1");

    // 0.0.0.0 is this machine, and not called loopback.
    let port = peer.address().port();
    let here = format!("http://0.0.0.0:{port}/mcp");
    list_tools(here.clone(), &[("HTTP_PROXY", &proxy_url)]).await;
    assert_eq!(proxy.take_asked().len(), 1);
    for (url, excluded) in [(here, "example.com,0.0.0.0"), (peer.url(), "example.com")] {
        let outcome = list_tools(url.clone(), &[("HTTP_PROXY", &proxy_url), ("NO_PROXY", excluded)]).await;
        assert_eq!(outcome, "4 tools", "{url}");
        assert!(proxy.take_asked().is_empty(), "{url}");
    }

    let dead = [("HTTPS_PROXY", "http://me:secret@127.0.0.1:1")];
    let outcome = list_tools("https://mcp.test/mcp".to_owned(), &[trusted, dead[0]]).await;
    assert!(
        outcome.contains("(through the proxy http://127.0.0.1:1/ of the environment)"),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_proxy_in_the_options_is_used_for_loopback_too() {
    let peer = server();
    let proxy = TestProxy::start(peer.address()).await;
    let (connection, _) = peer.connection_with(|options| options.proxy = Proxy::Url(proxy.url()));
    connection.list_tools().await.unwrap();
    assert_eq!(proxy.take_asked()[0], format!("POST {} HTTP/1.1", peer.url()));

    for (url, expected) in [
        ("ftp://127.0.0.1:1", "`ftp:` is no kind of proxy"),
        ("::", "the proxy's URL cannot be used"),
    ] {
        let (connection, _) = peer.connection_with(|options| options.proxy = Proxy::Url(url.to_owned()));
        let error = connection.list_tools().await.unwrap_err();
        assert!(matches!(error, RequestError::Setup(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
