"""What is known about the data sets of reasoning-gym 0.1.25: whose scorers may see an answer in this process, which are refused.

All of them were given the reference answer, hostile texts and other random states. A scorer that is not known to be clean runs in
the sandbox only, since some execute what an answer says; a data set that cannot teach what it seems to is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

CLEAN = frozenset(
    {
        "ab", "acre", "aiw", "arc_1d", "arc_agi", "base_conversion", "basic_arithmetic", "bf", "binary_alternation",
        "bitwise_arithmetic", "caesar_cipher", "calendar_arithmetic", "chain_sum", "circuit_logic", "count_bits",
        "count_primes", "course_schedule", "cryptarithm", "decimal_arithmetic", "decimal_chain_sum", "dice",
        "family_relationships", "figlet_font", "futoshiki", "group_anagrams", "gsm_symbolic", "jugs",
        "kakurasu", "knights_knaves", "largest_island", "lcm", "leg_counting", "letter_counting", "letter_jumble",
        "list_functions", "mahjong_puzzle", "manipulate_matrix", "maze", "mini_sudoku", "modulo_grid", "needle_haystack",
        "number_filtering", "number_format", "number_sequence", "number_sorting", "palindrome_partitioning", "path_star",
        "polynomial_equations", "products", "quantum_lock", "rearc", "rectangle_count", "rotate_matrix", "rotten_oranges",
        "self_reference", "shortest_path", "simple_equations", "simple_geometry", "sokoban", "string_manipulation",
        "string_splitting", "string_synthesis", "sudoku", "survo", "time_intervals", "tower_of_hanoi",
        "word_sequence_reversal", "word_sorting", "zebra_puzzles",
    }
)  # fmt: skip
"""Scorers that raise nothing, run nothing, return in time and pay nothing for wrong answers, as far as was tried."""

BOXED = frozenset(
    {
        "binary_matrix", "coin_flip", "color_cube_rotation", "emoji_mystery", "fraction_simplification", "gcd", "n_queens",
        "palindrome_generation", "power_function", "prime_factorization", "sentence_reordering", "spell_backward", "spiral_matrix",
        "string_insertion", "syllogism", "tsumego",
    }
)  # fmt: skip
"""Scorers that run in the sandbox only: they execute answers, raise on some, or were not examined further."""

_NEEDS = "has a scorer that executes answers or raises on some, and needs packages that no program in the sandbox has"
_NO_REFERENCE = "has no reference answer, so nothing shows that its scorer pays for right ones"
_CHANGES = "draws other questions in another process, so that a run could not be repeated"
_FREE = "pays full reward for answers that are not right"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(["boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"], _NO_REFERENCE),
    **dict.fromkeys(
        ["codeio", "isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"], _CHANGES
    ),
    **dict.fromkeys(["complex_arithmetic", "game_of_life_halting"], _FREE),
    **dict.fromkeys(["advanced_geometry", "game_of_life", "intermediate_integration", "simple_integration"], _NEEDS),
    "composite": "mixes data sets; name one of them",
    "pool_matrix": "reseeds the random numbers of the whole process",
}
"""Data sets that are no environment, and why."""

MADE_AHEAD = frozenset({"acre", "gsm_symbolic", "list_functions"})
"""Data sets whose items are made when the set is: the set is made anew for each seed."""

NESTED_TUPLES = frozenset({"arc_agi", "rearc"})
"""Scorers that compare with tuples of tuples, which JSON gives back as lists."""
