"""The machine that craze runs on: its paths, private directories, locks, registry and settings."""
