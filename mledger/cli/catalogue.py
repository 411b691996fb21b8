"""Every command by name, with its summary and its module, which is imported on first use.

So a command starts without the imports of the others, and help and completion import none of them.
"""

from mledger.cli.shared.command_groups import LazyCommand, LazyGroup, lazy_group

BOOKIE = {
    "run": LazyCommand(
        "bookies.server:run", "Run a bookie in the foreground until SIGTERM or SIGINT; --help shows its OPTIONS."
    ),
}

BROKER = {
    "run": LazyCommand(
        "brokers.server:run",
        "Run a broker for Pulsar's clients in the foreground until SIGTERM or SIGINT; --help shows its OPTIONS.",
    ),
}

BOOKIES = {
    "autorecovery": LazyCommand(
        "bookies.autorecovery:autorecovery",
        "Enable or disable BookKeeper's auto-recovery, or set its delay for a lost bookie.",
    ),
    "check": LazyCommand(
        "bookies.commands:check",
        "Check bookies, by default all: registration, connection, cookie, reads, free disk space, clock.",
    ),
    "cluster": LazyCommand(
        "bookies.autorecovery:cluster",
        "Show the cluster as BookKeeper sees it: instance id, number of bookies, auto-recovery, auditor.",
    ),
    "cookie": LazyCommand(
        "bookies.cookies:cookie",
        "Show, write or delete a bookie's cookie: without it a bookie with empty directories can start.",
    ),
    "describe": LazyCommand(
        "bookies.commands:describe",
        "Show a bookie: its registration, cookie, disk, version, and the ledgers whose metadata name it.",
    ),
    "list": LazyCommand("bookies.bookie_list:list_command", "List the registered bookies."),
    "underreplicated": LazyCommand(
        "bookies.autorecovery:underreplicated",
        "List under-replicated ledgers: their missing replicas, since when, and the replicating bookie.",
    ),
}

CURSORS = {
    "clear": LazyCommand("cursors.changes:clear", "Clear CURSOR's backlog: acknowledge every entry of the topic."),
    "create": LazyCommand("cursors.opening:create", "Create CURSOR on TOPIC."),
    "delete": LazyCommand("cursors.deletion:delete", "Delete CURSOR of TOPIC, its record and its cursor ledger."),
    "describe": LazyCommand(
        "cursors.commands:describe", "Show CURSOR's record and the state that recovery would give it; change nothing."
    ),
    "list": LazyCommand(
        "cursors.commands:list_command",
        "List TOPIC's cursors with the state that recovery would give each; change nothing.",
    ),
    "recover": LazyCommand(
        "cursors.opening:recover",
        "Show what opening TOPIC would do to its cursors (rules R1 to R9); with --apply do it.",
    ),
    "repair": LazyCommand(
        "cursors.changes:repair", "Recreate CURSOR if its record does not parse; do nothing if it does."
    ),
    "reset": LazyCommand(
        "cursors.changes:reset", "Move CURSOR back or forward; everything from there on becomes unacknowledged."
    ),
    "set-properties": LazyCommand(
        "cursors.changes:set_properties",
        "Set PROPERTIES of CURSOR, written KEY=VALUE, or remove some; the others stay.",
    ),
    "skip": LazyCommand("cursors.changes:skip", "Skip the next N entries of CURSOR: acknowledge them."),
}

LEDGERS = {
    "check": LazyCommand(
        "ledgers.check:check", "Read every entry from every bookie that should have it, and verify its digest."
    ),
    "delete": LazyCommand("ledgers.changes:delete", "Delete a ledger that nothing names, or with --force any."),
    "describe": LazyCommand(
        "ledgers.commands:describe", "Show a ledger's metadata, and its end according to its bookies (rule Q3)."
    ),
    "list": LazyCommand("ledgers.commands:list_command", "List the ledgers in order of their ids."),
    "read": LazyCommand(
        "ledgers.entries:read",
        "Write a ledger's entries to stdout: one payload per line, or objects in the --output format.",
    ),
    "recover": LazyCommand(
        "ledgers.changes:recover",
        "Recover an open ledger: fence its writer, determine its end, and close it (rule Q4).",
    ),
    "replace-bookie": LazyCommand(
        "ledgers.bookie_replacement:replace_bookie",
        "Replace BOOKIE with OTHER in the metadata of every ledger of which OTHER has the copies of BOOKIE.",
    ),
}

