//! TLS for a listener, with a certificate that is read again when its files change.

use super::{
    certificate::{CertificateFiles, TlsError, provider, read_chain, read_key},
    stall::StallGuard,
};
use crate::transport::file_version::FileVersion;
use longhaul_core::UnixMillis;
use longhaul_runtime::Ports;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, error, info};

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at the files.
const LOOK: Duration = Duration::from_millis(400);
/// The first byte of every TLS connection: a record with a part of the handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// What a client is told that speaks HTTP without TLS.
const NOT_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 43\r\nconnection: close\r\n\r\n\
    This port speaks TLS: use an https:// URL.\n";
/// How much of the request of such a client is read, so that the client can read the answer.
const NOT_TLS_BYTES: u64 = 64 * 1024;
/// HTTP/2, as ALPN names it.
const HTTP2: &[u8] = b"h2";
const NOT_TLS_TIMEOUT: Duration = Duration::from_secs(2);

/// TLS 1.2 and 1.3 for a [`Listener`](super::Listener), which then speaks HTTP/2 with clients that ask for it. While the listener serves, it looks for changes of the two files, and takes over a new certificate
/// within a second, also if the path is a link that leads elsewhere now. Open connections go on. A file that cannot be used is logged, and the last good
/// certificate stays.
///
/// ```no_run
/// use longhaul_server::{ProtocolServer, http::{Exposure, Listener, Tls}};
/// # async fn f(protocol: std::sync::Arc<ProtocolServer>, exposure: Exposure) -> Result<(), Box<dyn std::error::Error>> {
/// let tls = Tls::from_pem_files("/etc/mcp/fullchain.pem", "/etc/mcp/privkey.pem")?;
/// let listener = Listener::bind_exposed(([0, 0, 0, 0], 7411).into(), exposure).await?.with_tls(tls);
/// listener.serve(protocol, std::future::pending()).await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// Whether the client has asked for HTTP/2.
pub(super) fn speaks_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Certificate {
    files: CertificateFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Tls {
    /// Reads a certificate chain, the server's certificate first, and the key of that certificate; both are PEM.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn from_pem_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
        };
        let certificate = Arc::new(Certificate {
            current: RwLock::new(Arc::new(files.read()?)),
            files,
        });
        let builder = ServerConfig::builder_with_provider(Arc::new(provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable {
                path: certificate.files.key.clone(),
                reason: error.to_string(),
            })?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<_>);
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
        })
    }

    /// Whether a file has certificates.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn check_certificate_file(path: &Path) -> Result<(), TlsError> {
        read_chain(path).map(drop)
    }

    /// Whether a file has a key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn check_key_file(path: &Path) -> Result<(), TlsError> {
        read_key(path).map(drop)
    }

    /// What is probably a mistake, for people: a certificate that has expired or will within 14 days, or a key that every user of the machine can read.
    pub fn warnings(&self, now: UnixMillis) -> Vec<String> {
        self.certificate.files.warnings(&self.certificate.current(), now)
    }

    /// Whom the certificate is for, for people, if clients that reach the server under this name or address would not accept it.
    pub fn describe_other_host(&self, host: &str) -> Option<String> {
        let files = &self.certificate.files;
        files.describe_other_host(&self.certificate.current(), host)
    }

    /// Makes TLS of a connection. `None` if that fails, which is the client's business.
    pub(super) async fn accept(&self, stream: TcpStream, ports: &Ports) -> Option<TlsStream<StallGuard<TcpStream>>> {
        let handshake = async {
            let mut first = [0];
            match stream.peek(&mut first).await? {
                1 if first[0] == HANDSHAKE_RECORD => {}
                1 if first[0].is_ascii_uppercase() => {
                    ports.within(NOT_TLS_TIMEOUT, refuse_plain_http(stream)).await;
                    return Err(io::Error::other("the client speaks HTTP without TLS"));
                }
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => return Err(io::Error::other("the client does not speak TLS")),
            }
            let guarded = StallGuard::new(stream, Arc::clone(&ports.clock));
            self.acceptor.accept(guarded).await
        };
        match ports.within(HANDSHAKE_TIMEOUT, handshake).await {
            Some(Ok(stream)) => Some(stream),
            Some(Err(error)) => {
                debug!(%error, "a TLS handshake failed");
                None
            }
            None => {
                debug!("a TLS handshake took too long");
                None
            }
        }
    }

    /// Takes over changes of the files until `stop` completes.
    pub(super) async fn reload(self, ports: Ports, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = Reload { certificate: self.certificate, seen: None, held: None, failure: None }.run(&ports) => {}
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.certificate.files).finish()
    }
}

impl Certificate {
    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read())
    }

    fn versions(&self) -> io::Result<[FileVersion; 2]> {
        let of = |path: &PathBuf| FileVersion::of_target(path);
        Ok([of(&self.files.certificate)?, of(&self.files.key)?])
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

async fn refuse_plain_http(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(NOT_TLS).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(NOT_TLS_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}

/// Looks for changes of the files.
struct Reload {
    certificate: Arc<Certificate>,
    /// The versions that were read last; `None` if they must be read again.
    seen: Option<[FileVersion; 2]>,
    /// A new one that no client would accept now.
    held: Option<CertifiedKey>,
    /// The last failure that was logged.
    failure: Option<String>,
}

impl Reload {
    async fn run(mut self, ports: &Ports) {
        loop {
            let (certificate, seen) = (Arc::clone(&self.certificate), self.seen);
            // A file system may be slow.
            let look = ports.blocking(move || {
                // Before the files: what changes meanwhile is seen by the next look.
                let versions = certificate.versions().ok();
                let is_new = versions.is_none() || versions != seen;
                (versions, is_new.then(|| certificate.files.read()))
            });
            // Without an answer the process ends.
            let Some((versions, read)) = look.await else { return };
            let is_settled = |versions: &[FileVersion; 2]| versions.iter().all(|file| file.is_settled(&*ports.clock));
            self.seen = versions.filter(is_settled);
            match read {
                None => {
                    if let Some(held) = self.held.take() {
                        self.take_over(held, ports);
                    }
                }
                Some(Ok(read)) => self.take_over(read, ports),
                Some(Err(failure)) => {
                    self.held = None;
                    self.fail(failure.to_string());
                }
            }
            ports.clock.sleep(LOOK).await;
        }
    }

    fn fail(&mut self, failure: String) {
        if self.failure.as_ref() != Some(&failure) {
            error!(
                error = failure,
                "the new certificate cannot be used; the last one stays"
            );
            self.failure = Some(failure);
        }
    }

    /// Takes over what was read, unless no client would accept it and the present one is still good: then as soon as that changes.
    fn take_over(&mut self, read: CertifiedKey, ports: &Ports) {
        let certificate = Arc::clone(&self.certificate);
        let Certificate { files, current } = &*certificate;
        self.held = None;
        let present = certificate.current();
        if present.cert == read.cert {
            self.failure = None;
            return;
        }
        let now = ports.clock.wall();
        if let Some(fault) = files.fault(&read, now)
            && files.fault(&present, now).is_none()
        {
            self.fail(fault);
            self.held = Some(read);
            return;
        }
        self.failure = None;
        info!(file = %files.certificate.display(), "the certificate has changed");
        for warning in files.warnings(&read, ports.clock.wall()) {
            tracing::warn!("{warning}");
        }
        *current.write() = Arc::new(read);
    }
}
