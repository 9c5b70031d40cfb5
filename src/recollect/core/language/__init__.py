"""Read text: words, sentences, passages, identifiers, who speaks. Pure functions."""
