//! `longhaul login`, `logout` and `whoami`.

use crate::{
    args,
    exit::{failure::Failure, result::Exit},
    machine::principal_logins,
    output::{self, timestamp::timestamp},
    servers::{
        self, Server,
        notice::{with_notice, with_notice_until},
    },
};
use longhaul_client::{
    AccessToken, ClientIdentity, Consent, LoggedIn, Login, LoginOptions, Loopback, Refusal, RegisteredByHand,
    RequestError, SystemClock, TokenError, TokenProvider, Url,
};
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use serde_json::json;
use std::{
    io::{self, BufRead, IsTerminal, Read},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::sync::Notify;

/// How long the user may take to log in without a browser here; with one, the client crate has the same limit.
const LONGEST_LOGIN: Duration = Duration::from_secs(10 * 60);
/// How long the server may take to say whether it accepts a key or a token.
const LONGEST_CHECK: Duration = Duration::from_secs(10);
/// The longest key or pasted address that is read, in bytes.
const MOST_INPUT: u64 = 64 * 1024;

/// After which time a key that is unknown is tried again.
const NEW_KEY: Duration = Duration::from_secs(1);

/// `longhaul login`
pub(crate) async fn log_in(args: &args::Login) -> ExitCode {
    report(try_log_in(args).await, args.json)
}

async fn try_log_in(args: &args::Login) -> Result<Exit, Failure> {
    let (server, url) = server_of(&args.server, &args.words)?;
    if server.has_authorization() {
        return Err(Failure::usage(format!(
            "{} has an `Authorization` header in its configuration, which is used instead of a login; remove it first",
            server.shown()
        )));
    }
    if server.is_readable() && !args.plain_http {
        return Err(Failure::usage(format!(
            "{url}: others on the network could read a key or a token, which plain HTTP does not hide; use https, or permit it with `--plain-http`"
        )));
    }
    let reached = Arc::new(Notify::new());
    let login = Arc::new(login(&url, args.principal.as_deref(), options(args, &reached)?)?);
    let checked = if args.key {
        let key = read_key()?;
        if key.is_empty() {
            return Err(Failure::usage(
                "no key was read from standard input, and nothing is kept; give it there: longhaul login --key SERVER < KEY-FILE",
            ));
        }
        AccessToken::new(&key).map_err(Failure::usage)?;
        let keyed = server.clone().with_key(&key).map_err(Failure::usage)?;
        let checked = match check(&keyed, None).await {
            // A server learns of a key that was made just now within half a second.
            Err(RequestError::Unauthorized { .. }) => {
                SystemClock.sleep(NEW_KEY).await;
                check(&keyed, None).await
            }
            checked => checked,
        };
        let checked = checked.map_err(|error| Failure::refused(format!("{error}; the key is not kept")))?;
        login.keep_key(&key).await.map_err(|error| failed(&url, error))?;
        checked
    } else {
        let unknown = ask(&server).await;
        let log_in = async || {
            let logged_in = login.log_in(unknown.challenge.as_deref());
            with_notice_until(&server.shown(), logged_in, reached.notified()).await
        };
        // Nobody is asked while the server is: it has only seconds to answer.
        let silent = Arc::new(self::login(&url, args.principal.as_deref(), LoginOptions::default())?);
        let check = || check(&server, args.principal.is_some().then(|| Arc::clone(&silent)));
        match log_in().await {
            Ok(_) => {}
            Err(TokenError::NoIssuer) if unknown.is_served => {
                show_unneeded(&server, args.json);
                return Ok(Exit::Answered);
            }
            Err(error) => return Err(failed(&url, error)),
        }
        let checked = check().await;
        let wanted = login.wanted().await.map_err(|error| failed(&url, error))?;
        match checked {
            // A server of several authorization servers cannot say before the login what it needs.
            Err(error) if !wanted.is_empty() && !is_not_granted(&error) => {
                output::note(&format!(
                    "the server wants a token that permits {}; log in again for it",
                    wanted.join(" ")
                ));
                log_in().await.map_err(|error| failed(&url, error))?;
                check().await?
            }
            checked => checked?,
        }
    };
    let logged_in = login.who().await.map_err(|error| failed(&url, error))?;
    show(
        &server,
        args.principal.as_deref(),
        logged_in.as_ref(),
        args.json,
        Some(&checked),
    );
    if let Some(logged_in) = logged_in.filter(|logged_in| !logged_in.not_granted.is_empty()) {
        output::note(&describe_not_granted(&logged_in));
    }
    if let LoginCheck::No(reason) = checked {
        output::note(&format!("not checked: {reason}"));
    }
    Ok(Exit::Answered)
}

/// What a login asked for and has not got.
fn describe_not_granted(logged_in: &LoggedIn) -> String {
    let granted = match logged_in.scopes.join(" ") {
        granted if granted.is_empty() => "nothing".to_owned(),
        granted => granted,
    };
    let missing = logged_in.not_granted.join(" ");
    format!(
        "warning: the authorization server has not granted {missing}, which this login asked for; it has granted {granted}. The server refuses what needs more, unless a permission that was granted includes it"
    )
}

fn is_not_granted(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::Token {
            error: TokenError::NotGranted { .. },
            ..
        }
    )
}

