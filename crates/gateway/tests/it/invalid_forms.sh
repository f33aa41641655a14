# An MCP server over stdio with one tool, `ask`: it asks for the form $FORM, and answers with whether it got an error, and writes that to $SEEN.
result() { printf '%s\n' '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forms","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      call=$id
      printf '%s\n' '{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"message":"Which?","requestedSchema":'"$FORM"'}}' ;;
    *'"id":"asked"'*)
      printf '%s' "$line" > "$SEEN"
      result "$call" '{"content":[{"type":"text","text":"went on"}]}' ;;
    *'"method":"notifications/'*) ;;
    *) printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
