"""Lower bounds on W_1 for whole collections at a time: what makes certain neighbours cheap."""
