"""Carries out decisions: a runner for each server, probes, pings, meters."""
