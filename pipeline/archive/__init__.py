"""The job archive: messages in a Delta table by queue and day."""
