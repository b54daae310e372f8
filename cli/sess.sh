#!/bin/sh
# Starts `sess` with as little of Python as it needs: a usual entry point imports `site` and what that
# loads before the first line of the client runs, which takes longer than the rest.
# Every step is a builtin, and Python replaces this shell. (Variables have a prefix, as one of the same
# name that was exported would reach Python changed.)

sess_self=$0
while [ -h "$sess_self" ]; do # as pipx and uv install it
  sess_link=$(readlink "$sess_self")
  case $sess_link in
  /*) sess_self=$sess_link ;;
  *) sess_self=${sess_self%/*}/$sess_link ;;
  esac
done
case $sess_self in
*/*) sess_bin=${sess_self%/*} ;;
*) sess_bin=. ;;
esac

# The installer wrote into `sessiond`, beside us, which Python it belongs to: `#!/path/python`, or where that
# line would be too long or hold a space, `#!/bin/sh` and then `'''exec' "/path/python" "$0" "$@"`. How the
# path is quoted there, and whether it is relative to $0, differs between pip and uv: so the shell reads it.
sess_python=
if [ -r "$sess_bin/sessiond" ]; then
  {
    IFS= read -r sess_first
    IFS= read -r sess_second
  } <"$sess_bin/sessiond"
  # shellcheck disable=SC2016 # as it stands there
  sess_arguments=' "$0" "$@"'
  case $sess_first in
  '#!/bin/sh')
    case $sess_second in
    "'''exec' "*"$sess_arguments")
      sess_second=${sess_second#"'''exec' "}
      eval "sess_python=${sess_second%"$sess_arguments"}"
      ;;
    esac
    ;;
  '#!'*)
    sess_python=${sess_first#'#!'}
    sess_python=${sess_python#' '}
    sess_python=${sess_python%%' '*} # Fedora adds options
    ;;
  esac
fi
case ${sess_python##*/} in
python* | pypy*) ;;
*) sess_python=python3 ;; # it is `env`, or a wrapper of the distribution's
esac

sess_main=
for sess_file in "$sess_bin"/../lib/python*/site-packages/sess/__main__.py \
  "$sess_bin"/../lib/python*/dist-packages/sess/__main__.py; do
  [ -f "$sess_file" ] || continue
  if [ -n "$sess_main" ]; then # two Pythons share this prefix: let Python find its own
    sess_main=
    break
  fi
  sess_main=$sess_file
done

# In the locale C, Python sets LC_CTYPE for itself and all it starts. What it was, an agent has to get.
sess_ctype=sess_ctype${LC_CTYPE+=$LC_CTYPE}

[ -z "$sess_main" ] || exec "$sess_python" -X "$sess_ctype" -I -S "$sess_main" "$@"
exec "$sess_python" -X "$sess_ctype" -E -P -m sess "$@" # an editable install: `site` knows where it is
