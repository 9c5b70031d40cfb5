"""Build the prompt for a question from what recall found, within a token budget."""
