# An MCP server over stdio that speaks 2025-11-25 and 2026-07-28, with one tool, `revision`, which tells the revision that is spoken. $EXTENSIONS is what it
# declares as `extensions` in 2026-07-28.
revision=2026-07-28 more='"resultType":"complete","ttlMs":0,"cacheScope":"private",'
result() { printf '%s\n' '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      revision=2025-11-25 more=
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"both","version":"1"}}' ;;
    *'"method":"server/discover"'*)
      result "$id" '{'"$more"'"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{},"extensions":'"$EXTENSIONS"'},"serverInfo":{"name":"both","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{'"$more"'"tools":[{"name":"revision","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      result "$id" '{'"$more"'"content":[{"type":"text","text":"'"$revision"'"}]}' ;;
    *'"method":"notifications/'*) ;;
    *) printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
