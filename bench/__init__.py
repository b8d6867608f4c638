"""Speed side by side: the same load against quorate and, where it is installed, RabbitMQ."""
