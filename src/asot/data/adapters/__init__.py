"""Other people's data as collections, one file per ecosystem."""
