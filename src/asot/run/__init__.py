"""How pairs are solved: sets of pairs, protocols, tiles, engines, executors, devices, progress."""
