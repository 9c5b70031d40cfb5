"""Wire, inspect and maintain a memory: settings, erasure, import and export, health, access keys."""
