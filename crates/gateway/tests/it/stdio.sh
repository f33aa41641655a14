# A legacy MCP server over stdio, whose questions do not say which call they belong to.
# Tools: `log` sends a log message before it answers; `ask` asks for a confirmation, and tells the answer; `hang` has no end; `freeze` has none either, and nothing else is answered then; `roots` tells the roots of the client, once they are known; `where` asks for them; `sampled` is
# offered only to clients with sampling. `ask_later` waits until `ask_for_it` asks on its behalf, which is running then and ends when `end` is called. With $QUIET it does not ask for roots when it is connected.
echo $$ >> "$HANGS.pids"
log() { say '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"'"$1"'"}}'; }
declared=; call=; roots=; roots_call=
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
text() { result "$1" '{"content":[{"type":"text","text":'"$2"'}]}'; }
tool() { printf '{"name":"%s","inputSchema":{"type":"object"}}' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      declared=$line
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stdio","version":"1"}}' ;;
    *'"method":"notifications/initialized"'*)
      case $QUIET$declared in yes*) ;; *'"roots":{'*) say '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}' ;; esac ;;
    *'"method":"tools/list"'*)
      tools="$(tool log),$(tool ask),$(tool ask_later),$(tool ask_for_it),$(tool end),$(tool hang),$(tool freeze),$(tool roots),$(tool where)"
      case $declared in *'"sampling":{'*) tools="$tools,$(tool sampled)" ;; esac
      result "$id" '{"tools":['"$tools"']}' ;;
    *'"method":"tools/call"'*'"name":"ask"'* | *'"name":"ask"'*'"method":"tools/call"'*)
      call=$id
      say '{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"message":"Really?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}}}}}' ;;
    *'"method":"tools/call"'*'"name":"ask_later"'* | *'"name":"ask_later"'*'"method":"tools/call"'*)
      call=$id; echo "hangs" >> "$HANGS" ;;
    *'"method":"tools/call"'*'"name":"ask_for_it"'* | *'"name":"ask_for_it"'*'"method":"tools/call"'*)
      other=$id
      say '{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"message":"Really?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}}}}}' ;;
    *'"method":"tools/call"'*'"name":"end"'* | *'"name":"end"'*'"method":"tools/call"'*)
      text "$other" '"ended"'; text "$id" '"end"' ;;
    *'"method":"tools/call"'*'"name":"roots"'* | *'"name":"roots"'*'"method":"tools/call"'*)
      text "$id" "\"$roots\"" ;;
    *'"method":"tools/call"'*'"name":"where"'* | *'"name":"where"'*'"method":"tools/call"'*)
      call=$id
      say '{"jsonrpc":"2.0","id":"where","method":"roots/list"}' ;;
    *'"method":"tools/call"'*'"name":"log"'* | *'"name":"log"'*'"method":"tools/call"'*)
      log during; text "$id" '"logged"' ;;
    *'"method":"tools/call"'*'"name":"sampled"'* | *'"name":"sampled"'*'"method":"tools/call"'*)
      text "$id" '"sampled"' ;;
    *'"method":"tools/call"'*'"name":"freeze"'* | *'"name":"freeze"'*'"method":"tools/call"'*) exec sleep 1000 ;;
    *'"method":"ping"'*) echo ping >> "$HANGS.pings"; result "$id" '{}' ;;
    *'"method":"tools/call"'*) echo "hangs" >> "$HANGS" ;;
    *'"method":"notifications/roots/list_changed"'*) say '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}' ;;
    *'"method":"notifications/'*) ;;
    *'"method":'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
    *'"id":"asked"'*)
      text "$call" "\"$(printf '%s' "$line" | sed -nE 's/.*"action":"([a-z]*)".*/\1/p')\"" ;;
    *'"id":"where"'*)
      text "$call" "\"$(printf '%s' "$line" | sed -nE 's/.*"uri":"([^"]*)".*/\1/p')\"" ;;
    *'"id":"roots"'*)
      roots=$(printf '%s' "$line" | sed -nE 's/.*"uri":"([^"]*)".*/\1/p') ;;
  esac
done
