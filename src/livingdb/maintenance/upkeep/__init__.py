"""The runner: jobs that keep a database fast and sound, by what they bring for a second."""
