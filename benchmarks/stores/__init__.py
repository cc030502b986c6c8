"""Runs that outlive their process: stores, clusters, faults, memory."""
