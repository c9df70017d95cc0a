"""Files of predictions: read whole, or a chunk of rows at a time."""
