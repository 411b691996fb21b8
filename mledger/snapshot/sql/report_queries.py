"""Queries of the report alone: figures of namespaces, distributions, and what changed most between two snapshots."""

from mledger.snapshot.sql.queries import Query, load_query

NAMESPACES = load_query("report", "namespaces")
DISTRIBUTIONS = load_query("report", "distributions")
BACKLOG_CHANGES = load_query("report", "backlog_changes")
SIZE_CHANGES = load_query("report", "size_changes")
NAMESPACE_TOPICS = load_query("report", "namespace_topics")
NAMESPACE_SUBSCRIPTIONS = load_query("report", "namespace_subscriptions")


def first_of_each(query: Query, limit: int) -> Query:
    """The first `limit` rows of each namespace of a query that numbers them by `place`."""
    sql = f"select * from ({query.sql}) where place <= {limit} order by namespace, place"  # noqa: S608  # a number
    return Query(query.name, query.title, query.doc, sql)
