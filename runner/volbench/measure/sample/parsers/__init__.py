"""Pure functions from the text or bytes of a source to plain values; nothing here opens anything."""