/// How a server takes a request of somebody it does not know.
#[derive(Default)]
struct AnonymousAccess {
    /// It answers.
    is_served: bool,
    /// Its `WWW-Authenticate`, if it refuses.
    challenge: Option<String>,
}

/// Keeps what a server says of a request without a token.
#[derive(Default)]
struct ChallengeKeeper(Mutex<Option<String>>);

impl TokenProvider for ChallengeKeeper {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        if let (401, Some(challenge)) = (refusal.status, refusal.challenge) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge.to_owned());
        }
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Sends the server the first request of a client without a token. A server may refuse only POST with the challenge that says where to log in, and for which permissions.
async fn ask(server: &Server) -> AnonymousAccess {
    let keeper = Arc::new(ChallengeKeeper::default());
    let connection = server.connection(|options| {
        options.request_timeout = LONGEST_CHECK;
        options.tokens = Some(Arc::clone(&keeper) as _);
    });
    // What else fails here does so for the login, too, which says more about it.
    let Ok(connection) = connection else {
        return AnonymousAccess::default();
    };
    let answered = with_notice(&server.shown(), connection.server()).await;
    connection.close().await;
    let challenge = keeper.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    AnonymousAccess {
        is_served: answered.is_ok(),
        challenge,
    }
}

/// Whether the server was asked about a key or a token.
enum LoginCheck {
    /// It accepts it.
    Accepted,
    /// It could not be asked.
    No(String),
}

/// Asks the server once: with this login, or else as commands do.
///
/// # Errors
/// Its refusal.
async fn check(server: &Server, login: Option<Arc<Login>>) -> Result<LoginCheck, RequestError> {
    let connection = server.connection(|options| {
        options.request_timeout = LONGEST_CHECK;
        options.tokens = login.map(|login| -> Arc<dyn TokenProvider> { login });
    });
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => return Ok(LoginCheck::No(error.to_string())),
    };
    let answered = with_notice(&server.shown(), connection.server()).await;
    connection.close().await;
    match answered {
        Ok(_) => Ok(LoginCheck::Accepted),
        Err(error @ (RequestError::Unauthorized { .. } | RequestError::Token { .. })) if !error.is_transient() => {
            Err(error)
        }
        Err(error) => Ok(LoginCheck::No(error.to_string())),
    }
}

/// `longhaul logout`
pub(crate) async fn log_out(args: &args::Account) -> ExitCode {
    let logged_out = async {
        let (server, url) = server_of(&args.server, &args.words)?;
        let had_one = login(&url, args.principal.as_deref(), LoginOptions::default())?
            .log_out()
            .await;
        let had_one = had_one.map_err(|error| failed(&url, error))?;
        if args.json {
            output::json_line(&json!({"server": url, "loggedOut": had_one}));
        } else if had_one {
            output::note(&format!(
                "logged out of {}; what was kept here is deleted. The server still accepts it until it ends or is revoked there",
                server.shown()
            ));
        } else {
            output::note(&format!("there was no login at {}", server.shown()));
        }
        Ok(Exit::Answered)
    };
    report(logged_out.await, args.json)
}

/// `longhaul whoami`
pub(crate) async fn who(args: &args::Account) -> ExitCode {
    let shown = async {
        let (server, url) = server_of(&args.server, &args.words)?;
        if server.has_authorization() {
            match args.json {
                true => output::json_line(&json!({"server": url, "loggedIn": true, "header": true})),
                false => output::text(&format!(
                    "server   {}\nwith     the `Authorization` header of its configuration",
                    server.shown()
                )),
            }
            return Ok(Exit::Answered);
        }
        let logged_in = login(&url, args.principal.as_deref(), LoginOptions::default())?
            .who()
            .await;
        let logged_in = logged_in.map_err(|error| failed(&url, error))?;
        show(&server, args.principal.as_deref(), logged_in.as_ref(), args.json, None);
        Ok(match logged_in {
            Some(logged_in) if !has_ended(&logged_in) => Exit::Answered,
            _ => Exit::Refused,
        })
    };
    report(shown.await, args.json)
}

