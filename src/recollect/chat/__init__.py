"""Answer people: build the prompt, ask the model, store what was said."""
