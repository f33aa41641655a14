# An MCP server over stdio with one tool, `numbers`: it writes the call to $CALL as it came, and answers with numbers that few libraries keep.
result() { printf '%s\n' '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"numbers","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{"tools":[{"name":"numbers","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      printf '%s' "$line" > "$CALL"
      result "$id" '{"content":[],"structuredContent":{"a":1e400,"b":1.0,"c":-0.0,"d":12345678901234567890123,"e":1E+2}}' ;;
    *'"method":"notifications/'*) ;;
    *) printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
