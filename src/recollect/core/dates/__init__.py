"""Read dates and periods in text. Pure functions."""