METADATA = {
    "backup": LazyCommand(
        "metadata.backup:backup",
        "Copy the metadata tree, with versions and access control lists, to FILE; change nothing.",
    ),
    "get": LazyCommand("metadata.commands:get", "Show the node at PATH, decoded if its format is known."),
    "init": LazyCommand(
        "metadata.commands:init",
        "Create the missing nodes that every cluster needs, so that bookies can start.",
    ),
    "restore": LazyCommand(
        "metadata.backup:restore",
        "Restore the nodes of a backup FILE: create the missing ones, change those that differ.",
    ),
    "run": LazyCommand(
        "metadata.commands:run",
        "Serve a metadata store in a directory until SIGTERM or SIGINT; --help shows its OPTIONS.",
    ),
    "tree": LazyCommand("metadata.commands:tree", "Show the nodes at and below PATH."),
}

SNAPSHOT = {
    "ask": LazyCommand("snapshots.queries:ask", "Run QUERY on SNAPSHOT; without one, list the queries."),
    "changes": LazyCommand(
        "snapshots.changes:changes", "Show what each transaction did to each znode, from ZooKeeper's logs."
    ),
    "diff": LazyCommand(
        "snapshots.queries:diff",
        "Show the changes from snapshot A to snapshot B: what was added, removed, moved or moved back.",
    ),
    "export": LazyCommand(
        "snapshots.export:export_command",
        "Write all tables of the metadata as files into DEST, each time as a new snapshot.",
    ),
    "list": LazyCommand("snapshots.commands:list_command", "List the complete snapshots in DEST, oldest first."),
    "verify": LazyCommand(
        "snapshots.commands:verify",
        "Check SNAPSHOT against its manifest: the bytes and rows of each file, and that there are no other files.",
    ),
}

TOPICS = {
    "consumers": LazyCommand(
        "topics.served_topics:consumers",
        "List the consumers of TOPIC: what each may still be sent, and what it has not acknowledged.",
    ),
    "create": LazyCommand(
        "topics.creation:create", "Create TOPIC, persistent://tenant/namespace/topic, with a first ledger."
    ),
    "delete": LazyCommand(
        "topics.deletion:delete",
        "Delete TOPIC with its cursors and all its ledgers; a partitioned topic with all its partitions (rule M8).",
    ),
    "describe": LazyCommand(
        "topics.commands:describe",
        "Show TOPIC's ledgers, its end and its cursors; change nothing and fence nothing.",
    ),
    "drop-ledgers": LazyCommand(
        "topics.drop_ledgers:drop_ledgers",
        "Remove the ledgers LEDGER_ID from the list of TOPIC: readers then skip their entries.",
    ),
    "info-internal": LazyCommand(
        "topics.internal_stats:info_internal",
        "Show the stored records of TOPIC and its cursors; the JSON is that of `pulsar-admin`.",
    ),
    "list": LazyCommand(
        "topics.topic_list:list_command", "List the topics, or those of NAMESPACE: tenant or tenant/namespace."
    ),
    "peek": LazyCommand(
        "topics.served_topics:peek",
        "Write the first messages that SUBSCRIPTION of TOPIC has not acknowledged, and acknowledge none.",
    ),
    "produce": LazyCommand(
        "topics.messages.producer:produce",
        "Publish Pulsar messages to TOPIC, one per line, or --count generated ones, and wait for the acks.",
    ),
    "read": LazyCommand(
        "topics.messages.entries:read",
        "Write TOPIC's messages to stdout: one payload per line, or objects in the --output format.",
    ),
    "repair": LazyCommand(
        "topics.repair:repair",
        "Find and repair damage in the records of TOPIC, of a namespace's topics, or of all topics.",
    ),
    "set-properties": LazyCommand(
        "topics.properties:set_properties",
        "Set PROPERTIES of TOPIC, written KEY=VALUE, or remove some; the others stay.",
    ),
    "stats": LazyCommand(
        "topics.served_topics:stats",
        "Show the live figures of TOPIC: its producers, subscriptions and counters; the JSON is the broker's.",
    ),
    "stats-internal": LazyCommand(
        "topics.internal_stats:stats_internal",
        "Show TOPIC's ledgers and cursors as an open would find them; the JSON is that of `pulsar-admin`.",
    ),
    "subscriptions": LazyCommand(
        "topics.served_topics:subscriptions",
        "List the subscriptions of TOPIC with their live backlogs, as its broker has them in memory.",
    ),
    "terminate": LazyCommand(
        "topics.changes:terminate",
        "Terminate TOPIC: it accepts no more entries, and its readers end after the last one (rule M8).",
    ),
    "trim": LazyCommand(
        "topics.trim_sweep:trim",
        "Delete the ledgers of one or many topics that all cursors have consumed and retention does not keep.",
    ),
    "truncate": LazyCommand(
        "topics.changes:truncate",
        "Acknowledge everything on every cursor of TOPIC and delete all ledgers despite retention (rule M8).",
    ),
    "unload": LazyCommand(
        "topics.unload:unload",
        "Ask the broker that serves TOPIC to close it, with all topics of its bundle, so that any broker can open it.",
    ),
}

