"""A partition's owner: what comes in, what becomes an entry, what is delivered."""
