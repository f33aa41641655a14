// What ext-tasks leaves to its host with 2026-07-28: sending a request and reading its response.

/** Sends requests to a server, one POST each. */
export function dispatchTo(url, protocolVersion) {
  let id = 0;
  return async ({ method, params }, { signal } = {}) => {
    const response = await fetch(url, {
      method: "POST",
      signal,
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": protocolVersion,
        "Mcp-Method": method,
        "Mcp-Name": params.taskId ?? params.name,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }),
    });
    const { result, error } = await answer(response, id);
    return error ? { kind: "error", error } : { kind: "result", result };
  };
}

/** The response is the body, or the last message of a stream. */
async function answer(response, id) {
  const body = await response.text();
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return JSON.parse(body);
  const messages = body.split("\n").filter((line) => line.startsWith("data: {"));
  return messages.map((line) => JSON.parse(line.slice(6))).find((message) => message.id === id);
}
