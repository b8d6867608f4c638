"""Faults for running nodes, load that keeps a history of what clients saw, and checkers of histories.

Nothing here knows the broker's code: it sees ports, processes and what an AMQP client sees.
"""
