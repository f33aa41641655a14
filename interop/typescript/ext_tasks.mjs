// The Tasks of both protocol eras with ext-tasks on the TypeScript SDK: call, poll, answer, cancel, hand over.
//
// With 2025-11-25 this client only polls, and expects server requests on the general stream.

import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { dispatchTo } from "./dispatch.mjs";
import { filledIn, run, server, text, until } from "./steps.mjs";

const where = server();
const clientInfo = { name: "interop", version: "1.0.0" };
const capabilities = { elicitation: { form: {} } };

/** A session in the era of this protocol version. */
async function connect(protocolVersion) {
  const modern = protocolVersion === "2026-07-28";
  const mode = modern ? { pin: protocolVersion } : "legacy";
  const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode } });
  await client.connect(where.url ? new StreamableHTTPClientTransport(where.url) : new StdioClientTransport(where));
  assert.equal(client.getNegotiatedProtocolVersion(), protocolVersion);
  const asked = [];
  const session = createTaskSessionFromClient(client, {
    endpointId: "longhaul",
    async onInputRequest({ params }, { taskId }) {
      asked.push({ message: params.message, taskId });
      return filledIn(params.requestedSchema);
    },
    ...(modern && {
      rawDispatch: dispatchTo(where.url, protocolVersion),
      v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: capabilities },
    }),
  });
  return { client, session, asked };
}

const asTask = { task: { preference: "require", retentionMs: 60_000 } };

/** The steps that are the same in both eras. */
function alike(protocolVersion) {
  let connection;
  const call = async (name, args, options = asTask) => {
    const execution = await connection.session.callTool(name, args, options);
    return { execution, ...(await execution.settle()) };
  };
  return {
    async connect() {
      connection = await connect(protocolVersion);
    },

    async "call without a task"() {
      const { execution, outcome } = await call("greet", { name: "Ada" }, {});
      assert.equal(execution.kind, "immediate");
      assert.equal(text(outcome.result), "Hello, Ada!");
    },

    async "poll to the result"() {
      const { execution, outcome } = await call("slow_compute", { seconds: 1, label: "poll" });
      assert.equal(execution.kind, "task");
      assert.equal(outcome.status, "completed", outcome.error);
      assert.ok(text(outcome.result));
    },

    async "a tool that says no"() {
      const { outcome } = await call("failing_job", {});
      if (protocolVersion === "2025-11-25") {
        assert.equal(outcome.status, "failed");
      } else {
        assert.equal(outcome.status, "completed", outcome.error);
        assert.equal(outcome.result.isError, true);
      }
    },

    async "an error of the call"() {
      const { outcome } = await call("protocol_error_job", {});
      assert.equal(outcome.status, "failed");
      assert.ok(outcome.task.statusMessage, "it says why");
    },

    async "answer a question"() {
      const before = connection.asked.length;
      const { execution, outcome } = await call("confirm_delete", { filename: "ask.txt" });
      assert.equal(outcome.status, "completed", outcome.error);
      assert.equal(text(outcome.result), "Deleted ask.txt.");
      const asked = connection.asked.slice(before);
      assert.equal(asked.length, 1, "a question is asked once");
      assert.equal(asked[0].taskId, execution.handle.taskId);
    },

    async "answer two questions"() {
      const before = connection.asked.length;
      const { outcome } = await call("multi_input", {});
      assert.equal(outcome.status, "completed", outcome.error);
      assert.equal(text(outcome.result), "File: true, backup: true.");
      assert.equal(new Set(connection.asked.slice(before).map(({ message }) => message)).size, 2);
    },

    async cancel() {
      const execution = await connection.session.callTool("slow_compute", { seconds: 60, label: "cancel" }, asTask);
      await execution.cancel();
      assert.equal((await execution.result()).status, "cancelled");
      const task = connection.session.task(execution.handle.taskId);
      await until(async () => (await task.snapshot()).status === "cancelled");
    },

    // On standard input and output the server is a process of the session, and this one has a data directory of its own.
    ...(where.url && {
      async "hand over to another session"() {
        const execution = await connection.session.callTool("slow_compute", { seconds: 1, label: "hand over" }, asTask);
        let reference;
        await execution.handoff((serialized) => {
          reference = serialized;
        });
        const other = await connect(protocolVersion);
        const resumed = await other.session.resumeTask(reference);
        const { outcome } = await resumed.settle();
        assert.equal(outcome.status, "completed", outcome.error);
        await other.session.close();
        await other.client.close();
      },
    }),
  };
}

function named(era, steps) {
  return Object.fromEntries(Object.entries(steps).map(([step, act]) => [`${era}: ${step}`, act]));
}

await run("@modelcontextprotocol/ext-tasks", {
  ...named("2025-11-25", alike("2025-11-25")),
  // Over stdio the package leaves sending task requests to its host, and this script implements that only for HTTP.
  ...(where.url && named("2026-07-28", alike("2026-07-28"))),
});
