"""Configuration: files and environment into frozen, validated objects."""
