//! A login at the authorization server that the MCP server names, and a task with the tokens.

use crate::{
    call::text,
    modern::{completed, create, poll_until_end},
    session::Session,
    steps::{Deviation, Steps, ensure},
    user::User,
};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt,
    model::ProtocolVersion,
    transport::{
        AuthClient, AuthorizationManager, StreamableHttpClientTransport,
        auth::{AuthorizationRequest, OAuthState},
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;

const ERA: &str = "2026-07-28";

/// Where the authorization server would send a browser back to.
const REDIRECT: &str = "http://127.0.0.1:7416/callback";

/// `browser` is the page of the authorization server that acts as the user's browser.
pub(crate) async fn run(url: &str, browser: &str, steps: &mut Steps) {
    steps
        .run(ERA, "a request without a token is refused", refused(url))
        .await;
    let Some(manager) = steps.run(ERA, "log in", log_in(url, browser)).await else {
        return;
    };
    let Some(session) = steps.run(ERA, "connect with the token", connect(url, manager)).await else {
        return;
    };
    let Some(task) = steps.run(ERA, "run a task", task(&session)).await else {
        return;
    };
    let other = async {
        let session = connect(url, log_in(url, browser).await?).await?;
        let again = completed(poll_until_end(&session, &task, &User::default()).await?)?;
        ensure!(text(&again).contains("done"), again);
        Ok(())
    };
    steps.run(ERA, "another login of the user finds the task", other).await;
}

fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}

async fn refused(url: &str) -> Result<(), Deviation> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    let connected = User::default().serve_with_lifecycle(transport, lifecycle()).await;
    ensure!(connected.is_err(), "it was served");
    Ok(())
}

async fn log_in(url: &str, browser: &str) -> Result<AuthorizationManager, Deviation> {
    let mut login = OAuthState::new(url, None).await?;
    login
        .start_authorization(AuthorizationRequest::new(REDIRECT).with_client_name("interop"))
        .await?;
    let page = reqwest::Url::parse_with_params(browser, [("url", login.get_authorization_url().await?)])?;
    let came_back = reqwest::get(page).await?.error_for_status()?.text().await?;
    login.handle_callback_url(&came_back).await?;
    login
        .into_authorization_manager()
        .ok_or_else(|| "it is not logged in".into())
}

async fn connect(url: &str, manager: AuthorizationManager) -> Result<Session, Deviation> {
    let client = AuthClient::new(reqwest::Client::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    Ok(User::default().serve_with_lifecycle(transport, lifecycle()).await?)
}

async fn task(session: &Session) -> Result<String, Deviation> {
    let task = create(session, "build", json!({})).await?;
    let result = completed(poll_until_end(session, &task, &User::default()).await?)?;
    ensure!(text(&result).contains("done"), result);
    Ok(task)
}
