"""Steps on files: many small ones, a large one, fio."""
