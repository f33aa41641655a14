// Protocol version 2026-07-28 with the TypeScript SDK: discover, list, call, answer `input_required` results, listen.

import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { filledIn, refused, run, server, text } from "./steps.mjs";

const INVALID_PARAMS = -32602;

const where = server();
const transport = () => (where.url ? new StreamableHTTPClientTransport(where.url) : new StdioClientTransport(where));

const asked = [];
const changed = [];
const client = new Client(
  { name: "interop", version: "1.0.0" },
  {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode: "auto" },
    listChanged: { tools: { onChanged: (error, tools) => changed.push(error ?? tools.length) } },
  },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push(params.message);
  return filledIn(params.requestedSchema);
});
client.setRequestHandler("sampling/createMessage", async () => ({
  role: "assistant",
  model: "a-model",
  content: { type: "text", text: "Paris" },
}));
client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] }));

async function call(name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, text(result));
  return text(result);
}

await run("@modelcontextprotocol/client", {
  async "the newer era is found by itself"() {
    await client.connect(transport());
    assert.equal(client.getProtocolEra(), "modern");
    assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
    const extensions = { "io.modelcontextprotocol/tasks": {}, "dev.longhaul/idempotency": { cancel: true, retentionMs: 86_400_000 }, "dev.longhaul/deletion": {} };
    assert.deepEqual(client.getServerCapabilities().extensions, extensions);
  },

  async "list tools"() {
    const names = (await client.listTools()).tools.map(({ name }) => name);
    for (const name of ["greet", "slow_compute", "test_simple_text"]) assert.ok(names.includes(name), name);
  },

  async "call"() {
    assert.equal(await call("greet", { name: "Ada" }), "Hello, Ada!");
  },

  async "a header repeats an argument"() {
    assert.equal(await call("test_mirrored_argument", { region: "Zürich" }), "Looking in Zürich.");
  },

  async "a slow tool is waited for"() {
    assert.ok(await call("slow_compute", { seconds: 1, label: "plain" }));
  },

  async "progress"() {
    const seen = [];
    const onprogress = ({ progress, total }) => seen.push([progress, total]);
    await client.callTool({ name: "test_tool_with_progress", arguments: {} }, { onprogress });
    assert.deepEqual(seen, [[0, 100], [50, 100], [100, 100]]);
  },

  async "an unknown tool is an error"() {
    assert.equal((await refused(client.callTool({ name: "nothing", arguments: {} }))).code, INVALID_PARAMS);
  },

  async "answer a question in a round"() {
    assert.equal(await call("test_input_required_result_elicitation"), "Hello, Ada!");
    assert.equal(asked.at(-1), "What is your name?");
  },

  async "answer three kinds of questions in a round"() {
    assert.ok(await call("test_input_required_result_multiple_inputs"));
  },

  async "answer in several rounds"() {
    const before = asked.length;
    assert.ok(await call("test_input_required_result_multi_round"));
    assert.equal(asked.length - before, 2);
  },

  async "answer a question of a prompt"() {
    const before = asked.length;
    const prompt = await client.getPrompt({ name: "test_input_required_result_prompt" });
    assert.ok(prompt.messages.length > 0);
    assert.equal(asked.length - before, 1);
  },

  async "read a resource and one of a template"() {
    const fixed = await client.readResource({ uri: "test://static-text" });
    assert.equal(fixed.contents[0].text, "This is the content of the static text resource.");
    const templated = await client.readResource({ uri: "test://template/123/data" });
    assert.equal(JSON.parse(templated.contents[0].text).id, "123");
  },

  async "a missing resource is an error"() {
    assert.equal((await refused(client.readResource({ uri: "test://nothing" }))).code, INVALID_PARAMS);
  },

  async "get a prompt and complete its argument"() {
    const prompt = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "one", arg2: "two" } });
    assert.match(prompt.messages[0].content.text, /arg1='one'/);
    const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
    const { completion } = await client.complete({ ref, argument: { name: "arg1", value: "" } });
    assert.ok(Array.isArray(completion.values));
  },

  async "hear that the tools changed"() {
    await call("test_trigger_tool_change");
    while (changed.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(changed.every(Number.isInteger), String(changed));
  },
});
