"""Logs in with the Python client, from the refused request on, and runs a task of 2025-11-25.

usage: python login.py --url URL --browser URL
"""

import argparse
import contextlib

import anyio
import httpx
from mcp import ClientSession, types
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from steps import report
from tasks import status_becomes, text


class Memory:
    """Keeps the tokens of one login."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class User:
    """Logs in with the browser that the authorization server has for tests."""

    def __init__(self, browser):
        self.browser = browser
        self.logins = []
        self.came_back = None

    async def open_browser(self, url):
        self.logins.append(httpx.URL(url).params)
        async with httpx.AsyncClient() as http:
            page = await http.get(self.browser, params={"url": url})
        page.raise_for_status()
        self.came_back = httpx.URL(page.text).params

    async def answer(self):
        return self.came_back["code"], self.came_back.get("state")


def login(url, user, memory):
    client = OAuthClientMetadata(
        client_name="interop",
        redirect_uris=[AnyUrl("http://127.0.0.1:7414/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(url, client, memory, user.open_browser, user.answer)


@contextlib.asynccontextmanager
async def connect(url, auth):
    async with httpx.AsyncClient(auth=auth, timeout=30) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield session


async def a_request_without_a_token_is_refused(url):
    async with httpx.AsyncClient() as http:
        answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answer.status_code == 401, answer
    assert "resource_metadata" in answer.headers["www-authenticate"], answer.headers


async def log_in_and_run_a_task(url, auth, user, tasks):
    async with connect(url, auth) as session:
        assert [login["resource"] for login in user.logins] == [url], user.logins
        created = (await session.experimental.call_tool_as_task("build", {})).task
        tasks.append(created.taskId)
        result = await session.experimental.get_task_result(created.taskId, types.CallToolResult)
        assert "done" in text(result), result


async def the_token_is_refreshed(url, auth, user, memory, tasks):
    first = memory.tokens.access_token
    # Longer than the token lives.
    await anyio.sleep(memory.tokens.expires_in + 1)
    async with connect(url, auth) as session:
        await status_becomes(session.experimental, tasks[0], "completed")
    assert memory.tokens.access_token != first
    assert len(user.logins) == 1, user.logins


async def another_login_of_the_user_finds_the_task(url, browser, tasks):
    async with connect(url, login(url, User(browser), Memory())) as session:
        listed = await session.experimental.list_tasks()
        assert [task.taskId for task in listed.tasks] == tasks, listed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--browser", required=True)
    asked = parser.parse_args()

    async def script(steps):
        user, memory, tasks = User(asked.browser), Memory(), []
        auth = login(asked.url, user, memory)
        await steps.run(a_request_without_a_token_is_refused, asked.url)
        await steps.run(log_in_and_run_a_task, asked.url, auth, user, tasks)
        await steps.run(the_token_is_refreshed, asked.url, auth, user, memory, tasks)
        await steps.run(another_login_of_the_user_finds_the_task, asked.url, asked.browser, tasks)

    report(script)


if __name__ == "__main__":
    main()
