"""How far an answer is from W₁, proven: brackets, error bars, guarantees."""