NOUNS: dict[str, LazyCommand | LazyGroup] = {
    "bookie": lazy_group("bookie", "Run a bookie.", BOOKIE),
    "bookies": lazy_group(
        "bookies", "Show and check the bookies; change their cookies and the auto-recovery settings.", BOOKIES
    ),
    "broker": lazy_group("broker", "Run a broker.", BROKER),
    "completion": LazyCommand(
        "completion:completion", "Print the script that makes SHELL complete `mledger` commands."
    ),
    "context": LazyCommand("contexts:context", "Name clusters, and select the current one."),
    "cursors": lazy_group("cursors", "Create, show, move and recover the cursors of a topic.", CURSORS),
    "down": LazyCommand("local.commands:down", "Stop the processes that `mledger up` started; the data stays."),
    "exporter": LazyCommand(
        "exporter:exporter",
        "Serve metrics of a whole cluster, read from its metadata, until SIGTERM or SIGINT; --help shows its OPTIONS.",
    ),
    "ledgers": lazy_group(
        "ledgers",
        "Show ledgers without fencing them, check every copy of their entries, recover or delete one.",
        LEDGERS,
    ),
    "metadata": lazy_group(
        "metadata",
        "Show the metadata store, initialize it for a cluster, back it up and restore it.",
        METADATA,
    ),
    "report": LazyCommand(
        "snapshots.report:report",
        "Write an HTML page about SNAPSHOT: trends, plots and sortable tables, in one self-contained file.",
    ),
    "snapshot": lazy_group("snapshot", "Write snapshots of a cluster's metadata as tables, and query them.", SNAPSHOT),
    "standalone": LazyCommand(
        "local.standalone:standalone",
        "Run Pulsar in one process, in the foreground, until SIGTERM or SIGINT; --help shows its OPTIONS.",
    ),
    "status": LazyCommand(
        "local.commands:status",
        "Show the selected cluster and whether it serves; exit code 5 if it does not.",
    ),
    "topics": lazy_group("topics", "Create, publish to, show, read, change and delete topics.", TOPICS),
    "undo": LazyCommand("undo:undo", "Restore the records that a command changed, from its undo FILE."),
    "up": LazyCommand(
        "local.commands:up", "Start a metadata store, bookies and a broker on this machine; leave running ones alone."
    ),
}
"""The commands and groups of `mledger`."""
