// Logs in with the TypeScript SDK, from the refused request on, and runs a task of 2025-11-25.
//
// usage: node login.mjs --url URL --browser URL

import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { run, text, until } from "./steps.mjs";

const { values: asked } = parseArgs({ options: { url: { type: "string" }, browser: { type: "string" } } });

/** Keeps one login in memory, and logs in with the browser that the authorization server has for tests. */
class Login {
  logins = [];
  get redirectUrl() {
    return "http://127.0.0.1:7415/callback";
  }
  get clientMetadata() {
    return {
      client_name: "interop",
      redirect_uris: [this.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.kept;
  }
  saveTokens(tokens) {
    this.kept = tokens;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  async redirectToAuthorization(url) {
    this.logins.push(url.searchParams);
    const page = await fetch(`${asked.browser}?url=${encodeURIComponent(url)}`);
    const location = await page.text();
    assert.ok(page.ok, location);
    this.cameBack = new URL(location).searchParams;
  }
}

async function connect(login) {
  const open = async () => {
    const client = new Client({ name: "interop", version: "1.0.0" }, {});
    const transport = new StreamableHTTPClientTransport(new URL(asked.url), { authProvider: login });
    try {
      await client.connect(transport);
      return client;
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await transport.finishAuth(login.cameBack.get("code"));
      return null;
    }
  };
  return (await open()) ?? (await open());
}

const login = new Login();
let taskId;

await run("@modelcontextprotocol/sdk", {
  async "a request without a token is refused"() {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
    const answer = await fetch(asked.url, { method: "POST", body, headers: { "content-type": "application/json" } });
    assert.equal(answer.status, 401);
    assert.match(answer.headers.get("www-authenticate"), /resource_metadata/);
  },

  async "log in and run a task"() {
    const client = await connect(login);
    assert.deepEqual(login.logins.map((params) => params.get("resource")), [asked.url]);
    let last;
    for await (const message of client.experimental.tasks.callToolStream({ name: "build", arguments: {} }, CallToolResultSchema, { task: {} })) {
      taskId ??= message.task?.taskId;
      last = message;
    }
    assert.equal(last.type, "result", JSON.stringify(last));
    assert.match(text(last.result), /done/);
    await client.close();
  },

  async "a token that the server refuses is refreshed"() {
    login.kept = { ...login.kept, access_token: "not-a-token" };
    const client = await connect(login);
    await until(async () => (await client.experimental.tasks.getTask(taskId)).status === "completed");
    assert.notEqual(login.kept.access_token, "not-a-token");
    assert.equal(login.logins.length, 1);
    await client.close();
  },

  async "another login of the user finds the task"() {
    const client = await connect(new Login());
    const { tasks } = await client.experimental.tasks.listTasks();
    assert.deepEqual(tasks.map((task) => task.taskId), [taskId]);
    await client.close();
  },
});
