"""Who gets what: permits, dispatchers, replay, redelivery counts, key ranges, delays, limits; no I/O and no clock."""
