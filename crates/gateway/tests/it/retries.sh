# A legacy MCP server over stdio that dies in the middle of the first $FAILURES calls. Each call is a line of the file $CALLS. Its tool `ask` asks first, and `odd` answers with no object.
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"dies","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{"tools":[{"name":"repeat","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},{"name":"once","inputSchema":{"type":"object"}},{"name":"odd","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]}' ;;
    *'"method":"tools/call"'*)
      echo called >> "$CALLS"
      case $line in *'"name":"ask"'*)
        call=$id
        say '{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"message":"Really?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}}}}}'
        [ "$(wc -l < "$CALLS")" -le "$FAILURES" ] && exit 1
        continue ;;
      esac
      [ "$(wc -l < "$CALLS")" -le "$FAILURES" ] && exit 1
      case $line in *'"name":"odd"'*) result "$id" '"secret"'; continue ;; esac
      result "$id" '{"content":[{"type":"text","text":"done"}]}' ;;
    *'"method":"notifications/'*) ;;
    *'"id":"asked"'*) result "$call" '{"content":[{"type":"text","text":"done"}]}' ;;
    *'"method":'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
