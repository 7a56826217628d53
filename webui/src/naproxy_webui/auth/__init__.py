"""Who may do what: users, sessions, tokens, guesses, and the first claim of a box."""
