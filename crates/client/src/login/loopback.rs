//! A listener on loopback that receives the browser after a login (RFC 8252, section 7.3).

use super::Consent;
use crate::TokenError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use longhaul_core::BoxFuture;
use parking_lot::Mutex;
use reqwest::Url;
use std::{convert::Infallible, net::Ipv4Addr, time::Duration};
use tokio::net::{TcpListener, TcpStream};

/// How long the user may take.
const LONGEST_LOGIN: Duration = Duration::from_secs(10 * 60);
/// How long a browser may take to send its request.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
const PATH: &str = "/callback";

/// Lets the user log in with a browser on this machine. The browser is sent back to a listener on 127.0.0.1, which is open only meanwhile.
pub struct Loopback<F> {
    show: F,
    listener: Mutex<Option<TcpListener>>,
}

impl<F: Fn(&Url) + Send + Sync> Loopback<F> {
    /// `show` brings the user to the URL: it opens a browser, or prints the URL. It must not pass the URL through a shell.
    pub fn new(show: F) -> Self {
        Self {
            show,
            listener: Mutex::default(),
        }
    }

    async fn bind(preferred: Option<&str>) -> std::io::Result<TcpListener> {
        let port = preferred.and_then(|uri| Url::parse(uri).ok()?.port());
        if let Some(port) = port
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
        {
            return Ok(listener);
        }
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
    }
}

impl<F: Fn(&Url) + Send + Sync> Consent for Loopback<F> {
    fn redirect_uri<'a>(&'a self, preferred: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        Box::pin(async move {
            let bound = async {
                let listener = Self::bind(preferred).await?;
                let address = listener.local_addr()?;
                *self.listener.lock() = Some(listener);
                Ok::<_, std::io::Error>(address)
            };
            let address = bound.await.map_err(|error| TokenError::Failed {
                reason: format!("cannot listen on 127.0.0.1 for the browser: {error}"),
            })?;
            Ok(format!("http://{address}{PATH}"))
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the client is not simulated")]
    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        Box::pin(async move {
            let listener = self.listener.lock().take();
            let listener = listener.ok_or_else(|| TokenError::Failed {
                reason: "there is no listener for the browser".to_owned(),
            })?;
            (self.show)(url);
            let state = query_value(url, "state").unwrap_or_default();
            let answer = tokio::time::timeout(LONGEST_LOGIN, receive(&listener, &state)).await;
            answer.unwrap_or_else(|_| {
                Err(TokenError::Failed {
                    reason: "nobody logged in within ten minutes; start the login again".to_owned(),
                })
            })
        })
    }
}

/// Accepts connections until one brings the answer. A browser opens some that bring nothing, so several are served at once.
async fn receive(listener: &TcpListener, state: &str) -> Result<Url, TokenError> {
    let failed = |error: std::io::Error| TokenError::Failed {
        reason: format!("cannot listen for the browser: {error}"),
    };
    let address = listener.local_addr().map_err(failed)?;
    let answer: Mutex<Option<Url>> = Mutex::default();
    let mut open = futures_util::stream::FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(()) = futures_util::StreamExt::next(&mut open), if !open.is_empty() => {
                if let Some(url) = answer.lock().take() {
                    return Ok(url);
                }
            }
            accepted = listener.accept() => {
                let (stream, _) = accepted.map_err(failed)?;
                open.push(serve(stream, address.port(), state, &answer));
            }
        }
    }
}

/// Answers one request.
async fn serve(stream: TcpStream, port: u16, state: &str, answer: &Mutex<Option<Url>>) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let (status, text) = match callback(&request, port, state) {
            Some(url) => {
                *answer.lock() = Some(url);
                (StatusCode::OK, "You can close this window and go back to the terminal.")
            }
            None => (
                StatusCode::NOT_FOUND,
                "This is not the answer to a login that waits here.",
            ),
        };
        let page = format!("<!doctype html><meta charset=utf-8><title>Longhaul</title><p>{text}\n");
        let mut response = Response::new(Full::new(Bytes::from(page)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            // The URL of the page has the code in it.
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        ] {
            headers.insert(name, header::HeaderValue::from_static(value));
        }
        Ok::<_, Infallible>(response)
    });
    let mut http = http1::Builder::new();
    let http = http
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_REQUEST)
        .keep_alive(false);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection of the browser failed");
    }
}

/// The URL of a request that answers the login with this state.
fn callback(request: &Request<Incoming>, port: u16, state: &str) -> Option<Url> {
    let query = request.uri().query()?;
    let url = Url::parse(&format!("http://127.0.0.1:{port}{}?{query}", request.uri().path())).ok()?;
    let fits = request.method() == hyper::Method::GET && url.path() == PATH;
    (fits && query_value(&url, "state")? == state).then_some(url)
}

/// The value of `name` in the query of `url`; the first, if there are several.
pub(super) fn query_value(url: &Url, name: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn status_of(url: &str) -> u16 {
        let url = Url::parse(url).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, url.port().unwrap()))
            .await
            .unwrap();
        let target = url
            .as_str()
            .split_once("/callback")
            .map_or("/favicon.ico?state=right".to_owned(), |(_, query)| {
                format!("{PATH}{query}")
            });
        let request = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response[9..12].parse().unwrap()
    }

    #[tokio::test]
    async fn only_the_answer_of_this_login_is_taken() {
        let (shown, urls) = mpsc::channel();
        let consent = Loopback::new(move |url: &Url| shown.send(url.clone()).unwrap());
        let redirect = consent.redirect_uri(None).await.unwrap();
        let at = |query: &str| format!("{redirect}{query}");
        let url = Url::parse("https://login.example/authorize?state=right").unwrap();
        let browser = async {
            let icon = redirect.replace(PATH, "/favicon.ico?state=right");
            for wrong in [icon, at("?code=c&state=wrong"), at("?code=c"), at("")] {
                assert_eq!(status_of(&wrong).await, 404);
            }
            assert_eq!(status_of(&at("?code=c&state=right&iss=i")).await, 200);
        };
        let (answer, ()) = tokio::join!(consent.authorize(&url), browser);
        assert_eq!(answer.unwrap().as_str(), at("?code=c&state=right&iss=i"));
        assert_eq!(urls.try_recv().unwrap(), url);
        let again = consent.redirect_uri(Some(&redirect)).await.unwrap();
        assert_eq!(again, redirect);
    }
}
