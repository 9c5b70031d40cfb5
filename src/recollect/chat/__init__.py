"""Answers people: builds the prompt from memory, asks the model, and stores question and answer."""
