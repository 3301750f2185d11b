"""Words that are no names: pronouns, participles and everyday words."""

from __future__ import annotations

VAGUE = frozenset(
    (
        *(
            "found",
            "one",
            "said",
            "told",
            "asked",
            "held",
            "kept",
            "seen",
            "known",
            "shown",
            "wanted",
            "taken",
            "given",
        ),
        *(
            "ours",
            "theirs",
            "there",
            "here",
            "other",
            "others",
            "rest",
            "whole",
            "part",
            "parts",
            "place",
            "places",
        ),
        *("what", "why", "way", "ways", "word", "words", "anew", "beside", "mend"),
    )
)
