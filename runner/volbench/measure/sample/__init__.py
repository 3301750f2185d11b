"""The samplers: one module a source, pure parsers in `parsers/`, and the process that reads them on one grid."""
