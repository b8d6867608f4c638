"""A partition's owner: takes operations of front ends, proposes entries, and delivers messages."""
