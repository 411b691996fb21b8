"""How many connections a broker takes, from everywhere and from one address."""

from collections.abc import Iterable

from mledger.broker.settings import BrokerSettings


def plan_admission(settings: BrokerSettings, host: str, hosts: Iterable[str], *, last_files: bool = False) -> str:
    """Why one more connection from `host` is refused, besides those from `hosts`; empty if it is not.

    `last_files`: it is one of the last files that the process can open.
    """
    if last_files:
        return "Reached the maximum number of connections that the limit on the broker's open files allows"
    most, most_of_host = settings.max_connections, settings.max_connections_per_host
    if most <= 0 and most_of_host <= 0:
        return ""
    others = list(hosts)
    if 0 < most <= len(others):
        return f"Reached the maximum number of connections: {most} (brokerMaxConnections)"
    if 0 < most_of_host <= others.count(host):
        return f"Reached the maximum number of connections on {host}: {most_of_host} (brokerMaxConnectionsPerIp)"
    return ""
