//! Handshakes, and certificates that change while the server runs.

use super::{Authority, Files, Https};
use crate::{
    clock::TestClock,
    request::list,
    server::{Options, Server},
};
use longhaul_core::{Clock as _, UnixMillis};
use longhaul_runtime::Ports;
use longhaul_server::http::{Tls, TlsError};
use rcgen::date_time_ymd;
use rustls::pki_types::CertificateDer;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Connects until the certificate is another one, or until `is_done`.
async fn certificate_after(
    files: &Files,
    server: &Server,
    is_done: impl Fn(&CertificateDer<'static>) -> bool,
) -> CertificateDer<'static> {
    loop {
        let connection = files.connect(server).await;
        if is_done(&connection.certificate) {
            return connection.certificate;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served_and_another_one_is_not() {
    let files = Files::new();
    let server = files.serve().await;
    let (status, body) = files.connect(&server).await.ask(&list()).await;
    assert_eq!(status, 200, "{body}");
    assert!(body["result"]["tools"].is_array(), "{body}");

    let refused = Https::open(server.address, &Authority::new()).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("certificate")));
}

#[tokio::test]
async fn a_client_without_tls_is_told_so() {
    let files = Files::new();
    let server = files.serve().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&list().to_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(body, "This port speaks TLS: use an https:// URL.\n");
    drop(stream);

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"\x00\x01").await.unwrap();
    let mut rest = Vec::new();
    // It may be a reset.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "what is no HTTP gets no answer: {rest:?}");
}

