"""The commands of `quorate`, a module for each group of them."""
