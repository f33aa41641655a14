# An upstream of the generation in ERA that answers with the params of each request, as they are written. `ask` asks first.
question='{"method":"elicitation/create","params":{"mode":"form","message":"Which?","com.acme/n":[12345678901234567890123,1.10,1e400,-0],"requestedSchema":{"type":"object","properties":{"x":{"type":"number","default":1.10,"maximum":12345678901234567890124}}}}}'
[ "$ERA" = modern ] && complete='"resultType":"complete",'
said() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
listed() { said "{$complete\"ttlMs\":0,\"cacheScope\":\"public\",$1}"; }
declared='"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{},"experimental":{"com.acme/k":{"n":[1.10,1e400]}}}'
while read -r line; do
  rest=${line#*'"id":'}; id=${rest%%,*}
  rest=${line#*'"method":"'}; method=${rest%%'"'*}
  params=${line#*'"params":'}; params=${params%?}
  case "$ERA $method" in
    "modern server/discover") said "{$complete\"supportedVersions\":[\"2026-07-28\"],$declared,\"serverInfo\":{\"name\":\"s\",\"version\":\"1\",\"n\":1e400},\"ttlMs\":0,\"cacheScope\":\"public\"}" ;;
    "legacy initialize")
      hello=",\"hello\":$params"
      said "{\"protocolVersion\":\"2025-11-25\",$declared,\"serverInfo\":{\"name\":\"s\",\"version\":\"1\",\"n\":1e400}}" ;;
    *" tools/list") listed '"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}}]' ;;
    *" prompts/list") listed '"prompts":[{"name":"p"}]' ;;
    *" resources/list") listed '"resources":[{"uri":"note://1","name":"n"}]' ;;
    *" resources/templates/list") listed '"resourceTemplates":[]' ;;
    *" prompts/get") said "{$complete\"messages\":[],\"com.acme/params\":$params}" ;;
    *" resources/read") listed "\"contents\":[],\"com.acme/params\":$params" ;;
    *" completion/complete") said "{$complete\"completion\":{\"values\":[]},\"com.acme/params\":$params}" ;;
    *" tools/call")
      case "$ERA $params" in
        legacy*'"name":"ask"'*)
          printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890123,${question#?}"
          read -r reply
          params=$reply ;;
        modern*'"inputResponses"'*) ;;
        modern*'"name":"ask"'*)
          said "{\"resultType\":\"input_required\",\"requestState\":\"s\",\"inputRequests\":{\"a\":$question}}"
          continue ;;
      esac
      said "{$complete\"content\":[],\"structuredContent\":{\"params\":$params$hello}}" ;;
    *) [ "$id" != "$line" ] && [ -n "$method" ] && case "$line" in *'"id":'*) printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;; esac ;;
  esac
done
