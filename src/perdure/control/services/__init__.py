"""Services: loops that do what no session does itself."""
