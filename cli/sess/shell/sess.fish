# fish 3.6 and later. `sess init fish` sets __sess_snapshots before this.
# No step of a prompt starts a process or opens a socket. What a snapshot says is shown and compared, never run.

# Sets SESS_PROMPT, SESS_COUNT and SESS_WAITING from the snapshot of the current folder; on entering it, lists its
# sessions. fish keeps $status and $pipestatus over an event.
function __sess_prompt --on-event fish_prompt
    set -l IFS \n' '\t # set to nothing it would leave what commands print in one piece
    set -l lines 0
    if test "$PWD" != "$__sess_pwd"
        set -g __sess_pwd $PWD
        set lines 1
        string match -qr '^[0-9]{1,2}\z' -- "$SESS_LINES"; and set lines $SESS_LINES
        # Without symbolic links, as agents record it. $PWD, if inherited in the locale C, is not what it should be.
        set -g __sess_path (path resolve -Z -- . | string split0)
        set -g __sess_file $__sess_snapshots/(string escape --style=url -- $__sess_path |
            string replace -ra '%..|[^A-Za-z0-9]' - | string sub -s -200)
    end
    set -g SESS_PROMPT
    set -g SESS_COUNT 0
    set -g SESS_WAITING 0
    test -f "$__sess_file" -a -r "$__sess_file"; or return
    # Reading is several times as fast as splitting in a command substitution.
    begin
        set -l record
        read -z record
        test "$record" = 'sess 1'; or return
        while read -z record
            test "$record" = "$__sess_path"; or continue
            set -l count
            set -l waiting
            set -l text
            read -z -d \x1f count waiting text
            # No daemon writes controls, what turns or breaks a line, or here what a prompt would expand.
            string match -qr '^[0-9]{1,12}\+?\x1f[0-9]{1,12}\x1f[^\x00-\x1f\x7f-\x9f\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}$`\\\\%!]+\z' -- "$count"\x1f"$waiting"\x1f"$text"
            or return
            set -g SESS_COUNT $count
            set -g SESS_WAITING $waiting
            set -g SESS_PROMPT $text
            test $lines -gt 0; and __sess_show $lines
            break
        end
    end <$__sess_file
end

# Prints the sessions that the next $argv records on stdin are about. A command substitution takes 0.04 ms, whatever it
# runs, so what is calculated is calculated in one a session, and the line is cut as it is printed.
function __sess_show
    set -l IFS \n' '\t
    set -l lead "$SESS_COUNT sessions here · "
    test $SESS_COUNT = 1; and set lead '1 session here · '
    set -l bold
    set -l dim
    set -l normal
    if test -t 1 -a -z "$NO_COLOR" -a "$TERM" != dumb
        set bold \e'[1;33m'
        set dim \e'[2m'
        set normal \e'[0m'
    end
    # fish has no clock: the age of a file and when it was written make one.
    set -l clock (path mtime -- $__sess_file; path mtime --relative -- $__sess_file)
    set -l columns 80
    string match -qr '^[0-9]{2,4}\z' -- "$COLUMNS"; and test $COLUMNS -gt 20; and set columns $COLUMNS
    test $columns -lt 40; and set lead ''
    set -l shown
    set -l id
    while not set -q shown[$argv]; and read -z -d \x1f id app updated moment live branch below title
        string match -q '/*' -- $id; and break
        string match -qr '^[0-9]{1,12}\z' -- "$updated"; or break
        string match -qr '[\x00-\x1f\x7f-\x9f\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]' -- "$live$branch$title"
        and break
        set -a shown $id
        set -l seconds "($clock[1] + $clock[2] - $updated)"
        set -l ages (for unit in 31536000 2592000 86400 3600 60
            math -s 0 "$seconds / $unit"
        end)
        set -l age 'just now'
        for n in 1 2 3 4 5
            test $ages[$n] -gt 0; or continue
            set -l unit y mo d h min
            set age "$ages[$n] $unit[$n] ago"
            break
        end
        test -n "$branch"; and set branch "$branch · "
        set -l waiting
        test "$live" = waiting; and set waiting 'waiting · '
        string shorten --max $columns -- "$dim$lead$normal$bold$waiting$normal$dim$branch$age · $title$normal"
        set lead '  '
    end
end

# Runs the command that resumes what was picked; the line stays when nothing was.
function __sess_pick
    set -l id (command sess pick --print-id)
    commandline -f repaint
    test -n "$id"; or return
    commandline -r "sess resume $id"
    commandline -f execute
end

set -g SESS_PROMPT
set -g SESS_COUNT 0
set -g SESS_WAITING 0
# Loaded again, it has not entered the folder again.
set -q __sess_pwd; or set -g __sess_pwd
if status is-interactive
    set -q SESS_KEY; or set -g SESS_KEY \es
    test -n "$SESS_KEY"; and bind $SESS_KEY __sess_pick
    test -n "$SESS_KEY"; and bind -M insert $SESS_KEY __sess_pick
end
