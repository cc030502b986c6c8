"""What comes back: distances, neighbors and plans, the sinks that make them, and their files and tables."""
