"""Avro: converts records of log blocks to Arrow tables and back, and files of the timeline to dicts and back.

- `block.py`: the content of an Avro log block · `layout.py`: the byte layout of a schema
- `encode.py`, `decode.py`: encode and decode many records at once, by columns · `rows.py`: decodes record by record
- `container.py`: Avro files of the timeline · `timeline_schemas.py`: the schemas of their records
"""
