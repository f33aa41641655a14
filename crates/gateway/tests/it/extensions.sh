# A server of 2025-11-25 with two extensions: it lists `chart` to clients with that of user interfaces, and answers what its client has declared. Each notification
# `notifications/x/ask` is answered with another one. Its tool `foreign` sends a request that MCP does not have, and answers with the response.
said() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
ui= channel= chart=
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      case "$line" in *modelcontextprotocol/ui*) ui=1 chart=',{"name":"chart","inputSchema":{"type":"object"}}' ;; esac
      case "$line" in *x/channel*) channel=1 ;; esac
      said '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{"a":1},"io.modelcontextprotocol/tasks":{}},"experimental":{"x/channel":{},"dev.longhaul/idempotency":{}}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) said "{\"tools\":[{\"name\":\"echo\",\"inputSchema\":{\"type\":\"object\"}},{\"name\":\"foreign\",\"inputSchema\":{\"type\":\"object\"}}$chart]}" ;;
    *'"tools/call"'*'"foreign"'*) call=$id; echo '{"jsonrpc":"2.0","id":"f","method":"foo/bar"}' ;;
    *'"id":"f"'*) id=$call; code=$(printf '%s' "$line" | sed -n 's/.*"code":\(-[0-9]*\).*/\1/p'); said "{\"content\":[{\"type\":\"text\",\"text\":\"$code\"}]}" ;;
    *'"tools/call"'*) said "{\"content\":[{\"type\":\"text\",\"text\":\"ui:$ui channel:$channel\"}]}" ;;
    *'notifications/x/ask'*) printf '{"jsonrpc":"2.0","method":"notifications/x/news","params":{"of":"%s"}}\n' "$ui" ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
