"""A join whose table does not fit DuckDB's own limit, without a place to spill to."""

import duckdb

database = duckdb.connect()
database.sql("SET memory_limit = '64MB'")
database.sql("SET temp_directory = ''")
database.sql("SET threads = 1")
print("joining 20 million rows", flush=True)
database.sql("CREATE TABLE pairs AS SELECT i AS user, hash(i) AS item FROM range(20_000_000) numbers(i)")
print(database.sql("SELECT count(*) FROM pairs").fetchone())
