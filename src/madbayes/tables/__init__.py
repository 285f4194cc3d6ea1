"""Tables as they come: files of many kinds, and the recipe that turns their columns into numbers.

It needs the extra ``app`` (pandas and pyarrow).
"""

from madbayes.tables.checks import TableError
from madbayes.tables.columns import Decision
from madbayes.tables.reading import Table, read_table
from madbayes.tables.recipe import Recipe
from madbayes.tables.streaming import TableStream

__all__ = ["Decision", "Recipe", "Table", "TableError", "TableStream", "read_table"]
