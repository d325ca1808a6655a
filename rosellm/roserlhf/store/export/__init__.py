"""A log as Parquet or JSON lines, and back: `rows -> files that others read -> the same rows`."""
