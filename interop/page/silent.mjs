// An MCP server over stdio that lists a tool, and answers nothing any more when it is called.
import { createInterface } from "node:readline";

const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "silent", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "look_up", description: "hangs", inputSchema: { type: "object" } }] }),
  ping: () => ({}),
};

let hangs = false;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  hangs ||= method === "tools/call";
  if (id === undefined || hangs) continue;
  const answer = answers[method]
    ? { result: answers[method]() }
    : { error: { code: -32601, message: `unknown method ${method}` } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
}
