"""Recommends a volume and settings: the cheapest that keep an objective, checked by what did not choose them."""
