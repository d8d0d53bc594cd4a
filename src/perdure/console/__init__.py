"""The console: the service in a browser, for people. It needs the extra `server`."""
