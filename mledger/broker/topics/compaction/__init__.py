"""The compacted view of a topic: what compaction kept, and how a subscription reads it."""
