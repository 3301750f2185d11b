"""The instances step: several servers on one volume, their loads, and what each kept."""
