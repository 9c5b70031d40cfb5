"""What a conversation is about, and when it comes back to it. Imported when first needed: it brings numpy."""
