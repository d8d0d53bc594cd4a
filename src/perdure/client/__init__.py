"""The client of the service: a runtime without a store. It needs the extra `client`."""
