# A legacy MCP server over stdio whose work outlasts its calls, and itself: what is known of a job is in files of the folder $JOBS.
say() { printf '%s\n' "$1"; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
structured() { result "$1" '{"content":[{"type":"text","text":"see the structured content"}],"structuredContent":'"$2"'}'; }
tool() { printf '{"name":"%s","inputSchema":{"type":"object","properties":{"%s":{}}}}' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -nE 's/.*"id":("[^"]*"|[0-9]+).*/\1/p')
  job=$(printf '%s' "$line" | sed -nE 's/.*"job_id":"([^"]*)".*/\1/p')
  name=$(printf '%s' "$line" | sed -nE 's/.*"name":"([a-z_]*)".*/\1/p')
  case $line in
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"jobs","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result "$id" '{"tools":['"$(tool submit_render frames),$(tool render_status job_id),$(tool cancel_render job_id),$(tool render_result job_id),$(tool other x)"']}' ;;
    *'"method":"tools/call"'*)
      case $name in
        submit_render)
          echo submitted >> "$JOBS/submitted"
          while [ -e "$JOBS/slow" ] && [ ! -e "$JOBS/named" ]; do sleep 0.02; done
          structured "$id" '{"job":{"id":"job-'"$(wc -l < "$JOBS/submitted" | tr -d ' ')"'"}}' ;;
        render_status)
          state=running
          [ -e "$JOBS/$job.done" ] && state=completed
          [ -e "$JOBS/$job.failed" ] && state=failed
          message=
          [ -e "$JOBS/$job.message" ] && message=',"message":"'"$(cat "$JOBS/$job.message")"'"'
          structured "$id" '{"state":"'"$state"'","error":"no ink"'"$message"'}' ;;
        cancel_render)
          [ -e "$JOBS/away" ] && exit 1
          printf '%s' "$line" > "$JOBS/cancelling"
          mv "$JOBS/cancelling" "$JOBS/$job.cancelled"
          structured "$id" '{"ok":true}' ;;
        render_result) structured "$id" '{"video":{"of":"'"$job"'"}}' ;;
      esac ;;
    *'"method":"notifications/'*) ;;
    *'"method":'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
