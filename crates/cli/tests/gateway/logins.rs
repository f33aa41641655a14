//! How the gateway logs in at its upstreams.

use crate::{authorization_server::Protected, support::*};
use std::{
    fs,
    io::Write,
    net::{IpAddr, TcpListener, UdpSocket},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// An upstream that lets nobody in without a key of `longhaul keys add`.
fn let_in_by_keys(folder: &Path) {
    append(
        folder,
        "upstream.toml",
        "[server.auth]\napi_keys = true\nsame_user = false\n",
    );
}

/// Keeps a key for this user, or for a principal of the user's server.
pub(crate) fn log_in(folder: &Path, url: &str, key: &str, more: &[&str]) {
    let mut login = longhaul(folder)
        .args(["login", url, "--key"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    login.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    assert!(login.wait().unwrap().success());
}

/// The gateway shows the key that `longhaul login` has kept, and without it the upstream lets nobody in.
#[test]
fn an_upstream_is_logged_in_at_as_the_user_is() {
    let folder = folder();
    let folder = folder.path();
    let_in_by_keys(folder);
    let key = done(folder, &["keys", "add", "upstream.toml", "gateway"]);
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    done(folder, &["check", "gateway.toml"]).has("requires a login or a key");

    append(folder, "gateway.toml", "auth = { login = true }\n");
    let advice = format!(
        "whoever runs this server makes one with `longhaul login {}`",
        upstream.url
    );
    done(folder, &["check", "gateway.toml"]).has(&advice);
    log_in(folder, &upstream.url, &key, &[]);
    let gateway = serve(folder, &["gateway.toml"]);
    assert_eq!(done(folder, &["call", &gateway.url, "greet"]), "Hello");

    // Its tools are known, and its login is gone: the caller is told what is to be done.
    done(folder, &["keys", "revoke", "upstream.toml", "gateway"]);
    until("the key of the upstream to end", || {
        let refused = run(folder, &["call", &gateway.url, "greet"]);
        let said = [refused.stdout, refused.stderr].concat();
        !refused.status.success() && String::from_utf8_lossy(&said).contains(&advice)
    });
}

/// Each principal is shown to the upstream as itself, and one without a login as nobody.
#[test]
fn each_principal_has_a_login_of_its_own() {
    let folder = folder();
    let folder = folder.path();
    let_in_by_keys(folder);
    let key_of = |file: &str, name: &str| done(folder, &["keys", "add", file, name]);
    let at_upstream = ["gateway", "ann-there"].map(|name| key_of("upstream.toml", name));
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    append(
        folder,
        "gateway.toml",
        "auth = { login = \"per-principal\" }\n[server.auth]\napi_keys = true\n",
    );
    // The lists are read as the user who runs the gateway.
    log_in(folder, &upstream.url, &at_upstream[0], &[]);
    let keys = ["ann", "bob"].map(|name| key_of("gateway.toml", name));
    let gateway = serve(folder, &["gateway.toml"]);
    let servers = ["ann", "bob"].iter().zip(&keys).map(|(name, key)| {
        format!(
            "[servers.{name}]\nurl = {:?}\nheaders = {{ Authorization = \"Bearer {key}\" }}\n",
            gateway.url
        )
    });
    fs::create_dir_all(folder.join("config/longhaul")).unwrap();
    fs::write(folder.join("config/longhaul/servers.toml"), servers.collect::<String>()).unwrap();
    let greet = |name: &str| {
        let output = run(folder, &["call", name, "greet"]);
        let said = match output.status.success() {
            true => output.stdout,
            false => [output.stdout, output.stderr].concat(),
        };
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };

    let (_, said) = greet("ann");
    let advice = format!(
        "there is no login of `key:ann`; whoever runs this server makes one with `longhaul login {} --for key:ann`",
        upstream.url
    );
    assert!(said.contains(&advice), "{said}");
    log_in(folder, &upstream.url, &at_upstream[1], &["--for", "key:ann"]);
    let known = run(folder, &["whoami", &upstream.url, "--for", "key:ann", "--json"]);
    assert!(text(&known).contains("\"loggedIn\":true"), "{known:?}");
    // The gateway finds it without a restart.
    assert_eq!(greet("ann"), (true, "Hello\n".to_owned()));
    let (is_let_in, said) = greet("bob");
    assert!(!is_let_in && said.contains("there is no login of `key:bob`"), "{said}");

    // That of the user who runs the gateway is still good, and not used for her.
    done(folder, &["keys", "revoke", "upstream.toml", "ann-there"]);
    // A call that is running when the key ends says something else.
    until("the key of the upstream to end", || {
        greet("ann").1.contains("it does not accept the login of `key:ann`")
    });
    assert_eq!(done(folder, &["call", &gateway.url, "greet"]), "Hello");
}

/// Without a user: the gateway logs in as a client of its own, again when its token is refused, and not at every start.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_logged_in_at_as_a_client_of_its_own() {
    let protected = Protected::start().await;
    let folder = folder();
    let folder = folder.path();
    gateway_config(folder, &protected.url());
    append(
        folder,
        "gateway.toml",
        "auth = { client_id = \"gateway\", client_secret = \"${UPSTREAM_SECRET}\" }\n",
    );
    let start = || {
        let mut serving = longhaul(folder);
        serving.env("UPSTREAM_SECRET", "s3cret");
        started(serving, &["gateway.toml"], Stdio::null())
    };
    let logins = || protected.issued(|issued| issued.clients_asked.clone());

    let gateway = start();
    let call = |url: &str| run(folder, &["call", url, "deploy"]);
    text(&call(&gateway.url));
    assert_eq!(logins(), ["gateway s3cret"]);
    protected.issued(|issued| issued.access.clear());
    text(&call(&gateway.url));
    assert_eq!(logins().len(), 2);

    drop(gateway);
    let gateway = start();
    text(&call(&gateway.url));
    assert_eq!(logins().len(), 2, "the token is kept");
    // Apart from what the user has.
    assert!(!folder.join("state/longhaul/.client/tokens.json").exists());
}

/// An address of this machine in a private network, if it has one.
fn private_address() -> Option<IpAddr> {
    let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let v6 = v6
        .lines()
        .filter_map(|line| u128::from_str_radix(line.split(' ').next()?, 16).ok());
    let v6 = v6.map(|bits| IpAddr::V6(bits.into()));
    // Nothing is sent: the system only says from which address it would be.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let mut all = v6.chain(route.ok().map(|address| address.ip()));
    all.find(|address| match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    })
}

/// What a gateway knows is not sent where only the gateway gets, because an upstream says so.
#[tokio::test(flavor = "multi_thread")]
async fn s_35_an_upstream_elsewhere_does_not_lead_a_gateway_into_a_private_network() {
    let Some(address) = private_address() else {
        eprintln!("this machine has no private address: the test is left out");
        return;
    };
    let internal = TcpListener::bind((address, 0)).unwrap();
    let issuer = format!("https://{}", internal.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let counts = move || {
        for _ in internal.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::Builder::new().spawn(counts).unwrap();
    let protected = Protected::start().await;
    // An address of this machine that does not say so.
    let elsewhere = protected.url().replace("127.0.0.1", "0.0.0.0");
    let named = (String::leak(issuer) as &str, elsewhere.clone());
    protected.issued(|issued| (issued.named_issuer, issued.named_resource) = (Some(named.0), Some(named.1)));

    let folder = folder();
    let folder = folder.path();
    gateway_config(folder, &elsewhere);
    append(
        folder,
        "gateway.toml",
        "auth = { client_id = \"gateway\", client_secret = \"s3cret\" }\n",
    );
    let checked = run(folder, &["check", "gateway.toml"]);
    assert_eq!(connections.load(Ordering::SeqCst), 0, "{checked:?}");

    // A user who names the server may follow it there.
    fs::write(folder.join("secret"), "s3cret").unwrap();
    let me = ["--as-client", "--client-id=me", "--client-secret-file=secret"];
    run(folder, &[&["login", &elsewhere, "--plain-http"], &me[..]].concat()).fails();
    assert!(connections.load(Ordering::SeqCst) > 0);
}

/// The secret goes to the authorization server that it is for, and to no other one that an upstream names.
#[tokio::test(flavor = "multi_thread")]
async fn s_33_the_secret_of_a_gateway_goes_to_the_issuer_that_is_configured() {
    let (protected, trusted) = (Protected::start().await, Protected::start().await);
    let url = protected.url();
    protected.issued(|issued| issued.more_issuers = vec![trusted.origin.clone()]);
    trusted.issued(|issued| issued.issues_for = Some(url.clone()));
    let asked = |server: &Protected| server.issued(|issued| issued.clients_asked.len());

    let folder = folder();
    let folder = folder.path();
    gateway_config(folder, &url);
    let bare = fs::read_to_string(folder.join("gateway.toml")).unwrap();
    let configure = |issuer: &str| {
        let auth = format!("auth = {{ client_id = \"gateway\", client_secret = \"s3cret\", issuer = {issuer:?} }}\n");
        fs::write(folder.join("gateway.toml"), format!("{bare}{auth}")).unwrap();
        run(folder, &["check", "gateway.toml"])
    };
    let _ = configure(&trusted.origin);
    assert_eq!((asked(&protected), asked(&trusted)), (0, 1));
    let refused = configure("https://login.example");
    let said = [refused.stdout, refused.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("does not trust https://login.example"));
    assert_eq!((asked(&protected), asked(&trusted)), (0, 1));
    let open = configure("http://login.example");
    open.says("issuer \"http://login.example\" cannot be used");
}

/// Without such a setting it goes where it went the first time.
#[tokio::test(flavor = "multi_thread")]
async fn s_33_an_upstream_that_names_another_authorization_server_does_not_get_the_secret() {
    let (protected, other) = (Protected::start().await, Protected::start().await);
    let folder = folder();
    let folder = folder.path();
    gateway_config(folder, &protected.url());
    append(
        folder,
        "gateway.toml",
        "auth = { client_id = \"gateway\", client_secret = \"s3cret\" }\n",
    );
    run(folder, &["check", "gateway.toml"]);
    assert_eq!(protected.issued(|issued| issued.clients_asked.len()), 1);
    let (named, url) = (String::leak(other.origin.clone()) as &str, protected.url());
    other.issued(|issued| issued.issues_for = Some(url));
    protected.issued(|issued| {
        issued.access.clear();
        issued.named_issuer = Some(named);
    });
    let moved = run(folder, &["check", "gateway.toml"]);
    let said = [moved.stdout, moved.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains(&other.origin));
    assert!(other.issued(|issued| issued.clients_asked.is_empty()));
}
