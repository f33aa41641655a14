// The TypeScript SDK as a server of 2025-11-25, with the tools, resources and prompts of the conformance suite. Prints its URL.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const text = (words) => ({ type: "text", text: words });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const embedded = (uri, mimeType, words) => ({ type: "resource", resource: { uri, mimeType, text: words } });
const user = (content) => ({ role: "user", content });
const object = (properties, required = []) => ({ type: "object", properties, required });
const string = { type: "string" };
const titled = (count) => Array.from({ length: count }, (_, n) => ({ const: `value${n + 1}`, title: `Value ${n + 1}` }));
const names = (prefix) => [1, 2, 3].map((n) => `${prefix}${n}`);

async function ask(extra, message, requestedSchema) {
  const params = { mode: "form", message, requestedSchema };
  const answer = await extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema);
  return text(`Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`);
}

const DEFAULTS = object({
  name: { ...string, default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { ...string, enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
});

const ENUMS = object({
  untitledSingle: { ...string, enum: names("option") },
  titledSingle: { ...string, oneOf: titled(3) },
  legacyEnum: { ...string, enum: names("opt"), enumNames: names("Option ") },
  untitledMulti: { type: "array", items: { ...string, enum: names("option") } },
  titledMulti: { type: "array", items: { anyOf: titled(3) } },
});

/** Each with the schema of its arguments, and what it does. */
const TOOLS = {
  test_simple_text: [object({}), () => [text("This is a simple text response for testing.")]],
  test_image_content: [object({}), () => [image]],
  test_audio_content: [object({}), () => [{ type: "audio", data: WAV, mimeType: "audio/wav" }]],
  test_embedded_resource: [object({}), () => [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]],
  test_multiple_content_types: [
    object({}),
    () => [
      text("Multiple content types test:"),
      image,
      embedded("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
    ],
  ],
  test_error_handling: [
    object({}),
    () => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  ],
  test_tool_with_logging: [
    object({}),
    async (_, extra) => {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
      }
      return [text("Done.")];
    },
  ],
  test_tool_with_progress: [
    object({}),
    async (_, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      return [text("Done.")];
    },
  ],
  test_sampling: [
    object({ prompt: string }, ["prompt"]),
    async ({ prompt }, extra) => {
      const params = { messages: [user(text(prompt))], maxTokens: 100 };
      const answer = await extra.sendRequest({ method: "sampling/createMessage", params }, CreateMessageResultSchema);
      return [text(`LLM response: ${answer.content.text}`)];
    },
  ],
  test_elicitation: [
    object({ message: string }, ["message"]),
    async ({ message }, extra) => {
      const schema = object({ username: string, email: string }, ["username", "email"]);
      return [text(`User response: ${(await ask(extra, message, schema)).text}`)];
    },
  ],
  test_elicitation_sep1034_defaults: [object({}), async (_, extra) => [await ask(extra, "Please review", DEFAULTS)]],
  test_elicitation_sep1330_enums: [object({}), async (_, extra) => [await ask(extra, "Please choose", ENUMS)]],
};

const RESOURCES = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};

const PROMPTS = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [
    ["arg1", "arg2"],
    ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  test_prompt_with_embedded_resource: [
    ["resourceUri"],
    ({ resourceUri }) => [
      user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
      user(text("Please process the embedded resource above.")),
    ],
  ],
  test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
};

function read(uri) {
  const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
  if (id) {
    return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  }
  if (!RESOURCES[uri]) throw new McpError(-32002, "Resource not found", { uri });
  return { uri, ...RESOURCES[uri] };
}

function unknown(what, name) {
  return new McpError(ErrorCode.InvalidParams, `Unknown ${what}: ${name}`);
}

/** A server for one session. */
function server() {
  const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {}, logging: {} };
  const made = new Server({ name: "typescript-conformance", version: "1.0.0" }, { capabilities });
  made.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(TOOLS).map(([name, [inputSchema]]) => ({ name, description: `The tool ${name}`, inputSchema })),
  }));
  made.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = TOOLS[params.name];
    if (!tool) throw unknown("tool", params.name);
    try {
      return { content: await tool[1](params.arguments ?? {}, extra) };
    } catch (error) {
      return { content: [text(error.message)], isError: true };
    }
  });
  made.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: Object.entries(RESOURCES).map(([uri, { mimeType }]) => ({ uri, name: uri, description: `The resource ${uri}`, mimeType })),
  }));
  made.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "A template", mimeType: "application/json" }],
  }));
  made.setRequestHandler(ReadResourceRequestSchema, ({ params }) => ({ contents: [read(params.uri)] }));
  made.setRequestHandler(SubscribeRequestSchema, () => ({}));
  made.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
  made.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: Object.entries(PROMPTS).map(([name, [given]]) => ({
      name,
      description: `The prompt ${name}`,
      arguments: given.map((argument) => ({ name: argument, description: argument, required: true })),
    })),
  }));
  made.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const prompt = PROMPTS[params.name];
    if (!prompt) throw unknown("prompt", params.name);
    return { messages: prompt[1](params.arguments ?? {}) };
  });
  made.setRequestHandler(CompleteRequestSchema, () => ({ completion: { values: ["paris", "park", "party"], total: 3, hasMore: false } }));
  return made;
}

const sessions = new Map();

const http = createServer(async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response);
  if (request.headers["mcp-session-id"]) return response.writeHead(404).end();
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
    enableDnsRebindingProtection: true,
    allowedHosts: [`127.0.0.1:${http.address().port}`, `localhost:${http.address().port}`],
  });
  await server().connect(transport);
  return transport.handleRequest(request, response);
});

http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
