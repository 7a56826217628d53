"""Calendars of public test suites, read by the product and by recurring-ical-events alone."""
