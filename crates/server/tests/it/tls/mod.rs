//! TLS: certificates made by the test, and a client that trusts them.

mod certificates;
mod http2;

use crate::{
    request::Post,
    server::{Options, Server},
};
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use longhaul_runtime::Ports;
use longhaul_server::http::Tls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::Value;
use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// An authority that no system knows.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A folder with a certificate and a key, as a server reads them.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for `localhost` and its key.
    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: TempDir::new().unwrap(),
            authority: Authority::new(),
        };
        files.renew();
        files
    }

    fn cert(&self) -> PathBuf {
        self.folder.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Writes another certificate.
    fn renew(&self) {
        let (certificate, key) = self.authority.issue(|_| {});
        fs::write(self.cert(), certificate).unwrap();
        fs::write(self.key(), key).unwrap();
    }

    fn tls(&self) -> Tls {
        Tls::from_pem_files(self.cert(), self.key()).unwrap()
    }

    async fn serve(&self) -> Server {
        self.serve_with(Options::default()).await
    }

    async fn serve_with(&self, options: Options) -> Server {
        let tls = Some(self.tls());
        Server::with(Options { tls, ..options }).await
    }

    async fn connect(&self, server: &Server) -> Https {
        Https::open(server.address, &self.authority).await.unwrap()
    }
}

/// A connection of a client over HTTPS.
struct Https {
    requests: SendRequest<Full<Bytes>>,
    certificate: CertificateDer<'static>,
}

/// Makes TLS of a connection.
async fn handshake(address: SocketAddr, trusted: &Authority, protocols: &[&str]) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A POST as a request of hyper.
fn request(post: &Post, uri: Uri) -> Request<Full<Bytes>> {
    let mut request = Request::post(uri);
    for (name, value) in post.headers() {
        request = request.header(name, value);
    }
    request.body(Full::from(post.body.to_string())).unwrap()
}

/// Status, headers and the JSON in the body of a response.
async fn whole(response: http::Response<Incoming>) -> (u16, HeaderMap, Value) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        head.status.as_u16(),
        head.headers,
        serde_json::from_slice(&body).unwrap_or_default(),
    )
}

impl Https {
    async fn open(address: SocketAddr, trusted: &Authority) -> io::Result<Self> {
        let stream = handshake(address, trusted, &["http/1.1"]).await?;
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        Ports::system().spawner.spawn(Box::pin(async move {
            let _ = connection.await;
        }));
        Ok(Self { requests, certificate })
    }

    async fn ask(&mut self, post: &Post) -> (u16, Value) {
        let mut request = request(post, "/mcp".parse().unwrap());
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        let (status, _, body) = whole(self.requests.send_request(request).await.unwrap()).await;
        (status, body)
    }
}
