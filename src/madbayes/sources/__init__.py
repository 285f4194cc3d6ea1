"""Tables of more rows than fit in memory, as rows in a file."""

from madbayes.sources.ahead import ahead
from madbayes.sources.memory import parse_memory, resident_memory
from madbayes.sources.opening import open_rows
from madbayes.sources.rows import FileRows, RowWriter
from madbayes.sources.spilling import Source

__all__ = ["FileRows", "RowWriter", "Source", "ahead", "open_rows", "parse_memory", "resident_memory"]
