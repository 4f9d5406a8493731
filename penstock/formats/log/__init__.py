"""Log files: reads and writes the blocks in which changes to a file group are appended.

Functions read an open file (`pyarrow.NativeFile`) or bytes, and know no paths and no timeline. A block has these fields, from
left to right and from top to bottom. In front of each field is its size in bytes (`…`: variable). All numbers are big-endian::

    6  magic #HUDI#
    8  size of the block after this field
    4  log format version      4  block type
    …  header map              8  length of the content    …  content    …  footer map
    8  size of the block before this field, with the magic: a backward scan finds the block's beginning with it

A header or footer map is the number of entries (4 bytes), then for each entry the number of its key (4 bytes, `HeaderKey`), the
size of its text (4 bytes) and the text.

`block.py` defines a block, `scan.py` finds the blocks of a file without reading their contents, `read.py` reads the content of
one block, `large_block.py` reads the content in parts, `write.py` encodes blocks, `deletes.py` and `positions.py` hold the
formats of delete blocks and of row positions.

A block that is torn or whose two sizes disagree is returned with type CORRUPT. As in Hudi, it extends to the next magic, and the
scan continues there. A block whose sizes agree but whose content is malformed raises an error with the file name and the offset.
Every size in a file is compared with the size of the file before it is used.
"""

from penstock.formats.log.block import FORMAT_VERSION, MAGIC, ROLLBACK, BlockType, HeaderKey, LogBlock
from penstock.formats.log.read import (
    RECORDS_PER_PART,
    open_log,
    read_cells,
    read_content,
    read_deletes,
    read_row_parts,
    read_rows,
)
from penstock.formats.log.scan import scan_blocks, scan_blocks_backwards
from penstock.formats.log.write import (
    encode_avro_block,
    encode_block,
    encode_delete_block,
    encode_parquet_block,
    encode_rollback_block,
)

__all__ = [
    "FORMAT_VERSION",
    "MAGIC",
    "RECORDS_PER_PART",
    "ROLLBACK",
    "BlockType",
    "HeaderKey",
    "LogBlock",
    "encode_avro_block",
    "encode_block",
    "encode_delete_block",
    "encode_parquet_block",
    "encode_rollback_block",
    "open_log",
    "read_cells",
    "read_content",
    "read_deletes",
    "read_row_parts",
    "read_rows",
    "scan_blocks",
    "scan_blocks_backwards",
]
