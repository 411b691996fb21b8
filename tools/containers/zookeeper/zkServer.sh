#!/bin/bash
# start-foreground | status
set -eu
case "${1:-}" in
    start-foreground)
        exec /opt/java/bin/java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dslf4j.internal.verbosity=ERROR \
            -cp "/opt/zookeeper/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
        ;;
    status)
        address=$(sed -n "s/^server\.$(cat /data/myid)=.*;//p" /conf/zoo.cfg)
        port=${address##*:}
        exec 3<>"/dev/tcp/127.0.0.1/$port" 2>/dev/null || exec 3<>"/dev/tcp/$(hostname)/$port"
        printf srvr >&3
        grep '^Mode: ' <&3
        ;;
    *)
        echo "usage: zkServer.sh start-foreground|status" >&2
        exit 2
        ;;
esac
