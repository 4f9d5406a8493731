"""File formats: convert bytes and open files to Arrow tables or plain values, and back. No module knows paths, clock or Spark.

- `parquet.py`, `bloom.py`, `murmur.py`, `dictionaries.py`: base files, their footers and bloom filters
- `log/`: blocks of log files · `avro/`: Avro records in log blocks and in files of the timeline · `hfile.py`: HFiles, read only
- `properties.py`: Java properties files · `hashes.py`: hashes of Java libraries · `cast.py`: casts rows to another schema
"""
