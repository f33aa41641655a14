# A server of 2025-11-25 with a list of its own in each process: `add` gives it the tool `added`, with a notification, and `add_silently` without one; `drop` takes
# the tool `drop` away.
base='{"name":"add","inputSchema":{"type":"object"}},{"name":"add_silently","inputSchema":{"type":"object"}},{"name":"keep","inputSchema":{"type":"object"}}'
more= prompt= drop=',{"name":"drop","inputSchema":{"type":"object"}}'
said() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) said '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) said "{\"tools\":[$base$more$drop]}" ;;
    *'"prompts/list"'*) said "{\"prompts\":[$prompt]}" ;;
    *'"prompts/get"'*) said '{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}]}' ;;
    *'"tools/call"'*)
      case "$line" in
        *'"name":"add'*) more=',{"name":"added","inputSchema":{"type":"object"}}'; prompt='{"name":"added"}' ;;
        *'"name":"drop"'*) drop= ;;
      esac
      case "$line" in
        *'"name":"add"'*)
          printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}\n' ;;
      esac
      said '{"content":[{"type":"text","text":"ran"}]}' ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
