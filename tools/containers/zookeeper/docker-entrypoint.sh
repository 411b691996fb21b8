#!/bin/bash
# Writes /conf/zoo.cfg from the variables that the official image knows, as far as compose.yaml uses them.
set -eu
{
    echo "dataDir=/data"
    echo "dataLogDir=/datalog"
    echo "tickTime=${ZOO_TICK_TIME:-2000}"
    echo "initLimit=${ZOO_INIT_LIMIT:-5}"
    echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
    echo "autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}"
    echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
    echo "admin.enableServer=false"
    echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
    for server in ${ZOO_SERVERS:-"server.1=localhost:2888:3888;2181"}; do
        echo "$server"
    done
} >/conf/zoo.cfg
echo "${ZOO_MY_ID:-1}" >/data/myid
exec "$@"
