"""Warns of snapshots whose manifests are damaged: commands leave them out, and go on with the others."""

from mledger.cli.shared.messages import messages
from mledger.snapshot.exports.errors import InvalidManifest


def warn_of_damaged(problem: InvalidManifest) -> None:
    """Name the manifest on stderr, and what is wrong with it."""
    messages.warning(f"a damaged snapshot is left out: {problem}")
