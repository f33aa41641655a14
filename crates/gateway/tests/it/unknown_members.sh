# An MCP server over stdio whose lists and notifications have members that nobody knows. With $MODERN it speaks 2026-07-28.
more=${MODERN:+'"resultType":"complete","ttlMs":0,"cacheScope":"private",'}
own='"com.acme/n":1.50E2,"_meta":{"com.acme/k":[1.0,-0.0],"dev.longhaul/x":1}'
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":{'"$more$2"'}}'; }
notify() { say '{"jsonrpc":"2.0","method":"notifications/'"$1"'","params":{'"$2"'}}'; }
capabilities='{"tools":{},"logging":{},"prompts":{},"resources":{"subscribe":true}}'
server='"capabilities":'"$capabilities"',"serverInfo":{"name":"own","version":"1"}'
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  token=$(printf '%s' "$line" | sed -nE 's/.*"progressToken":("[^"]*"|[0-9]+).*/\1/p')
  case $line in
    *'"method":"server/discover"'*)
      case $MODERN in
        ?*) result "$id" '"supportedVersions":["2026-07-28"],'"$server" ;;
        *) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
      esac ;;
    *'"method":"initialize"'*) result "$id" '"protocolVersion":"2025-11-25",'"$server" ;;
    *'"method":"tools/list"'*)
      result "$id" '"tools":[{"name":"report","inputSchema":{"type":"object"}}],'"$own" ;;
    *'"method":"prompts/list"'*) result "$id" '"prompts":[{"name":"p"}],'"$own" ;;
    *'"method":"resources/list"'*) result "$id" '"resources":[{"uri":"own://1","name":"one"}],'"$own" ;;
    *'"method":"resources/templates/list"'*) result "$id" '"resourceTemplates":[{"uriTemplate":"own://{n}","name":"all"}],'"$own" ;;
    *'"method":"subscriptions/listen"'*)
      subscription='"_meta":{"io.modelcontextprotocol/subscriptionId":'"$id"
      say '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{'"$subscription"'},"notifications":{"resourceSubscriptions":["own://1"]}}}'
      notify resources/updated '"uri":"own://1","com.acme/n":1E2,'"$subscription"',"com.acme/k":1.0}' ;;
    *'"method":"resources/subscribe"'*)
      result "$id" '"ok":true'
      notify resources/updated '"uri":"own://1","com.acme/n":1E2,"_meta":{"com.acme/k":1.0}' ;;
    *'"method":"tools/call"'*)
      notify progress '"progressToken":'"$token"',"progress":1E0,"com.acme/eta":[3E0],"_meta":{"com.acme/k":1.0}'
      notify message '"level":"warning","data":{"a":1e400},"com.acme/line":2.0,"_meta":{"com.acme/k":1.0}'
      result "$id" '"content":[]' ;;
    *'"method":"notifications/'*) ;;
    *'"method":"logging/setLevel"'* | *'"method":"resources/unsubscribe"'*) result "$id" '"ok":true' ;;
    *'"method":'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
