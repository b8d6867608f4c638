"""The job replay: messages of archives, journals or topics into queues."""
