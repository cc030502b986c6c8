"""How far an answer is from W₁: brackets, calibration, guarantees."""
