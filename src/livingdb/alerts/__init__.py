"""Alerts: raised with what they tell of, kept in an outbox, sent to sinks, raised by watches."""
