"""Every command by its name: what it does in a line, and the module that it is in, which is imported when it is used.

So a command starts without what the others need, and help and completion are there before any of it is imported.
"""

from mledger.cli.shared.command_groups import LateCommand, LateGroup, late_group

BOOKIE = {
    "run": LateCommand(
        "bookies.server:run", "Run a bookie in the foreground until SIGTERM or SIGINT; --help shows its OPTIONS."
    ),
}

BOOKIES = {
    "autorecovery": LateCommand(
        "bookies.autorecovery:autorecovery",
        "Switch the auto-recovery of BookKeeper's own auditors and workers on or off, or set what they wait for.",
    ),
    "check": LateCommand(
        "bookies.commands:check",
        "Check bookies, by default all: registered, reachable, cookie right, answers a read, room on disk, clock.",
    ),
    "cluster": LateCommand(
        "bookies.autorecovery:cluster",
        "Show the cluster as BookKeeper has it: instance id, how many bookies, auto-recovery and its auditor.",
    ),
    "cookie": LateCommand(
        "bookies.cookies:cookie",
        "Look at a bookie's cookie, write it, delete it: without it a bookie that is new to the cluster starts.",
    ),
    "describe": LateCommand(
        "bookies.commands:describe",
        "Show a bookie: its registration, cookie, disk and version, and what it holds by the ledgers' metadata.",
    ),
    "list": LateCommand("bookies.commands:list_command", "List the bookies that are registered now."),
    "underreplicated": LateCommand(
        "bookies.autorecovery:underreplicated",
        "List the ledgers marked as lacking replicas, since when, and which bookie replicates each of them now.",
    ),
}

CURSORS = {
    "clear": LateCommand(
        "cursors.changes:clear", "Clear CURSOR's backlog: every entry there is counts as acknowledged."
    ),
    "create": LateCommand("cursors.opening:create", "Create CURSOR on TOPIC."),
    "delete": LateCommand("cursors.changes:delete", "Delete CURSOR of TOPIC, its record and its cursor ledger."),
    "describe": LateCommand(
        "cursors.commands:describe", "Show CURSOR's record and the state it would be recovered to; nothing is changed."
    ),
    "list": LateCommand(
        "cursors.commands:list_command",
        "List TOPIC's cursors with the state each would be recovered to; nothing is changed.",
    ),
    "recover": LateCommand(
        "cursors.opening:recover",
        "Show what opening TOPIC would do to its cursors (rules R1 to R9); with --apply do it.",
    ),
    "repair": LateCommand(
        "cursors.changes:repair", "Make CURSOR anew if its record does not parse, and do nothing if it does."
    ),
    "reset": LateCommand(
        "cursors.changes:reset", "Move CURSOR, back or forth; nothing from there on counts as acknowledged."
    ),
    "set-properties": LateCommand(
        "cursors.changes:set_properties",
        "Set PROPERTIES of CURSOR, written KEY=VALUE, and remove others; those that are not named stay.",
    ),
    "skip": LateCommand("cursors.changes:skip", "Skip the next N entries of CURSOR: they count as acknowledged."),
}

LEDGERS = {
    "check": LateCommand(
        "ledgers.check:check", "Read every entry from every bookie that should have it, and hold it to its digest."
    ),
    "delete": LateCommand("ledgers.changes:delete", "Delete a ledger that nothing names; with --force any."),
    "describe": LateCommand(
        "ledgers.commands:describe", "Show a ledger's metadata, and its end as its bookies know it (rule Q3)."
    ),
    "list": LateCommand("ledgers.commands:list_command", "List the ledgers, by rising id."),
    "read": LateCommand(
        "ledgers.commands:read",
        "Write a ledger's entries to stdout: a payload a line, or an object each where --output asks for one.",
    ),
    "recover": LateCommand(
        "ledgers.changes:recover",
        "Recover a ledger that is not closed: fence its writer, settle its end, close it (rule Q4).",
    ),
    "replace-bookie": LateCommand(
        "ledgers.bookie_replacement:replace_bookie",
        "Name OTHER in place of BOOKIE in every ledger: for a bookie that "
        "has another id now, or another with its entries.",
    ),
}

METADATA = {
    "backup": LateCommand(
        "metadata.backup:backup",
        "Copy the whole metadata tree, with versions and access control lists, to FILE; nothing is changed.",
    ),
    "get": LateCommand("metadata.commands:get", "Show the node at PATH, decoded where its format is known."),
    "init": LateCommand(
        "metadata.commands:init",
        "Make the nodes that every cluster has, where they are missing; bookies can start then.",
    ),
    "restore": LateCommand(
        "metadata.backup:restore",
        "Put the nodes of a backup FILE back: create those that are missing, change those that hold something else.",
    ),
    "run": LateCommand(
        "metadata.commands:run",
        "Serve a metadata store in a directory until SIGTERM or SIGINT; --help shows its OPTIONS.",
    ),
    "tree": LateCommand("metadata.commands:tree", "Show the nodes at and below PATH."),
}

