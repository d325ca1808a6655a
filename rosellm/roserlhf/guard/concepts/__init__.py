"""Facts of acts in a setting, by name in `table.CONCEPTS`."""
