"""Injects faults into running nodes under load, records the history of all clients, and checks the history.

This package does not import the broker: it uses ports, processes and AMQP clients.
"""
