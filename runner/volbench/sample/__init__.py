"""The samplers: one module a source, pure parsers beside them, and the process that reads them on one grid."""
