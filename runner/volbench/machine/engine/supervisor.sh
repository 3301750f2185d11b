#!/bin/sh
# Starts, stops and kills one server on behalf of an agent that may run in another container, and may die.
#
#   sh supervisor.sh CONTROL_DIR
#
# CONTROL_DIR/command  a FIFO, one word a line: start, stop (SIGTERM), kill (SIGKILL), quit (stop, then exit)
# CONTROL_DIR/argv     the server's argument list, one argument a line, read at `start`
# CONTROL_DIR/state    one line, replaced atomically: `SEQ running PID` or `SEQ stopped [EXITCODE]`;
#                      SEQ counts the commands taken, EXITCODE is 128 + N after signal N, absent before a first start
# CONTROL_DIR/mysqld.log  the server's stdout and stderr, appended
#
# The loop blocks in `read`. The server is waited for by a subshell, which reports `started PID` and `exited CODE`
# through the same FIFO: so an exit is seen at once, and only this loop writes the state.

control=${1:?usage: supervisor.sh CONTROL_DIR}
cd "$control" || exit 3
umask 077
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/libexec
export PATH

# A server wants many files; an absurdly high limit makes some versions allocate memory for each.
ulimit -S -n 65536 2>/dev/null || ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :

seq=0
pid=''        # of the server, empty when none is known
waiter=''     # the subshell that waits for it, empty when none runs
code=''       # of the last server
pending=''    # a signal that came before the server's pid was known
leaving=''    # set by quit
failures=0    # of `read`, one after the other

put_state() {
    if [ -n "$pid" ]; then
        printf '%s running %s\n' "$seq" "$pid" >.state.new
    else
        printf '%s stopped%s\n' "$seq" "${code:+ $code}" >.state.new
    fi
    mv -f .state.new state
}

take_command() {
    seq=$((seq + 1))
    put_state
}

# Runs in a subshell of its own. A signal to the whole group interrupts `wait`, so it is repeated until the
# server is gone. The trap comes after the fork: a server inherits what is ignored, and a signal that came
# between its fork and its exec would be lost in a handler.
run_server() {
    "$@" 3<&- >>mysqld.log 2>&1 </dev/null &
    child=$!
    trap : TERM INT HUP
    printf 'started %s\n' "$child" >&3
    while :; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break
    done
    printf 'exited %s\n' "$status" >&3
}

start_server() {
    if [ -n "$waiter" ]; then
        take_command
        return
    fi
    set --
    while IFS= read -r argument || [ -n "$argument" ]; do
        set -- "$@" "$argument"
    done <argv
    if [ $# -eq 0 ]; then
        printf 'supervisor: no arguments in %s/argv\n' "$control" >>mysqld.log
        code=127
        take_command
        return
    fi
    (run_server "$@") 3>command 2>>mysqld.log & # for writing only: without its reader the FIFO shows that the loop is gone
    waiter=$!
}

signal_server() {
    if [ -n "$pid" ]; then
        kill -s "$1" "$pid" 2>/dev/null
    elif [ -n "$waiter" ]; then
        pending=$1
    fi
}

finish() {
    rm -f command
    exit 0
}

rm -f command state .state.new
mkfifo command || {
    printf 'supervisor: user %s may not write to %s; with compose, run "prepare" first\n' "$(id -u)" "$control" >&2
    exit 3
}
exec 3<>command # open for both, so that `read` never meets the end of the file
trap 'printf "quit\n" >&3' TERM INT HUP
put_state

while [ "$failures" -lt 100 ]; do # so that a broken FIFO can not make it spin
    if ! IFS=' ' read -r word value <&3; then
        failures=$((failures + 1)) # interrupted by a signal, whose trap has written `quit`
        continue
    fi
    failures=0
    case $word in
    start) start_server ;;
    started) # the answer to `start`
        pid=$value
        take_command
        if [ -n "$pending" ]; then
            kill -s "$pending" "$pid" 2>/dev/null
            pending=''
        fi
        ;;
    exited)
        wait "$waiter"
        pid='' waiter='' code=$value pending=''
        put_state
        [ -z "$leaving" ] || finish
        ;;
    stop | kill | quit)
        if [ "$word" = kill ]; then signal_server KILL; else signal_server TERM; fi
        [ "$word" != quit ] || leaving=1
        take_command
        [ -z "$leaving" ] || [ -n "$waiter" ] || finish
        ;;
    *) ;; # an empty or foreign word changes nothing
    esac
done
