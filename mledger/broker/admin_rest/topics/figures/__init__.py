"""Stats and internal stats of topics, as Pulsar's admin API gives them."""
