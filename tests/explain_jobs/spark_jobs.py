"""Spark without memory: spark_jobs.py driver|executor|result."""

import sys

from pyspark.sql import SparkSession

where = sys.argv[1]
builder = SparkSession.builder.master("local[1]").appName("features").config("spark.ui.enabled", "false")
if where == "result":
    builder = builder.config("spark.driver.maxResultSize", "1m")
spark = builder.config("spark.driver.memory", "512m").getOrCreate()
if where == "result":
    rows = spark.range(0, 2000000).collect()
    print(len(rows))
else:
    big = spark.sparkContext.parallelize([1], 1).map(lambda x: "x" * (300 << 20))
    print(big.map(lambda s: s + s).toDF("string").groupBy("value").count().collect())
