"""Log files: the blocks that changes of a file group are appended in. Bytes in, blocks out, and back.

Kernel: an open file in (`pyarrow.NativeFile`, or anything with bytes), blocks out; nothing here knows paths or timelines.
A block, all numbers big end first::

    6  magic #HUDI#
    8  size of the block behind this field
    4  log format version      4  type
    …  header map              8  length of the content    …  content    …  footer map
    8  size from the magic to here: leads back to the block's beginning, and tells whether the block is whole

`scan.py` reads everything but the contents, so that a log costs little memory whatever its size; `read.py` reads what one
block holds, `large.py` a part at a time, `write.py` makes blocks, and `block.py` says what a block is. A block that is torn or
whose sizes disagree becomes one of type CORRUPT, which reaches to the next magic, and reading goes on there; that is what Hudi
skips. What is whole but cannot be understood is an error with the file's name and the byte. No size that a file claims is
believed before it was held against the file's own.
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
