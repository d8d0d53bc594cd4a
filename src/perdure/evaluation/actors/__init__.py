"""The five actors of the workload `actors`, over Perdure and over session blobs, with the histories they record."""
