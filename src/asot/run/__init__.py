"""How pairs are solved: tiles, engines, sinks, results, progress."""
