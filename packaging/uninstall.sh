#!/bin/sh
# Removes what install.sh has installed, from wherever this file is. Tasks, keys and configurations stay.
set -eu

prefix=$(cd "$(dirname "$0")/../.." && pwd)
while IFS= read -r file; do
    rm -f "${prefix:?}/$file"
    # Folders that are empty now. Others' files keep theirs.
    (cd "$prefix" && rmdir -p "$(dirname "$file")" 2>/dev/null) || true
done <"$prefix/share/longhaul/files"

printf '%s\n' "Longhaul is removed from $prefix."
data=${XDG_STATE_HOME:-${HOME:-}/.local/state}/longhaul
if [ -d "$data" ]; then
    printf '%s\n' "The tasks of your servers are left in $data. If nobody needs them: rm -r '$data'"
fi
printf '%s\n' 'Servers that still run go on until they are stopped. Data elsewhere (data_dir, --data-dir) is left as well.'
