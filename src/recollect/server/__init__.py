"""The server: memory for any chat application over HTTP. Routes parse, call the engine and answer."""
