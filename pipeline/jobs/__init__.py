"""The jobs as functions, with their options as texts, and as commands."""
