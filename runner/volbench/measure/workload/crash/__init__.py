"""The crash step and the ledger of its transactions."""