SNAPSHOT = {
    "ask": LateCommand("snapshots.queries:ask", "Run QUERY on SNAPSHOT; without one, list the queries."),
    "diff": LateCommand(
        "snapshots.queries:diff",
        "Show what changed from snapshot A to snapshot B: what appeared, vanished, moved, went back.",
    ),
    "export": LateCommand(
        "snapshots.export:export_command",
        "Write all tables of the metadata as files into DEST, each time as a new snapshot.",
    ),
    "list": LateCommand("snapshots.commands:list_command", "List the complete snapshots in DEST, oldest first."),
    "verify": LateCommand(
        "snapshots.commands:verify",
        "Check SNAPSHOT against its manifest: the bytes and rows of each file, and that there are no other files.",
    ),
}

TOPICS = {
    "create": LateCommand(
        "topics.creation:create", "Create TOPIC, persistent://tenant/namespace/topic, with a first ledger."
    ),
    "delete": LateCommand(
        "topics.changes:delete",
        "Delete TOPIC with its cursors and all its ledgers; a partitioned topic with all its partitions (rule M8).",
    ),
    "describe": LateCommand(
        "topics.commands:describe",
        "Show TOPIC's ledgers, its end and its cursors; nothing is changed and nothing is fenced.",
    ),
    "drop-ledgers": LateCommand(
        "topics.drop_ledgers:drop_ledgers",
        "Take the ledgers LEDGER_ID off the list of TOPIC: nobody reads their entries any more.",
    ),
    "info-internal": LateCommand(
        "topics.internal_stats:info_internal",
        "Show the records of TOPIC and of its cursors as they are stored; the JSON is as `pulsar-admin` prints it.",
    ),
    "list": LateCommand(
        "topics.topic_list:list_command", "List the topics, or those of NAMESPACE: tenant or tenant/namespace."
    ),
    "produce": LateCommand(
        "topics.producer:produce",
        "Publish Pulsar messages to TOPIC: a line each, or --count made ones; returns when all are acknowledged.",
    ),
    "read": LateCommand(
        "topics.entries:read",
        "Write TOPIC's messages to stdout: a payload a line, or an object each where --output asks for one.",
    ),
    "repair": LateCommand(
        "topics.repair:repair",
        "Find and mend what is wrong with the records of TOPIC, of a namespace's topics, or of all.",
    ),
    "set-properties": LateCommand(
        "topics.changes:set_properties",
        "Set PROPERTIES of TOPIC, written KEY=VALUE, and remove others; those that are not named stay.",
    ),
    "stats-internal": LateCommand(
        "topics.internal_stats:stats_internal",
        "Show TOPIC's ledgers and cursors as opening would find them; the JSON is as `pulsar-admin` prints it.",
    ),
    "terminate": LateCommand(
        "topics.changes:terminate",
        "Let TOPIC take no more entries, for good: its readers end after the last one (rule M8).",
    ),
    "trim": LateCommand(
        "topics.trim_sweep:trim",
        "Delete the ledgers that every cursor is past and retention does not keep, of TOPIC or of many topics.",
    ),
    "truncate": LateCommand(
        "topics.changes:truncate",
        "Acknowledge everything on every cursor of TOPIC, and delete every ledger whatever retention says (rule M8).",
    ),
}

NOUNS: dict[str, LateCommand | LateGroup] = {
    "bookie": late_group("bookie", "Run a bookie.", BOOKIE),
    "bookies": late_group(
        "bookies", "Look at the bookies and check them; change their cookies and what auto-recovery may do.", BOOKIES
    ),
    "completion": LateCommand(
        "completion:completion", "Print the script that has SHELL complete what is typed of a `mledger` command."
    ),
    "context": LateCommand("contexts:context", "Name clusters, and say which one is meant."),
    "cursors": late_group("cursors", "Create, look at, move and recover the cursors of a topic.", CURSORS),
    "down": LateCommand("local.commands:down", "Stop the processes that `mledger up` started; the data stays."),
    "ledgers": late_group(
        "ledgers",
        "Look at ledgers without fencing them, check every copy of their entries; recover and delete single ones.",
        LEDGERS,
    ),
    "metadata": late_group(
        "metadata",
        "Look at the metadata store, prepare an empty one for a cluster, back it up and restore it.",
        METADATA,
    ),
    "report": LateCommand(
        "snapshots.report:report",
        "Write an HTML page about SNAPSHOT: plots and sortable tables, in one file that loads nothing.",
    ),
    "snapshot": late_group(
        "snapshot", "Write snapshots of a cluster's metadata as tables, and look at them.", SNAPSHOT
    ),
    "status": LateCommand(
        "local.commands:status",
        "Show the cluster that commands mean, and whether it serves; exit code 5 if it does not.",
    ),
    "topics": late_group("topics", "Create, publish to, look at, read, change and delete topics.", TOPICS),
    "undo": LateCommand("undo:undo", "Put back the records that a command changed, as its undo FILE has them."),
    "up": LateCommand(
        "local.commands:up", "Start a metadata store and bookies on this machine; what runs already is left as it is."
    ),
}
"""What follows `mledger`."""
