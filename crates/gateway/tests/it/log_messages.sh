# A legacy MCP server over stdio. Its tool `later` answers at once, and sends two log messages with its argument `word` when the file $NOTES/WORD exists; `last` sends one
# together with its answer, behind it, and `first` before it. The levels that it is asked for are in $NOTES/levels. With $MODERN it speaks 2026-07-28.
more=${MODERN:+'"resultType":"complete","ttlMs":0,"cacheScope":"private",'}
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
log() { say '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"'"$1"'","logger":"child","data":"'"$2"'"}}'; }
later() {
  until [ -e "$NOTES/$1" ]; do sleep 0.02; done
  log debug "a detail for $1"
  log info "the news for $1"
}
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"server/discover"'*)
      case $MODERN in
        ?*) result "$id" '{'"$more"'"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"logs","version":"1"}}' ;;
        *) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
      esac ;;
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"logs","version":"1"}}' ;;
    *'"method":"logging/setLevel"'*)
      printf '%s\n' "$line" | sed -nE 's/.*"level":"([a-z]*)".*/\1/p' >> "$NOTES/levels"
      result "$id" '{}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{'"$more"'"tools":[{"name":"later","inputSchema":{"type":"object"}},{"name":"last","inputSchema":{"type":"object"}},{"name":"first","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*'"name":"last"'* | *'"name":"last"'*'"method":"tools/call"'*)
      said="$(result "$id" '{"content":[]}'; log warning 'the last word')"
      say "$said" ;;
    *'"method":"tools/call"'*'"name":"first"'* | *'"name":"first"'*'"method":"tools/call"'*)
      said="$(log warning 'the first word'; result "$id" '{'"$more"'"content":[]}')"
      say "$said" ;;
    *'"method":"tools/call"'*)
      later "$(printf '%s' "$line" | sed -nE 's/.*"word":"([a-z]*)".*/\1/p')" &
      result "$id" '{"content":[]}' ;;
    *'"method":"notifications/'*) ;;
    *) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
