"""Rows of two servers: checksums, and the results of pt-table-checksum."""
