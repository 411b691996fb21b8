"""What the fixtures give: clusters and their options, brokers, owners of topics."""
