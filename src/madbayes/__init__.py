"""Find groups in data without being told how many there are."""
