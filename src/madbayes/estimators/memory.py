"""How the memory that the user allows is spent, where the rows stay in a file."""

import mmap
import tempfile
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from madbayes.engine.homes import part_rows
from madbayes.sources import parse_memory, resident_memory
from madbayes.sources.ledger import Ledger
from madbayes.sources.rows import folder_named

# For what does not grow with the table: samples that are searched, compiled code, summaries.
REST = 64 * 10**6


@dataclass(frozen=True)
class Memory:
    """What may still be used.

    Parameters
    ----------
    free : int or None
        Bytes for what grows with the number of rows; None where there is no limit.
    folder : str
        Where the rest is put.
    """

    free: int | None
    folder: str

    @classmethod
    def of(cls, memory_limit: Any, spill_dir: Any, rows: Any, n_threads: int) -> "Memory":
        """After what this process has already, and what the threads need to go over the parts of a table."""
        folder = str(spill_dir or tempfile.gettempdir())
        limit = parse_memory(memory_limit, "memory_limit")
        if limit is None:
            return cls(None, folder)
        longest = part_rows(*rows.shape)[0].stop
        part = longest * (rows.shape[1] * (rows.dtype.itemsize + 24) + 32)
        used = resident_memory() + n_threads * part + REST
        if used > limit:
            raise ValueError(
                f"memory_limit={memory_limit!r} is too little: with {n_threads} threads (n_jobs) this table takes "
                f"{used / 1e6:.0f} MB, whatever its number of rows; give at least that"
            )
        return cls(limit - used, folder)

    def ledger(self, n_parts: int) -> Any:
        """For what is kept of the rows between passes: half of what is free, the rest in a file."""
        return [None] * n_parts if self.free is None else Ledger(n_parts, self.free // 2, self.folder)

    def check(self, nbytes: int, why: str) -> None:
        """Refuse what has to be in memory and does not fit; say why it has to be, and what to do."""
        if self.free is not None and nbytes > self.free:
            raise ValueError(
                f"memory_limit leaves {self.free / 1e6:.0f} MB for the table, and it takes {nbytes / 1e6:.0f} MB in "
                f"memory, where {why}"
            )

    def filled(self, shape: tuple[int, ...], dtype: DTypeLike, blocks: Any) -> NDArray:
        """An array made of blocks of rows: in memory, or in a file without a name if it takes a quarter of the rest."""
        dtype = np.dtype(dtype)
        if self.free is None or prod(shape) * dtype.itemsize <= self.free // 4:
            array, row = np.empty(shape, dtype), 0
            for block in blocks:
                array[row : row + len(block)] = block
                row += len(block)
            return array
        with folder_named(self.folder), tempfile.TemporaryFile(dir=self.folder) as file:
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype=dtype).data)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # Not a numpy.memmap: joblib sends the name of its file to other processes, and this one has none.
            return np.frombuffer(mapped, dtype).reshape(shape)


# Tables in memory: what is kept of their rows is, too.
NO_LIMIT = Memory(None, tempfile.gettempdir())
