"""Finding what matters for a question, and building the prompt from it. Imported when first needed: it brings numpy."""
