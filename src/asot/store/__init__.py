"""Results on disk that a killed run continues: the sink, its files, and how a call is known again."""
