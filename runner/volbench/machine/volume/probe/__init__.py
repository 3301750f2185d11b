"""The probe of a volume, and the profile fitted to its figures."""
