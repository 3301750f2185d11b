"""Samplers that ask the server."""
