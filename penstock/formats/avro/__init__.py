"""Avro: records of log blocks as Arrow tables, and files of the timeline as dicts.

- `block.py`: the content of a log's Avro block · `layout.py`: the byte layout of a schema
- `encode.py`, `decode.py`: many records at once, by columns · `rows.py`: record by record
- `container.py`: files of the timeline · `timeline_schemas.py`: the schemas of their records
"""
