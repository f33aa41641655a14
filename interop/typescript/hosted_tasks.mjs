// Client-hosted tasks with the TypeScript SDK: it answers a server request with a task, which the server polls.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { filledIn, run, server, text, until } from "./steps.mjs";

const where = server();

/** Ends its task only after the server has polled it as working; or never. */
class SlowUser extends InMemoryTaskStore {
  constructor(decides) {
    super();
    this.decides = decides;
    this.looks = 0;
  }

  async think(store, ttl, answer) {
    const task = await store.createTask({ ttl, pollInterval: 50 });
    const before = this.looks;
    if (this.decides) {
      until(() => this.looks > before).then(() => store.storeTaskResult(task.taskId, "completed", answer));
    }
    return { task };
  }

  async getTask(...args) {
    this.looks += 1;
    return super.getTask(...args);
  }

  async statuses() {
    return (await super.listTasks()).tasks.map(({ status }) => status);
  }
}

async function connect(user) {
  const hosted = { list: {}, cancel: {}, requests: { elicitation: { create: {} }, sampling: { createMessage: {} } } };
  const capabilities = { elicitation: { form: {} }, sampling: {}, tasks: hosted };
  const client = new Client({ name: "interop", version: "1.0.0" }, { capabilities, taskStore: user });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }, { taskStore }) => {
    assert.ok(params.task, "a question of a task is asked as one");
    return user.think(taskStore, params.task.ttl, filledIn(params.requestedSchema));
  });
  client.setRequestHandler(CreateMessageRequestSchema, async ({ params }, { taskStore }) => {
    const paris = { role: "assistant", model: "a-model", content: { type: "text", text: "Paris" } };
    return params.task ? user.think(taskStore, params.task.ttl, paris) : paris;
  });
  await client.connect(where.url ? new StreamableHTTPClientTransport(where.url) : new StdioClientTransport(where));
  return client;
}

await run("@modelcontextprotocol/sdk", {
  async "the answer to a task is a task"() {
    const user = new SlowUser(true);
    const client = await connect(user);
    const call = { name: "confirm_delete", arguments: { filename: "hosted.txt" } };
    let last;
    for await (last of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: {} }));
    assert.equal(last.type, "result", String(last.error));
    assert.equal(text(last.result), "Deleted hosted.txt.");
    assert.deepEqual(await user.statuses(), ["completed"]);
    await client.close();
  },

  async "within a plain call the answer is waited for"() {
    const user = new SlowUser(true);
    const client = await connect(user);
    const result = await client.callTool({ name: "test_sampling", arguments: { prompt: "What is the capital of France?" } });
    assert.match(text(result), /Paris/);
    await client.close();
  },

  async "cancelling the task cancels the answer"() {
    const user = new SlowUser(false);
    const client = await connect(user);
    const call = { name: "confirm_delete", arguments: { filename: "cancelled.txt" } };
    const stream = client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: {} });
    const { taskId } = (await stream.next()).value.task;
    await until(() => user.looks > 0);
    await client.experimental.tasks.cancelTask(taskId);
    await until(async () => (await user.statuses()).every((status) => status === "cancelled"));
    await client.close();
  },
});
