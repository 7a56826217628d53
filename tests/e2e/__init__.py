"""The whole box in the virtual office, one behaviour a test."""