fn report(result: Result<Exit, Failure>, json: bool) -> ExitCode {
    result.unwrap_or_else(|failure| failure.report(json)).into()
}

fn server_of(chosen: &args::ServerArgs, words: &[String]) -> Result<(Server, String), Failure> {
    let (server, rest) = servers::choose(chosen, words)?;
    if let Some(word) = rest.first() {
        return Err(Failure::usage(format!(
            "`{word}` is neither a URL nor a configured server"
        )));
    }
    let url = server.url().map(str::to_owned);
    let url = url.ok_or_else(|| {
        Failure::usage("a server that is started here needs no login; give the secrets it wants in its environment")
    })?;
    Ok((server, url))
}

/// The login of this user, or of a principal of a server of theirs.
fn login(url: &str, principal: Option<&str>, options: LoginOptions) -> Result<Login, Failure> {
    let file = principal_logins::token_file(principal).map_err(Failure::usage)?;
    servers::tell_earlier_mode(&file);
    Login::new(url, file, options).map_err(Failure::usage)
}

/// `reached` is notified before the user is asked.
fn options(args: &args::Login, reached: &Arc<Notify>) -> Result<LoginOptions, Failure> {
    let mut options = LoginOptions::default();
    options.scopes.clone_from(&args.scope);
    options.issuer.clone_from(&args.issuer);
    options.as_client = args.as_client;
    if let Some(url) = &args.client_metadata_url {
        ClientIdentity::check_metadata_url(url)
            .map_err(|error| Failure::usage(format!("--client-metadata-url: {error}")))?;
    }
    options.identity.metadata_url.clone_from(&args.client_metadata_url);
    if let Some(client_id) = args.client_id.clone() {
        let secret = args.client_secret_file.as_ref().map(|file| {
            let secret = longhaul_private_dir::read_named_text(file);
            secret.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
        });
        let client_secret = secret.transpose()?.map(|secret| secret.trim_end().to_owned());
        options.identity.registered = Some(RegisteredByHand {
            client_id,
            client_secret,
        });
    }
    let consent: Arc<dyn Consent> = match args.no_browser {
        true => Arc::new(PasteConsent),
        false => Arc::new(Loopback::new(open_browser)),
    };
    options.consent = Some(Arc::new(NotifyingConsent {
        consent,
        reached: Arc::clone(reached),
    }));
    Ok(options)
}

/// Tells when the user is asked: then no server is waited for.
struct NotifyingConsent {
    consent: Arc<dyn Consent>,
    reached: Arc<Notify>,
}

impl Consent for NotifyingConsent {
    fn redirect_uri<'a>(&'a self, preferred: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        self.consent.redirect_uri(preferred)
    }

    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        self.reached.notify_one();
        Box::pin(async move {
            // What says that the server is waited for is removed first.
            tokio::task::yield_now().await;
            self.consent.authorize(url).await
        })
    }
}

/// Opens the browser of this user. The address is an argument of a program and never passes a shell.
fn open_browser(url: &Url) {
    output::note(&format!("log in at {url}"));
    if let Err(error) = open::that_detached(url.as_str()) {
        output::note(&format!(
            "no browser could be opened ({error}); open the address yourself, or use --no-browser if this is another machine"
        ));
    }
}

/// A user whose browser is on another machine: it ends on a page that cannot be shown, whose address has the answer.
struct PasteConsent;

impl Consent for PasteConsent {
    fn redirect_uri<'a>(&'a self, preferred: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        // Nobody listens there. The port is any that the browser can be sent to.
        let uri = preferred.unwrap_or("http://127.0.0.1:7413/callback").to_owned();
        Box::pin(std::future::ready(Ok(uri)))
    }

    #[expect(clippy::disallowed_methods, reason = "standard input blocks")]
    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        output::note(&format!(
            "log in at {url}\nthe browser ends on a page of 127.0.0.1 that it cannot show; paste the address of that page here:"
        ));
        Box::pin(async {
            let failed = |reason: String| TokenError::Failed { reason };
            // It cannot be stopped, so the program ends without it.
            let pasted = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                io::stdin().lock().take(MOST_INPUT).read_line(&mut line).map(|_| line)
            });
            let line = tokio::select! {
                pasted = pasted => pasted.map_err(io::Error::other).flatten(),
                () = SystemClock.sleep(LONGEST_LOGIN) => {
                    return Err(failed("nothing was pasted within ten minutes; start the login again".to_owned()));
                }
            };
            let line = line.map_err(|error| failed(format!("standard input cannot be read: {error}")))?;
            match line.trim() {
                "" => Err(failed("nothing was pasted".to_owned())),
                pasted => Url::parse(pasted).map_err(|error| {
                    failed(format!(
                        "what was pasted is not an address ({error}); it begins with http://127.0.0.1"
                    ))
                }),
            }
        })
    }
}

