"""Other homes for the rows of a table than the memory of this process."""
