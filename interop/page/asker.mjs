// An MCP server over stdio whose tool asks for a form with all kinds of fields, and says what was answered.
import { createInterface } from "node:readline";

const requestedSchema = {
  type: "object",
  required: ["target", "percent", "checks", "reason"],
  properties: {
    target: { type: "string", title: "Target", enum: ["staging", "production"], description: "where to" },
    percent: { type: "integer", title: "Percent", minimum: 1, maximum: 100, default: 10 },
    checks: { type: "array", title: "Checks", minItems: 1, maxItems: 2, items: { type: "string", enum: ["unit", "e2e", "load"] } },
    reason: { type: "string", title: "Reason", minLength: 3, maxLength: 40 },
    loud: { type: "boolean", title: "Loud" },
  },
};
const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "asker", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "deploy", description: "asks first", inputSchema: { type: "object" } }] }),
  ping: () => ({}),
};
const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));

/** By the id of the question, that of the call. */
const calls = new Map();
let questions = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, result } = JSON.parse(line);
  if (method === "tools/call") {
    questions += 1;
    calls.set(`q${questions}`, id);
    send({ id: `q${questions}`, method: "elicitation/create", params: { mode: "form", message: "Deploy?", requestedSchema } });
  } else if (method === undefined && calls.has(id)) {
    send({ id: calls.get(id), result: { content: [{ type: "text", text: JSON.stringify(result) }] } });
  } else if (id !== undefined) {
    send(answers[method] ? { id, result: answers[method]() } : { id, error: { code: -32601, message: `unknown method ${method}` } });
  }
}
