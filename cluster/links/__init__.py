"""Between a front end and an owner, in one process or on two nodes."""
