"""The service: sessions over HTTP. It needs the extra `server`."""
