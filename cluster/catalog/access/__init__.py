"""Users, their log-ins, and their permissions."""
