"""Authentication and access rights: users, sessions, tokens, attempts, and claiming a new box."""
