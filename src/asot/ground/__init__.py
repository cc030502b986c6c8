"""Ground metrics and costs: what shipping a unit of mass between two points costs."""
