"""Emulated volumes: started, found, stopped, and their power cut."""
