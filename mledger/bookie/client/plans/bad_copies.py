"""Why a bookie's copy of an entry is bad."""

DAMAGED = "it fails its digest"
MISSING = "it is not there"
UNREADABLE = "the bookie cannot read it"
