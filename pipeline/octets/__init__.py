"""Reads numbers and octets out of data that may be malformed."""