/// The key on standard input, without the line break behind it.
fn read_key() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        output::note("paste the key, then press Enter:");
        let mut line = String::new();
        let read = io::stdin().lock().take(MOST_INPUT).read_line(&mut line);
        read.map_err(Failure::usage)?;
        return Ok(key_in(&line).to_owned());
    }
    let mut text = String::new();
    let read = io::stdin().take(MOST_INPUT).read_to_string(&mut text);
    read.map_err(Failure::usage)?;
    Ok(key_in(&text).to_owned())
}

/// The key in a text that may be the header in which it is sent.
fn key_in(text: &str) -> &str {
    let mut key = text.trim();
    for before in ["authorization:", "bearer "] {
        if let Some((start, rest)) = key.split_at_checked(before.len())
            && start.eq_ignore_ascii_case(before)
        {
            key = rest.trim_start();
        }
    }
    key
}

fn failed(url: &str, error: TokenError) -> Failure {
    RequestError::Token {
        address: url.to_owned(),
        error,
    }
    .into()
}

/// Whether its token is of no use any more.
fn has_ended(logged_in: &LoggedIn) -> bool {
    let end = logged_in.expires_at.map(unix_millis);
    !logged_in.refreshes && end.is_some_and(|end| end <= SystemClock.now())
}

fn show_unneeded(server: &Server, json: bool) {
    match json {
        true => output::json_line(&json!({"server": server.as_json(), "loggedIn": false, "needed": false})),
        false => output::note(&format!(
            "{} needs no login: it answers without one, and names no authorization server. Nothing is kept. If you have a key for more, keep it with `{}`",
            server.shown(),
            server.command_line("login", &["--key"])
        )),
    }
}

fn show(
    server: &Server,
    principal: Option<&str>,
    logged_in: Option<&LoggedIn>,
    json: bool,
    checked: Option<&LoginCheck>,
) {
    let log_in = || match principal {
        Some(principal) => server.command_line("login", &["--for", principal]),
        None => server.command_line("login", &[]),
    };
    let Some(logged_in) = logged_in else {
        match json {
            true => output::json_line(&json!({"server": server.as_json(), "loggedIn": false})),
            false => output::note(&format!("not logged in to {}; `{}` logs in", server.shown(), log_in())),
        }
        return;
    };
    let expires_at = logged_in.expires_at.map(|at| timestamp(unix_millis(at)));
    if json {
        output::json_line(&json!({
            "server": server.as_json(), "loggedIn": true, "key": logged_in.client_id.is_none(), "issuer": logged_in.issuer,
            "clientId": logged_in.client_id, "scopes": logged_in.scopes, "notGranted": logged_in.not_granted, "expiresAt": expires_at,
            "refreshes": logged_in.refreshes, "subject": logged_in.subject, "ended": has_ended(logged_in),
            "accepted": checked.map(|checked| matches!(checked, LoginCheck::Accepted)).filter(|accepted| *accepted),
        }));
        return;
    }
    let mut lines = vec![format!("server   {}", server.shown())];
    let mut line = |name: &str, value: &str| lines.push(format!("{name:<8} {}", output::plain(value, "")));
    match (&logged_in.client_id, &logged_in.issuer) {
        // MCP has no request for it.
        (None, _) => line("with", "a key; the server does not say which"),
        (Some(client), issuer) => {
            line("issuer", issuer.as_deref().unwrap_or("not named"));
            line("client", client);
            if let Some(subject) = &logged_in.subject {
                line("as", subject);
            }
            line("permits", &logged_in.scopes.join(" "));
            if !logged_in.not_granted.is_empty() {
                line(
                    "without",
                    &format!(
                        "{}: asked for, and not granted by this name",
                        logged_in.not_granted.join(" ")
                    ),
                );
            }
        }
    }
    if let Some(at) = expires_at {
        let then = match logged_in.refreshes {
            true => ", then it is refreshed",
            false => "",
        };
        match has_ended(logged_in) {
            true => line("ended", &format!("{at}; `{}` logs in again", log_in())),
            false => line("until", &format!("{at}{then}")),
        }
    }
    if let Some(LoginCheck::Accepted) = checked {
        line("checked", "the server accepts it");
    }
    output::text(&lines.join("\n"));
}

fn unix_millis(time: SystemTime) -> UnixMillis {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
