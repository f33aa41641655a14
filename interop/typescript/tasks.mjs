// The Tasks of 2025-11-25 with the TypeScript SDK: call, poll, answer, cancel.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { filledIn, refused, run, server, text } from "./steps.mjs";

const RELATED_TASK = "io.modelcontextprotocol/related-task";
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;

const where = server();

async function connect() {
  const asked = [];
  const client = new Client({ name: "interop", version: "1.0.0" }, { capabilities: { elicitation: { form: {} }, sampling: {} } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params);
    return filledIn(params.requestedSchema);
  });
  client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
    asked.push(params);
    return { role: "assistant", model: "a-model", content: { type: "text", text: "Paris" } };
  });
  await client.connect(where.url ? new StreamableHTTPClientTransport(where.url) : new StdioClientTransport(where));
  return { client, tasks: client.experimental.tasks, asked };
}

const { client, tasks, asked } = await connect();

/** Creates a task and returns its id; the caller polls and fetches the result. */
async function create(name, args) {
  const stream = tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: {} });
  const { value: first } = await stream.next();
  assert.equal(first.type, "taskCreated", JSON.stringify(first));
  assert.equal(first.task.status, "working");
  return first.task.taskId;
}

/** All messages of a call up to its result or error. */
async function follow(name, args) {
  const seen = [];
  for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 60_000 } })) {
    seen.push(message);
  }
  return { created: seen[0].task, last: seen.at(-1) };
}

async function becomes(taskId, status) {
  for (;;) {
    const task = await tasks.getTask(taskId);
    if (task.status === status) return task;
    assert.ok(["working", "input_required"].includes(task.status), `${task.status}, not ${status}`);
    await new Promise((resolve) => setTimeout(resolve, task.pollInterval));
  }
}

function assertAskedFor(taskId, questions) {
  assert.ok(questions.length > 0, "nothing was asked");
  for (const { _meta } of questions) assert.deepEqual(_meta[RELATED_TASK], { taskId });
}

await run("@modelcontextprotocol/sdk", {
  async "the server offers tasks"() {
    const offered = client.getServerCapabilities().tasks;
    assert.deepEqual(offered, { list: {}, cancel: {}, requests: { tools: { call: {} } } });
  },

  async "list tools"() {
    const { tools } = await client.listTools();
    const support = Object.fromEntries(tools.map((tool) => [tool.name, tool.execution?.taskSupport ?? "forbidden"]));
    assert.equal(support.greet, "forbidden");
    assert.equal(support.slow_compute, "optional");
    assert.equal(support.failing_job, "required");
  },

  async "call without a task"() {
    assert.equal(text(await client.callTool({ name: "greet", arguments: { name: "Ada" } })), "Hello, Ada!");
  },

  async "a tool that is always a task refuses a plain call"() {
    const plain = client.request({ method: "tools/call", params: { name: "failing_job", arguments: {} } }, CallToolResultSchema);
    assert.equal((await refused(plain)).code, METHOD_NOT_FOUND);
  },

  async "follow to the result"() {
    const { created, last } = await follow("slow_compute", { seconds: 1, label: "follow" });
    assert.equal(last.type, "result", String(last.error));
    assert.ok(text(last.result));
    const again = await tasks.getTaskResult(created.taskId, CallToolResultSchema);
    assert.deepEqual(again._meta[RELATED_TASK], { taskId: created.taskId });
  },

  async "a tool that says no fails the task"() {
    const { created, last } = await follow("failing_job", {});
    assert.equal(last.type, "error");
    assert.equal((await tasks.getTask(created.taskId)).status, "failed");
    const result = await tasks.getTaskResult(created.taskId, CallToolResultSchema);
    assert.equal(result.isError, true);
    assert.ok(text(result));
  },

  async "an error of the call is the result"() {
    const taskId = await create("protocol_error_job", {});
    await becomes(taskId, "failed");
    assert.ok(Number.isInteger((await refused(tasks.getTaskResult(taskId, CallToolResultSchema))).code));
  },

  async "answer while polling"() {
    const before = asked.length;
    const taskId = await create("confirm_delete", { filename: "poll.txt" });
    await becomes(taskId, "completed");
    assert.equal(text(await tasks.getTaskResult(taskId, CallToolResultSchema)), "Deleted poll.txt.");
    assertAskedFor(taskId, asked.slice(before));
  },

  async "answer on the stream of the result"() {
    const before = asked.length;
    const { created, last } = await follow("confirm_delete", { filename: "follow.txt" });
    assert.equal(last.type, "result", String(last.error));
    assert.equal(text(last.result), "Deleted follow.txt.");
    assertAskedFor(created.taskId, asked.slice(before));
  },

  async "answer two questions"() {
    const before = asked.length;
    const { last } = await follow("multi_input", {});
    assert.equal(last.type, "result", String(last.error));
    assert.equal(text(last.result), "File: true, backup: true.");
    assert.equal(new Set(asked.slice(before).map(({ message }) => message)).size, 2);
  },

  async "answer within a plain call"() {
    const before = asked.length;
    const result = await client.callTool({ name: "test_elicitation", arguments: { message: "Who is there?" } });
    assert.match(text(result), /accept/);
    assert.deepEqual(asked.slice(before).map(({ message }) => message), ["Who is there?"]);
  },

  async "sample within a plain call"() {
    const result = await client.callTool({ name: "test_sampling", arguments: { prompt: "What is the capital of France?" } });
    assert.match(text(result), /Paris/);
  },

  async "progress of a plain call"() {
    const seen = [];
    const onprogress = ({ progress, total }) => seen.push([progress, total]);
    await client.callTool({ name: "test_tool_with_progress", arguments: {} }, CallToolResultSchema, { onprogress });
    assert.deepEqual(seen, [[0, 100], [50, 100], [100, 100]]);
  },

  async "cancel"() {
    const taskId = await create("slow_compute", { seconds: 60, label: "cancel" });
    assert.equal((await tasks.cancelTask(taskId)).status, "cancelled");
    assert.equal((await tasks.getTask(taskId)).status, "cancelled");
    assert.equal((await refused(tasks.cancelTask(taskId))).code, INVALID_PARAMS);
  },

  async "list what this session created"() {
    const created = [await create("protocol_error_job", {}), await create("protocol_error_job", {})];
    const listed = [];
    let cursor;
    do {
      const page = await tasks.listTasks(cursor);
      listed.push(...page.tasks.map(({ taskId }) => taskId));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    for (const taskId of created) assert.ok(listed.includes(taskId), taskId);
  },

  async "an unknown task is an error"() {
    for (const method of ["getTask", "getTaskResult", "cancelTask"]) {
      assert.equal((await refused(tasks[method]("nothing"))).code, INVALID_PARAMS, method);
    }
  },

  // On standard input and output the server is a process of the session, and this one has a data directory of its own.
  ...(where.url && {
    async "a task outlives its session"() {
      const first = await connect();
      const call = { name: "slow_compute", arguments: { seconds: 1, label: "outlive" } };
      const stream = first.tasks.callToolStream(call, CallToolResultSchema, { task: {} });
      const { taskId } = (await stream.next()).value.task;
      await first.client.close();
      await becomes(taskId, "completed");
    },
  }),
});
