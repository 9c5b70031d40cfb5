"""What talks to the outside: token tables, models, embedders."""
