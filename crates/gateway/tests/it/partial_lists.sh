# A legacy MCP server over stdio with the tool `echo`, whose list $FAILS fails as $HOW says. While the file $MENDED is there, it does not fail.
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  method=$(printf '%s' "$line" | sed -nE 's/.*"method":"([^"]*)".*/\1/p')
  if [ "$method" = "$FAILS" ] && [ ! -e "$MENDED" ]; then
    case $HOW in
      error) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"connect ECONNREFUSED"}}' ;;
      null) result "$id" null ;;
      empty) result "$id" '{}' ;;
      wrong) result "$id" '{"tools":{},"resources":1,"prompts":null,"resourceTemplates":""}' ;;
      exit) exit 1 ;;
      second) case $line in
        *'"cursor"'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"no second page"}}' ;;
        *) result "$id" '{"resources":[5,null,{"uri":"a:1","name":"a"}],"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"nextCursor":"2"}' ;;
      esac ;;
      nothing) ;;
    esac
    continue
  fi
  case $method in
    initialize) result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"stdio","version":"1"}}' ;;
    tools/list) result "$id" '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    resources/list) result "$id" '{"resources":[{"uri":"a:1","name":"a"}]}' ;;
    resources/templates/list) result "$id" '{"resourceTemplates":[]}' ;;
    prompts/list) result "$id" '{"prompts":[{"name":"p"}]}' ;;
    tools/call) result "$id" '{"content":[{"type":"text","text":"called"}]}' ;;
    ping) result "$id" '{}' ;;
    notifications/*) ;;
    *) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
