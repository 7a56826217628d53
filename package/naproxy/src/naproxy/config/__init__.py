"""The configuration file: what it says, how it is changed, how it is described."""