#[tokio::test]
async fn a_slow_handshake_keeps_nobody_waiting_and_ends() {
    let files = Files::new();
    let clock = TestClock::standing();
    let server = files.serve_with(Options::with_clock(&clock)).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The beginning of a record, and nothing more.
        stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        slow.push(stream);
    }
    let (status, _) = files.connect(&server).await.ask(&list()).await;
    assert_eq!(status, 200);
    for mut stream in slow {
        // The handshake may only have begun.
        let ended = async { stream.read(&mut [0; 1]).await };
        let read = clock.advance_until(Duration::from_secs(10), ended).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_the_end_of_the_server() {
    let files = Files::new();
    let options = Options::with_clock(&TestClock::standing());
    let server = files.serve_with(options).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[0x16]).await.unwrap();
    let _accepted = files.connect(&server).await;
    // The clock stands, so nothing ends because of a time limit.
    server.stop().await;
    assert!(matches!(slow.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_new_certificate_is_taken_over_and_open_connections_go_on() {
    let files = Files::new();
    let server = files.serve().await;
    let mut old = files.connect(&server).await;
    let first = old.certificate.clone();
    assert_eq!(old.ask(&list()).await.0, 200);

    files.renew();
    let second = certificate_after(&files, &server, |certificate| *certificate != first).await;
    assert_eq!(old.ask(&list()).await.0, 200, "an open connection goes on");

    // Half of a certificate, then a key of another one: the last good pair stays.
    let (certificate, key) = files.authority.issue(|_| {});
    let clock = Ports::system().clock;
    for (file, text) in [
        (files.cert(), &certificate[..certificate.len() / 2]),
        (files.key(), key.as_str()),
    ] {
        fs::write(file, text).unwrap();
        // Nothing shows that a broken file was looked at, so some looks are waited for.
        clock.sleep(Duration::from_millis(900)).await;
        assert_eq!(files.connect(&server).await.certificate, second);
    }
    fs::write(files.cert(), &certificate).unwrap();
    let third = certificate_after(&files, &server, |certificate| *certificate != second).await;
    assert_ne!(third, first);
}

/// A certificate that no client would accept does not replace one that they accept; it does once that one is no better.
#[tokio::test]
async fn an_expired_certificate_does_not_replace_a_good_one() {
    let files = Files::new();
    let clock = TestClock::default();
    let now = date_time_ymd(1970, 1, 1) + Duration::from_millis(clock.now().0.cast_unsigned());
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let issue = |ends: u64| {
        let (certificate, key) = files.authority.issue(|params| {
            (params.not_before, params.not_after) = (now - hours(2), now + hours(ends));
        });
        fs::write(files.key(), key).unwrap();
        fs::write(files.cert(), certificate).unwrap();
    };
    issue(72);
    // For the server it is a day later than for the client, who accepts all of them.
    clock.advance(hours(24));
    let server = files.serve_with(Options::with_clock(&clock)).await;
    let good = files.connect(&server).await.certificate;
    issue(12);
    // Nothing shows that the file was looked at, so some looks are waited for.
    Ports::system().clock.sleep(Duration::from_millis(900)).await;
    assert_eq!(files.connect(&server).await.certificate, good);
    clock.advance(hours(48));
    certificate_after(&files, &server, |certificate| *certificate != good).await;
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_is_followed() {
    let files = Files::new();
    let folder = files.folder.path();
    let version = |name: &str| {
        let version = folder.join(name);
        fs::create_dir(&version).unwrap();
        files.renew();
        fs::rename(files.cert(), version.join("chain.pem")).unwrap();
        fs::rename(files.key(), version.join("key.pem")).unwrap();
    };
    // As Kubernetes mounts secrets: the files are links through a link that is swapped.
    version("one");
    version("two");
    std::os::unix::fs::symlink("one", folder.join("data")).unwrap();
    for name in ["chain.pem", "key.pem"] {
        std::os::unix::fs::symlink(Path::new("data").join(name), folder.join(name)).unwrap();
    }
    let server = files.serve().await;
    let first = files.connect(&server).await.certificate;
    std::os::unix::fs::symlink("two", folder.join("next")).unwrap();
    fs::rename(folder.join("next"), folder.join("data")).unwrap();
    certificate_after(&files, &server, |certificate| *certificate != first).await;
}

#[test]
fn what_cannot_be_used_is_said() {
    let files = Files::new();
    let (other, _) = files.authority.issue(|_| {});
    let folder = files.folder.path();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let empty = write("empty.pem", "");
    let broken = write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let no_certificate = write(
        "none.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let other = write("other.pem", &other);
    let error = |cert: &Path, key: &Path| Tls::from_pem_files(cert, key).unwrap_err();
    assert!(matches!(error(&folder.join("x"), &files.key()), TlsError::Read { .. }));
    assert!(matches!(error(&empty, &files.key()), TlsError::NoCertificate(path) if path == empty));
    assert!(matches!(error(&files.cert(), &empty), TlsError::NoKey(path) if path == empty));
    assert!(matches!(error(&files.cert(), &files.cert()), TlsError::NoKey(path) if path == files.cert()));
    assert!(matches!(error(&broken, &files.key()), TlsError::Pem { path, .. } if path == broken));
    let unusable = error(&no_certificate, &files.key());
    assert!(
        matches!(&unusable, TlsError::Unusable { path, .. } if *path == no_certificate),
        "{unusable}"
    );
    assert!(matches!(error(&other, &files.key()), TlsError::Mismatch { .. }));
}

#[test]
fn what_is_probably_a_mistake_is_warned_of() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let files = Files::new();
    let end = date_time_ymd(2030, 3, 1);
    let (certificate, key) = files.authority.issue(|params| {
        params.not_before = date_time_ymd(2030, 1, 1);
        params.not_after = end;
    });
    fs::write(files.cert(), certificate).unwrap();
    fs::write(files.key(), key).unwrap();
    let mode = |mode| fs::set_permissions(files.key(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let end = end.unix_timestamp() * 1000;
    for (time, expected) in [
        (end - 15 * DAY, None),
        (end - 14 * DAY + 1000, Some("expires in 13 days")),
        (end - DAY / 2, Some("expires in less than a day")),
        (end + 3 * DAY, Some("expired 3 days ago")),
        (end - 365 * DAY, Some("is not valid yet")),
    ] {
        let warnings = files.tls().warnings(UnixMillis(time));
        match expected {
            Some(expected) => assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}"),
            None => assert!(warnings.is_empty(), "{warnings:?}"),
        }
    }
    mode(0o644);
    let warnings = files.tls().warnings(UnixMillis(end - 30 * DAY));
    assert!(
        warnings.len() == 1 && warnings[0].contains("every user"),
        "{warnings:?}"
    );
}
