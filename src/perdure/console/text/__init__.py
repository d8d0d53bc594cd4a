"""The words of the pages: for waits, for events, for what recovery does, for the questions of an audit."""
