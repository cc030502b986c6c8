"""What a call asks for, once it is read: which distance, how accurate, of which pairs."""
