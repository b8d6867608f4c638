"""Decodes messages as journals have them: their properties, headers and bodies."""
